"""Machine: a rule that reads the concepts one after the other and remembers a state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError, TaskError
from softpnet.rules.diagram import CompiledRule, Diagram
from softpnet.rules.function import some_rows
from softpnet.rules.labels import unique_labels
from softpnet.rules.merge import check_budget, merged_diagram, sifted
from softpnet.rules.sweeps import Layers
from softpnet.task.concepts import ConceptSpace
from softpnet.task.integers import is_integer


class Machine:
    """A rule as a state machine, vectorised over states. States are whole numbers `[S]`, or vectors of them `[S, s]`.

    `Machine(start, step, label)`: `step(states, concept, values)` gives the next states, `label(states)` the labels of
    the last ones. The reachable states become a diagram.

    `Machine(start, step, accept=..., rule=...)`, for labels with too many values to list: here `step(states, concept,
    values, labels)` sees the example's label and rejects by a negative state, and `accept(states, labels)` says which
    last states have it. The sweep's tables are made for each batch.

    Args:
        start: the state before the first concept, a whole number or a tuple of them.
        step: reads one concept: states `[S]` or `[S, s]`, its number, values `[S]` -> states.
        label: labels `[S]` or `[S, m]` of the last states.
        accept: which last states have the label, `[S]` of bool; `step` then gets labels too.
        rule: the same as a function of whole rows, `[..., k] -> [...]`; needed with `accept`, else for speed.
        order: the order in which the concepts are read; a good one is looked for unless given.

    >>> import softpnet as sp
    >>> parity = sp.Machine(0, lambda states, concept, values: (states + values) % 2, label=lambda states: states)
    """

    def __init__(
        self,
        start: int | Sequence[int],
        step: Callable[..., Tensor],
        label: Callable[[Tensor], Tensor] | None = None,
        *,
        accept: Callable[[Tensor, Tensor], Tensor] | None = None,
        rule: Callable[[Tensor], Tensor] | None = None,
        order: Sequence[int] | None = None,
    ) -> None:
        if (label is None) == (accept is None):
            raise TaskError("a Machine takes either label=..., or accept=... and rule=...")
        if accept is not None and rule is None:
            raise TaskError("a Machine with accept=... cannot say which label a row has; give it rule=... too")
        self.start, self.step, self.label, self.accept, self.rule = torch.tensor(start), step, label, accept, rule
        self.order = order
        if not is_integer(self.start) or self.start.dim() > 1 or (self.start < 0).any():
            raise TaskError(f"the start of a Machine is {start!r}, expected a whole number, 0 or more, or a tuple")

    def __call__(self, rows: Tensor) -> Tensor:
        """Assignments `[..., k]` -> labels `[...]` or `[..., m]`."""
        return self.rule(rows) if self.rule is not None else self._run(rows)

    def _run(self, rows: Tensor) -> Tensor:
        assert self.label is not None
        flat = rows.reshape(-1, rows.shape[-1])
        states = self.start.to(rows.device).expand(len(flat), *self.start.shape)
        for concept in self.reads(rows.shape[-1]):
            states = self._stepped(states, concept, flat[:, concept])
        labels = self.label(states)
        return labels.reshape(*rows.shape[:-1], *labels.shape[1:])

    def reads(self, k: int) -> tuple[int, ...]:
        """The concepts in the order in which they are read."""
        return tuple(range(k)) if self.order is None else tuple(self.order)

    def compiled(self, space: ConceptSpace) -> CompiledRule:
        """The diagram of the reachable states; or, where the label decides, what unrolls itself for each batch."""
        check_order(self.order, space)
        if self.accept is not None:
            return Unrolled(self, space)
        states, edges = self.start[None], []
        order = self.reads(space.k)
        for concept in order:
            every = self._stepped(*_with_every_value(states, space.sizes[concept], concept))
            if (every < 0).any():
                raise TaskError(
                    f"the step of the Machine leaves its states: it goes to {every[every < 0][0].item()} at concept "
                    f"{concept}, expected 0 or more; only a machine with accept=... may reject"
                )
            states, place = unique_labels(every)
            edges.append(place.view(-1, space.sizes[concept]))
            check_budget([len(layer) for layer in edges])
        assert self.label is not None
        diagram = merged_diagram(space, order, edges, self.label(states))
        self._compare(diagram)
        return diagram if self.order is not None else sifted(diagram)

    def _stepped(self, states: Tensor, concept: int, *seen: Tensor) -> Tensor:
        """The next states, checked. `seen`: values, and labels where the machine sees them."""
        try:
            after = self.step(states.clone(), concept, *seen)
        except Exception as error:
            raise TaskError(
                f"the step of the Machine failed at concept {concept} on {len(states)} states at once: {error!r}; it "
                "must work on all of them together, as in (states + values) % 2"
            ) from error
        if not is_integer(after) or after.shape != states.shape:
            found = f"{after.dtype} {list(after.shape)}" if isinstance(after, Tensor) else type(after).__name__
            raise TaskError(
                f"the step of the Machine gives {found} for {len(states)} states, expected integers of shape "
                f"{list(states.shape)}; it must work on all states together and keep their shape"
            )
        return after.long()

    def _compare(self, diagram: Diagram) -> None:
        """Raise where the diagram differs from what the machine, or its rule, says of single rows."""
        rows = some_rows(diagram.space, 1000)
        given = self(rows)
        wrong = ~diagram.contains(rows, given)
        if wrong.any():
            at = int(wrong.nonzero()[0])
            raise TaskError(
                f"the Machine and its rule disagree on row {rows[at].tolist()}: the rule gives {given[at].tolist()}; "
                "correct one of them, and make sure that step looks at each state by itself"
            )


class Unrolled(CompiledRule):
    """A machine that sees the label, unrolled for each batch: its nodes are the states that any example can reach."""

    def __init__(self, machine: Machine, space: ConceptSpace) -> None:
        self.machine, self.space, self.order = machine, space, machine.reads(space.k)
        rows = some_rows(space, 256)
        labels = machine(rows)
        self.label_shape = labels.shape[1:]
        refused = ~self.contains(rows, labels)
        if refused.any():
            raise TaskError(
                "the Machine does not accept the label that its rule gives to a row, as "
                f"{rows[refused][0].tolist()}; correct one of them"
            )

    def layers(self, labels: Tensor) -> Layers:
        machine, batch = self.machine, len(labels)
        if labels.shape[1:] != self.label_shape:
            expected = list(("N", *self.label_shape))
            raise InputError(f"labels have shape {list(labels.shape)}, but the rule of the Machine gives {expected}")
        states, edges = machine.start[None].to(labels.device), []
        for concept in self.order:
            size, width = self.space.sizes[concept], len(states)
            many, _, values = _with_every_value(states, size, concept)
            after = machine._stepped(
                many.repeat_interleave(batch, 0), concept, values.repeat_interleave(batch), _tiled(labels, len(many))
            )
            rejected = (after < 0).reshape(len(after), -1).any(1)
            after = after.masked_fill(rejected.view(-1, *[1] * (after.dim() - 1)), -1)
            states, place = unique_labels(torch.cat([torch.full_like(after[:1], -1), after]))  # the rejected ones first
            states, place = states[1:], (place[1:] - 1) % len(states)  # and now last
            layer = place.view(width, size, batch)
            edges.append(torch.cat([layer, layer.new_full((1, size, batch), len(states))]))
        return Layers(self.order, edges, self._accepted(states, labels))

    def _accepted(self, states: Tensor, labels: Tensor) -> Tensor:
        """Which last states have each label, `[S + 1, B]`; the last one is where rejected ones go."""
        assert self.machine.accept is not None
        every = self.machine.accept(states.repeat_interleave(len(labels), 0), _tiled(labels, len(states)))
        return torch.nn.functional.pad(every.view(len(states), len(labels)), (0, 0, 0, 1), value=False)

    def contains(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Whether the machine accepts each row `[M, k]` for its label, `[M]`."""
        machine = self.machine
        assert machine.accept is not None
        states = machine.start.expand(len(rows), *machine.start.shape)
        alive = torch.ones(len(rows), dtype=torch.bool)
        for concept in self.order:
            states = machine._stepped(states, concept, rows[:, concept], labels)
            alive &= ~(states < 0).reshape(len(rows), -1).any(1)
            states = states.clamp_min(0)
        return alive & machine.accept(states, labels)


def _with_every_value(states: Tensor, size: int, concept: int) -> tuple[Tensor, int, Tensor]:
    """Each state with each value of a concept: states `[S * h_i]`, the concept, values `[S * h_i]`."""
    values = torch.arange(size, device=states.device).repeat(len(states))
    return states.repeat_interleave(size, 0), concept, values


def _tiled(labels: Tensor, times: int) -> Tensor:
    """The labels so many times, one after the other."""
    return labels.repeat(times, *[1] * (labels.dim() - 1))


def check_order(order: Any, space: ConceptSpace) -> None:
    """Raise unless every concept is read exactly once."""
    if order is not None and sorted(order) != list(range(space.k)):
        raise TaskError(f"the order of the concepts is {list(order)}, expected each of 0 to {space.k - 1} exactly once")
