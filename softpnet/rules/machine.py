"""Machine: a rule that reads the concepts one after the other and remembers a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError, TaskError, user_code
from softpnet.rules.diagram import CompiledRule, Diagram
from softpnet.rules.function import some_rows
from softpnet.rules.labels import UNKNOWN, unique_labels, unknown_entries
from softpnet.rules.merge import check_budget, merged_diagram
from softpnet.rules.sifting import sifted
from softpnet.rules.sweeps import Layers
from softpnet.task.concepts import ConceptSpace
from softpnet.task.integers import any_entry, is_integer

LARGEST = 20_000_000
"""No layer that is unrolled for a batch has more edges."""


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
        self.step, self.label, self.accept, self.rule, self.order = step, label, accept, rule, order
        try:
            self.start = torch.tensor(start)
        except (TypeError, ValueError, RuntimeError):
            self.start = torch.tensor(-1)
        if not is_integer(self.start) or self.start.dim() > 1 or (self.start < 0).any():
            raise TaskError(f"the start of a Machine is {start!r}, expected a whole number, 0 or more, or a tuple")

    def __call__(self, rows: Tensor) -> Tensor:
        """Assignments `[..., k]` -> labels `[...]` or `[..., m]`."""
        return self.rule(rows) if self.rule is not None else self._run(rows)

    def _run(self, rows: Tensor) -> Tensor:
        flat = rows.reshape(-1, rows.shape[-1])
        states = self.start.to(rows.device).expand(len(flat), *self.start.shape)
        for concept in self.reads(rows.shape[-1]):
            states = self._stepped(states, concept, flat[:, concept])
        labels = self._labels(states)
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
        diagram = merged_diagram(space, order, edges, self._labels(states))
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

    def _labels(self, states: Tensor) -> Tensor:
        """Of the last states, checked."""
        assert self.label is not None
        with user_code("the label of the Machine cannot be found"):
            labels = self.label(states)
        if not is_integer(labels) or labels.shape[:1] != states.shape[:1] or labels.dim() > 2:
            found = f"{labels.dtype} {list(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
            raise TaskError(
                f"the label of the Machine gives {found} for {len(states)} states, expected integers "
                f"[{len(states)}] or [{len(states)}, m]"
            )
        return labels.long()

    def accepted(self, states: Tensor, labels: Tensor) -> Tensor:
        """Which last states have their labels, checked, `[S]`."""
        assert self.accept is not None
        with user_code("what the Machine accepts cannot be found"):
            found = self.accept(states, labels)
        if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != states.shape[:1]:
            shown = f"{found.dtype} {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            expected = f"bool [{len(states)}]"
            raise TaskError(f"accept of the Machine gives {shown} for {len(states)} states, expected {expected}")
        return found

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
    """A machine that sees the label, unrolled for each batch: an example's nodes are the states that it can reach."""

    at_once = 64  # each label has edges of its own

    def __init__(self, machine: Machine, space: ConceptSpace) -> None:
        self.machine, self.space, self.order = machine, space, machine.reads(space.k)
        rows = some_rows(space, 256)
        labels = machine(rows)
        self.label_shape, self.seen = labels.shape[1:], labels
        others = labels.roll(1, 0)
        for asked, verb in ((labels, "does not accept"), (others, "accepts another label than")):
            wrong = self.contains(rows, asked) != ~any_entry(asked != labels)
            if wrong.any():
                raise TaskError(
                    f"the Machine {verb} the label that its rule gives to a row, as {rows[wrong][0].tolist()}; correct "
                    "one of them"
                )

    def layers(self, labels: Tensor) -> Layers:
        machine, batch = self.machine, len(labels)
        if labels.shape[1:] != self.label_shape:
            expected = list(("N", *self.label_shape))
            raise InputError(f"labels have shape {list(labels.shape)}, but the rule of the Machine gives {expected}")
        if unknown_entries(self.seen, labels).any():
            raise InputError(
                f"a label has an unknown entry ({UNKNOWN}), which a Machine that sees the label cannot use; drop such "
                "examples, or write the Machine with label=..."
            )
        example = torch.arange(batch, device=labels.device)  # [S], whose state each is
        states = machine.start.to(labels.device).expand(batch, *machine.start.shape)  # [S] or [S, s]
        node, width, edges = torch.zeros_like(example), 1, []  # [S], its number among the example's
        for concept in self.order:
            size = self.space.sizes[concept]
            if width * size * batch > LARGEST:
                raise TaskError(
                    f"the Machine reaches {width:,} states before concept {concept} for {batch} labels, more than can "
                    f"be unrolled ({LARGEST:,} edges); let its step forget more, or train with a smaller batch_size"
                )
            many, _, value = _with_every_value(states, size, concept)
            node, example = node.repeat_interleave(size), example.repeat_interleave(size)
            after = machine._stepped(many, concept, value, labels.index_select(0, example))
            kept = (~any_entry(after < 0)).nonzero().squeeze(1)
            begin = ((node * size + value) * batch + example)[kept]  # places in the layer
            states, example, node, end = _own_states(after[kept], example[kept])
            following = int(node.max()) + 1 if len(node) else 0
            layer = node.new_full((width + 1, size, batch), following)  # what is rejected goes to the last
            layer.view(-1)[begin] = end
            edges.append(layer)
            width = following
        accepted = torch.zeros(width + 1, batch, dtype=torch.bool, device=labels.device)
        accepted[node, example] = machine.accepted(states, labels[example])
        return Layers(self.order, edges, accepted)

    def contains(self, rows: Tensor, labels: Tensor) -> Tensor:
        machine, shape = self.machine, rows.shape[:-1]
        rows, labels = rows.reshape(-1, rows.shape[-1]), labels.reshape(-1, *self.label_shape)
        states = machine.start.to(rows.device).expand(len(rows), *machine.start.shape)
        alive = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        for concept in self.order:
            states = machine._stepped(states, concept, rows[:, concept], labels)
            alive &= ~any_entry(states < 0)
            states = states.clamp_min(0)
        return (alive & machine.accepted(states, labels)).view(shape)


def _with_every_value(states: Tensor, size: int, concept: int) -> tuple[Tensor, int, Tensor]:
    """Each state with each value of a concept: states `[S * h_i]`, the concept, values `[S * h_i]`."""
    values = torch.arange(size, device=states.device).repeat(len(states))
    return states.repeat_interleave(size, 0), concept, values


def _own_states(states: Tensor, example: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The distinct states of each example, whose they are, their number among the example's, `[S']` each; and the
    number of each given one `[S]`."""
    if states.dim() == 1 and len(states) > 0 and int(states.max()) < 2**31:  # such states number themselves
        count = int(states.max()) + 1
        pairs, place = (example * count + states).unique(return_inverse=True)  # sorted by example
        states, example = pairs % count, pairs // count
    else:
        kinds, kind = unique_labels(states)
        pairs, place = (example * max(1, len(kinds)) + kind).unique(return_inverse=True)
        states, example = kinds[pairs % max(1, len(kinds))], pairs // max(1, len(kinds))
    node = torch.arange(len(pairs), device=pairs.device) - torch.searchsorted(example, example)
    return states, example, node, node[place]


def check_order(order: Any, space: ConceptSpace) -> None:
    """Raise unless every concept is read exactly once."""
    try:
        fine = order is None or sorted(order) == list(range(space.k))
    except TypeError:
        fine = False
    if not fine:
        shown = list(order) if isinstance(order, Iterable) else order
        raise TaskError(f"the order of the concepts is {shown}, expected each of 0 to {space.k - 1} exactly once")
