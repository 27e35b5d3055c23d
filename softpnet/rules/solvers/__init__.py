"""Rules that a solver knows: it lists their solutions once, and these become rows and a diagram."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from softpnet.catalogue import optional_package
from softpnet.errors import InputError, TaskError

if TYPE_CHECKING:
    from torch import Tensor

    from softpnet.rules.diagram import Diagram
    from softpnet.task.concepts import ConceptSpace
    from softpnet.task.rows import Rows

LIMIT = 100_000
"""A solver stops after so many solutions: counted, so that a busy machine compiles what a quiet one does."""
SECONDS = 300.0
"""And after so long, should it find hardly any."""


class Solutions(NamedTuple):
    """What a solver found. A row may come several times, where solutions differ in auxiliary variables only."""

    rows: Sequence[Sequence[int]]  # the value of every concept
    labels: Sequence[Sequence[int]]  # the entries of the label; a single 1 where solutions are what has label 1
    complete: bool  # whether these are all


class Listed(ABC):
    """A rule whose solutions a solver lists. A subclass says how.

    Attributes:
        k: how many concepts it is about.
        labelled: whether something says the label of a solution; else they have the label 1, and all else 0.
        entries: how many its label vectors have; None where a label is a number.
        other: the label of an assignment that is no solution.
        rule: the same as a vectorised function, to check what the solver says; used in its place where it is given.
        order: in which order the diagram reads the concepts.
    """

    what: str
    """Where solutions come from, as in "a CPMpy model"."""
    instead: str
    """What to do where there are too many of them."""

    def __init__(
        self,
        k: int,
        labelled: bool,
        entries: int | None,
        other: int | Sequence[int],
        rule: Callable[[Tensor], Tensor] | None,
        order: Sequence[int] | None,
        limit: int,
        seconds: float,
    ) -> None:
        self.k, self.labelled, self.entries = k, labelled, entries
        self.other = other if labelled else 0
        self.rule, self.order = rule, order
        if limit < 1 or not seconds > 0:
            raise InputError(f"limit is {limit} and seconds is {seconds}, expected both above 0")
        self.limit, self.seconds = limit, seconds

    @abstractmethod
    def solutions(self) -> Solutions:
        """Ask the solver, for at most `limit` solutions and `seconds`."""

    @abstractmethod
    def label_of(self, row: list[int]) -> list[int] | None:
        """The entries of one assignment's label; None where it is no solution."""

    @cached_property
    def found(self) -> tuple[Rows, bool]:
        """The distinct solutions, checked, and whether they are all."""
        import torch

        from softpnet.rules.labels import unique_labels
        from softpnet.task.rows import Rows

        rows, labels, complete = self.solutions()
        if not rows:
            if complete:
                raise TaskError(f"{self.what} has no solution at all: no assignment satisfies it; correct the rule")
            raise TaskError(f"the solver found no solution of {self.what} in {self.seconds:g} s; raise seconds")
        every = torch.cat([torch.tensor(rows), torch.tensor(labels)], 1).unique(dim=0)  # [M, k + m]
        found, entries = every[:, : self.k], every[:, self.k :]
        twice = (found[1:] == found[:-1]).all(1)
        if twice.any():
            at = int(twice.nonzero()[0])
            raise TaskError(
                f"{self.what} gives row {found[at].tolist()} two labels, {entries[at].tolist()} and "
                f"{entries[at + 1].tolist()}; a rule gives each assignment one"
            )
        listed = entries[:, 0] if self.entries is None else entries
        if (found < 0).any():
            raise self._outside(found[(found < 0).any(1)][0], "0 or more")
        self._check_by_rule(found, listed)
        covered = unique_labels(listed)[0] if complete else listed[:0]
        return Rows(found, covered, listed, other=self.other), complete

    def known_rows(self) -> Rows:
        """The solutions that were found; called complete for all their labels if none can be missing."""
        return self.found[0]

    @property
    def said(self) -> str:
        return f"from {len(self.known_rows().rows):,} solutions of {self.what}"

    def __call__(self, rows: Tensor) -> Tensor:
        """Assignments `[..., k]` -> labels `[...]` or `[..., m]`."""
        if self.rule is not None:
            return self.rule(rows)
        listed, complete = self.found
        return listed(rows) if complete else self._asked(rows)

    def compiled(self, space: ConceptSpace) -> Diagram:
        """The diagram of all solutions; every other assignment has the other label."""
        from softpnet.rules.diagram import NotCompiled
        from softpnet.rules.function import some_rows
        from softpnet.rules.machine import check_order
        from softpnet.rules.sifting import sifted
        from softpnet.rules.trie import from_rows

        check_order(self.order, space)
        self.check_sizes(space.sizes)
        listed, complete = self.found
        if not complete:
            raise NotCompiled(self._unfinished(len(listed.rows), space))
        outside = ~space.contains(listed.rows)
        if outside.any():
            raise self._outside(listed.rows[outside][0], f"0 to below {list(space.sizes)}")
        assert listed.labels is not None
        order = tuple(range(space.k)) if self.order is None else tuple(self.order)
        diagram = from_rows(space, listed.rows, listed.labels, order, listed.other_label)
        some = some_rows(space, 1000)
        self._check_by_rule(some, listed(some))
        return diagram if self.order is not None else sifted(diagram)

    def values(self, place: int) -> range | None:
        """Which values concept `place` can have at all; None where the solutions alone say it."""
        return None

    widen = ""
    """How concepts get values that they lack."""

    def check_sizes(self, sizes: Sequence[int]) -> None:
        """Raise unless there is something for every concept of the space, and for all its values."""
        if self.k != len(sizes):
            raise TaskError(
                f"{self.what} has variables for {self.k} concepts, but the space has {len(sizes)}; give one for each"
            )
        for place, size in enumerate(sizes):
            values = self.values(place)
            if values is not None and not (0 in values and size - 1 in values):
                raise TaskError(
                    f"{self.what} gives concept {place} values from {values[0]} to {values[-1]}, but the space has 0 "
                    f"to {size - 1}; {self.widen}"
                )

    def _unfinished(self, count: int, space: ConceptSpace) -> str:
        share = f" ({100 * count / space.size:.2g} % of all)" if self._all_are_solutions() else ""
        total = "the others are unknown" if share else "how many there are is unknown"
        return (
            f"the solver stopped at {count:,} solutions of {self.what}{share}, and {total}; raise limit, which is "
            f"{self.limit:,}, and seconds, which is {self.seconds:g}, or use {self.instead}"
        )

    def _all_are_solutions(self) -> bool:
        """Whether every assignment is one, so that their number is known."""
        return False

    def _asked(self, rows: Tensor) -> Tensor:
        """The labels of assignments `[..., k]`, asked for one by one."""
        import torch

        other = self.known_rows().other_label.reshape(-1).tolist()
        found = [self.label_of(row) or other for row in rows.reshape(-1, self.k).tolist()]
        shape = rows.shape[:-1] if self.entries is None else (*rows.shape[:-1], self.entries)
        return torch.tensor(found, device=rows.device).view(shape)

    def _check_by_rule(self, rows: Tensor, labels: Tensor) -> None:
        """Raise where the rule that was given beside the solver gives another label."""
        if self.rule is None:
            return
        given = self.rule(rows)
        if given.shape != labels.shape:
            raise TaskError(f"the rule gives labels of shape {list(given.shape)}, {self.what} {list(labels.shape)}")
        wrong = (given != labels).reshape(len(rows), -1).any(1)
        if wrong.any():
            at = int(wrong.nonzero()[0])
            raise TaskError(
                f"{self.what} and its rule disagree on row {rows[at].tolist()}: the solver says "
                f"{labels[at].tolist()}, the rule {given[at].tolist()}; correct one of them"
            )

    def _outside(self, row: Tensor, expected: str) -> TaskError:
        return TaskError(
            f"a solution of {self.what} is row {row.tolist()}, which lies outside the space, expected values from "
            f"{expected}; correct offset=, or what its variables may be"
        )


def package(name: str) -> Any:
    """A solver's package, which not everyone has."""
    return optional_package(name, "solvers")


def check_distinct(names: Sequence[Sequence[Any]], what: str) -> None:
    """Raise where a variable or atom stands for two concepts, or for two values of one; `names` has those of each."""
    places: dict[Any, int] = {}
    for place, name in ((place, name) for place, each in enumerate(names) for name in each):
        if name in places:
            raise TaskError(
                f"{what} {name} stands for concept {places[name]} and again for concept {place}; give each its own"
            )
        places[name] = place


def offsets(offset: int | Sequence[int], k: int) -> list[int]:
    """What is taken off each concept's values, so that they begin at 0."""
    found = [offset] * k if isinstance(offset, int) else list(offset)
    if len(found) != k:
        raise TaskError(f"offset has {len(found)} entries, expected a number or one for each of {k} concepts")
    return found
