"""What the checks of a task found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from softpnet.errors import TaskError

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
        summary = ", ".join(f"{times} {outcome}" for outcome, times in total.items())
        return "\n".join([*lines, f"task {self.task!r}: {summary}"])

    __repr__ = __str__  # what a notebook shows
