"""One contender's race against the clock: how well it reads the test set after how many seconds of training.

The clock stands while the contender is judged.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from softpnet.task.data import Data
    from softpnet.task.task import Task

SHARES = (0.95, 0.98, 0.99)
"""Of the ceiling: what it takes to get there is compared."""


class Finished(Exception):
    """Nothing is left to measure; ends a peer's own training loop from inside."""


@dataclass(frozen=True)
class Contest:
    """A task, and the longest that a contender may train on it."""

    title: str
    task: str
    options: Mapping[str, str]
    settings: Mapping[str, Any]
    seconds: float
    every: float  # seconds of training between two judgements


CONTESTS = {
    "evenodd": Contest(
        "EvenOdd, 1,600 pairs", "mnist_evenodd", {"train": "1600"}, {"epochs": 10, "batch_size": 32}, 45, 0.5
    ),
    "sudoku": Contest("Sudoku", "visual_sudoku", {}, {}, 180, 5),
    "window": Contest(
        "Kand-Logic, window crops, 1,000 scenes",
        "kand_logic",
        {"crop": "window", "train": "1000"},
        {"epochs": 8},
        180,
        5,
    ),
}


@dataclass
class Race:
    """Data, clock and row of one contender."""

    name: str
    contest: str = "evenodd"
    seed: int = 0
    enough: float = 1.0
    """Concept accuracy at which the race is over."""
    row: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.rules = CONTESTS[self.contest]
        self.row = {"name": self.name, "contest": self.contest, "seed": self.seed, "error": None, "curve": []}
        self.used, self.since = 0.0, 0.0
        self.read: Callable[[], Tensor] | None = None

    @functools.cached_property
    def given(self) -> tuple[Task, Data]:
        """The task and its data."""
        from softpnet import tasks
        from softpnet.task.data import make_data
        from softpnet.training.streams import Streams

        task = tasks.load(self.rules.task, dict(self.rules.options))
        return task, make_data(task, Streams(self.seed))

    def begin(self, read: Callable[[], Tensor]) -> None:
        """The clock starts; `read` gives the concepts `[N, k]` that the contender sees in the test set now."""
        self.read, self.since = read, time.perf_counter()

    def saw(self, examples: int = 0) -> None:
        """Called after every update. Judges when it is time to, and raises Finished when all is measured."""
        self.used += time.perf_counter() - self.since
        curve = self.row["curve"]
        if self.used >= (curve[-1][0] if curve else 0.0) + self.rules.every:
            self.judge()
        if self.used >= self.rules.seconds or (curve and curve[-1][1] >= self.enough):
            raise Finished
        self.since = time.perf_counter()

    def judge(self) -> None:
        """Add a point to the curve, and print the row so far: it is what is left of a process that is cut off."""
        assert self.read is not None
        task, data = self.given
        test, found = data.tests["test"], self.read()
        assert test.concepts is not None
        right = (found == test.concepts).float().mean(), (task.rule(found) == test.labels).float().mean()
        self.row["curve"].append([round(self.used, 2), *(round(float(share), 4) for share in right)])
        print(json.dumps(self.row), file=sys.__stdout__, flush=True)


def time_to(curve: list[list[float]], level: float) -> float | None:
    """Seconds until the concepts are read as well as that, if ever."""
    return next((seconds for seconds, concept, _ in curve if concept >= level), None)
