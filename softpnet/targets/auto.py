"""Automatic: exact targets where the rule is compiled, a solver's where the rule is a model, k-best otherwise."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.rules.compile import compilation, known_labels
from softpnet.targets import exact, kbest
from softpnet.targets.source import Info, Query, State, TargetSource
from softpnet.task.settings import Settings
from softpnet.task.task import Task


class Source(TargetSource):
    """Labels that the compiled rule knows have exact targets, all others those of the best source that there is."""

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        super().__init__(task, settings, generator)
        self.compilation = compilation(task)
        self.exact = None if self.compilation.rule is None else exact.Source(task, settings, generator)
        second = kbest
        self.second, self.second_name = second.Source(task, settings, generator), second.__name__.rpartition(".")[2]
        self.unknown = 0  # labels that the compiled rule does not know

    def start(self, labels: Tensor) -> State:
        known = known_labels(self.task, labels)
        self.unknown = int((~known).sum())
        # With nothing left to it, the second source has nothing to remember.
        return self.second.start(labels) if self.unknown or self.exact is None else self.exact.start(labels)

    def target(self, state: State, query: Query, generator: Generator) -> tuple[Tensor, Info]:
        if self.exact is None:
            return self.second.target(state, query, generator)
        if not self.unknown:
            return self.exact.target(state, query, generator)
        known = known_labels(self.task, query.labels)  # [B]
        target = torch.zeros_like(query.log_p)
        target[known], info = self.exact.target(state, query.part(known), generator)
        if not known.all():
            target[~known], info = self.second.target(state, query.part(~known), generator)
        return target, info

    def remedy(self) -> str:
        return self.second.remedy()

    def remarks(self) -> list[str]:
        return self.second.remarks() if self.exact is None or self.unknown else []

    def notes(self) -> list[str]:
        said = f"the rule is {self.compilation}"
        if self.exact is None:
            return [f"targets: {self.second_name}, since {said}"]
        if self.unknown:
            return [f"targets: exact, and {self.second_name} for {self.unknown:,} examples of rare labels; {said}"]
        return [f"targets: exact, since {said}"]
