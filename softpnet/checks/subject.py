"""The task under check, with what several checks look at, made once."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Generator, Tensor

from softpnet.rules.moves import same_label
from softpnet.rules.rows import ENUMERABLE, Cache
from softpnet.task.data import Data, Examples, make_data
from softpnet.task.task import Corruption, Move, Rows, Task
from softpnet.training.streams import Streams


class NotApplicable(Exception):
    """The task has nothing that this check could look at."""


def warned(message: str) -> str:
    """Warn: the check that returns this is no failure, but somebody should look at what it found."""
    warnings.warn(message, stacklevel=2)
    return message


class Subject:
    """A task, and its rows, move and data as a run with this seed would make them.

    What the task does not have raises NotApplicable, so that a check need not ask.
    """

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed = task, seed

    def generator(self, name: str) -> Generator:
        """A new generator for one check's draws, the same at every call."""
        return Streams(self.seed)(f"check {name}")

    @cached_property
    def rows(self) -> Rows:
        """What the task's own function gives."""
        if self.task.rows is None:
            raise NotApplicable("the task brings no rows of its own")
        return self.task.rows(Streams(self.seed)("cache"))

    @cached_property
    def cache(self) -> Cache:
        task = self.task
        if task.rows is None and task.space.size > ENUMERABLE and task.settings.targets == "kbest":
            raise NotApplicable(f"k-best needs no rows, and {task.space.size:,} assignments are too many to list")
        return Cache.of(self.with_rows(), Streams(self.seed)("cache"))

    def with_rows(self) -> Task:
        """The task with the rows that were made already: they may have taken long."""
        if self.task.rows is None:
            return self.task
        return dataclasses.replace(self.task, rows=lambda generator: self.rows)

    @cached_property
    def move(self) -> Move:
        return self.task.move or same_label(self.cache)

    @cached_property
    def corrupt(self) -> Corruption:
        if self.task.corrupt is None:
            raise NotApplicable("the task corrupts no rows")
        return self.task.corrupt

    @cached_property
    def data(self) -> Data:
        if self.task.data is None:
            raise NotApplicable("the task has no data=..., which `softpnet train` needs and `fit` does not")
        return self.new_data()

    def new_data(self) -> Data:
        """The data, made anew from the same seed."""
        return make_data(self.task, Streams(self.seed))

    def sets(self) -> Iterable[tuple[str, Examples]]:
        """The training set and the test sets, by what a person calls them."""
        yield "training set", self.data.train
        for name, examples in self.data.tests.items():
            yield f"test set {name!r}", examples

    def walked(self) -> Tensor:
        """Which labels of the cache the walk stands on, `[L]`.

        An example of a corrupted label keeps rows of another, so the corrupted label's own rows are never walked.
        """
        labels, corrupt = self.cache.labels, self.task.corrupt
        if corrupt is None or labels.dim() > 1:
            return torch.ones(len(labels), dtype=torch.bool)
        return labels != corrupt.label

    def label_of_row(self) -> Tensor:
        """The index of each cached row's label, `[M]`."""
        return torch.arange(len(self.cache.counts)).repeat_interleave(self.cache.counts)

    def walked_rows(self, count: int) -> Tensor:
        """Up to so many rows that the walk stands on, `[M, k]`: one of each label, then a second of each, ..."""
        label = self.label_of_row()
        rank = torch.arange(len(label)) - self.cache.starts[label]  # [M], among the rows of the same label
        places = self.walked()[label].nonzero().flatten()
        places = places[rank[places].argsort(stable=True)][:count]
        if not len(places):
            raise NotApplicable("no row has a label that the walk stands on")
        return self.cache.rows[places].long()
