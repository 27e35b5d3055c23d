"""What the checks of a task found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from softpnet.errors import TaskError
from softpnet.task.concepts import ConceptSpace, Group

Outcome = Literal["passed", "warning", "failed", "not applicable", "not run"]
"""Not applicable: the task has nothing to check here. Not run: an earlier check, which this one builds on, failed."""


class Result(NamedTuple):
    """What one check found."""

    name: str
    outcome: Outcome
    message: str


def count(number: int, thing: str) -> str:
    """`count(2, "row")` -> "2 rows"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """`listed(["a", "b", "c", "d"], 2)` -> "a, b and 2 more"."""
    parts = list(names) if len(names) <= most else [*names[:most], f"{len(names) - most:,} more"]
    return " and ".join([", ".join(parts[:-1])] * (len(parts) > 1) + parts[-1:])


def attribute_names(space: ConceptSpace, group: Group) -> list[tuple[str, Sequence[str]]]:
    """Of each attribute of a group, what to say before a value's name, "" where it is clear, and the values' names."""
    of = f"{group.name} " if len(space.groups) > 1 else ""
    which = [f"attribute {at}: " if len(group.values) > 1 else "" for at in range(len(group.values))]
    return [(of + before, names) for before, names in zip(which, group.value_names, strict=True)]


@dataclass(frozen=True, repr=False)
class Report:
    """The results of all checks of a task, in order: `report.ok`, `report["rows"].message`, `print(report)`."""

    task: str
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed; warnings are allowed."""
        return not self.failures()

    def failures(self) -> list[Result]:
        """The checks that failed, each with its name and message."""
        return [result for result in self if result.outcome == "failed"]

    def raise_if_failed(self) -> Report:
        """Raise a TaskError that holds every failure; itself where there is none."""
        failures = self.failures()
        if failures:
            each = "\n".join(f"  {result.name}: {result.message}" for result in failures)
            raise TaskError(f"task {self.task!r} fails {count(len(failures), 'check')} of {len(self)}:\n{each}")
        return self

    def __getitem__(self, name: str) -> Result:
        for result in self:
            if result.name == name:
                return result
        raise KeyError(f"no check is named {name!r}; the checks are {', '.join(result.name for result in self)}")

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __str__(self) -> str:
        width = max(len(result.name) for result in self)
        lines = [f"{result.outcome:14}  {result.name:{width}}  {result.message}" for result in self]
        total = Counter(result.outcome for result in self)
        there = [outcome for outcome in get_args(Outcome) if total[outcome]]
        summary = ", ".join(count(total[o], o) if o == "warning" else f"{total[o]} {o}" for o in there)
        return "\n".join([*lines, f"task {self.task!r}: {summary}"])

    __repr__ = __str__  # what a notebook shows
