"""The task under check, with what several checks look at, made once."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor

from softpnet.learner import Learner
from softpnet.methods.base import Method
from softpnet.rules.make_cache import make_cache
from softpnet.rules.rows import Cache
from softpnet.targets.source import TargetSource
from softpnet.task.anchors import AnchorSet, arrange_anchors
from softpnet.task.data import Data, Examples, make_data
from softpnet.task.rows import Rows
from softpnet.task.task import Corruption, Move, Task
from softpnet.training.streams import Streams


class NotApplicable(Exception):
    """The task has nothing that this check could look at."""


def warned(message: str) -> str:
    """Warn: the check that returns this is no failure, but somebody should look at what it found."""
    warnings.warn(message, stacklevel=2)
    return message


class Subject:
    """A task, and its data, method, rows and move as a training with this seed and these settings would make them.

    What the task does not have, or the method does not use, raises NotApplicable, so that a check need not ask.
    """

    def __init__(self, task: Task, seed: int = 0, method: str | type[Method] = "softpnet", **settings: Any) -> None:
        self.seed, self.chosen, self.settings = seed, method, settings
        self.rows: Rows | None = None  # what the task's own function gave, once it was asked
        self.task = task if task.rows is None else dataclasses.replace(task, rows=self._remember(task.rows))

    def _remember(self, make: Callable[[Generator], Rows]) -> Callable[[Generator], Rows]:
        """Rows may take long to make: several checks ask for them."""

        def rows(generator: Generator) -> Rows:
            if self.rows is None:
                self.rows = make(generator)
            return self.rows

        return rows

    def generator(self, name: str) -> Generator:
        """A new generator for one check's draws, the same at every call."""
        return Streams(self.seed)(f"check {name}")

    @cached_property
    def model(self) -> Learner:
        """What would be trained; in one process, whatever is asked for."""
        model = Learner(self.task, method=self.chosen, seed=self.seed, **self.settings)
        model.hardware = dataclasses.replace(model.hardware, processes=1)
        return model

    @cached_property
    def method(self) -> Method:
        """The method, started as in training, but for no example: what it draws from and walks with is there."""
        method = self.model.method_class(self.task, self.model.settings, self.anchors)
        method.start(self.task.rule(torch.zeros(1, self.task.space.k, dtype=torch.int64))[:0], Streams(self.seed))
        return method

    @cached_property
    def cache(self) -> Cache:
        """The rows that the method uses."""
        source = self._source()
        found = None if source is None else source.cache
        if found is None and self.rows is not None:  # the rule was compiled from them
            found = make_cache(self.task, Streams(self.seed)("cache"))
        if found is None:
            raise NotApplicable(f"method {self.model.method!r} uses no rows with these settings")
        return found

    @cached_property
    def move(self) -> Move:
        """The task's move, or the one that tasks without one get."""
        found = self._walk()
        if self.method.task.move is not self.task.move:
            raise NotApplicable(f"method {self.model.method!r} walks by a move of its own")
        return found

    @cached_property
    def corrupt(self) -> Corruption:
        if self.task.corrupt is None:
            raise NotApplicable("the task corrupts no rows")
        self._walk()
        return self.task.corrupt

    def _walk(self) -> Move:
        source = self._source()
        if source is None or source.move is None:
            raise NotApplicable(f"method {self.model.method!r} does not walk with these settings")
        return source.move

    def _source(self) -> TargetSource | None:
        """Where the method's targets come from, if it has any."""
        return getattr(self.method, "source", None)

    @cached_property
    def anchors(self) -> list[AnchorSet]:
        """Per group; none where they are not known."""
        try:
            return arrange_anchors(self.task.space, self.data.anchors, self.data.train.inputs.shape[2:])
        except (Exception, SystemExit):  # the checks of data and anchors have said so
            return []

    @cached_property
    def data(self) -> Data:
        if self.task.data is None:
            raise NotApplicable("the task has no data=...")
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
