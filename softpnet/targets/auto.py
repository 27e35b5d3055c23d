"""Automatic: exact targets where the rule is compiled, a solver's where it is a constraint model, k-best otherwise."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.rules.compile import compilation, is_total, known_labels
from softpnet.rules.solvers.constraints import ConstraintModel
from softpnet.targets import exact, kbest, solver
from softpnet.targets.source import Info, Query, State, TargetSource
from softpnet.task.settings import Settings
from softpnet.task.task import Task


class Source(TargetSource):
    """Exact targets for the labels that the compiled rule knows; for all others those of the next best source."""

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        super().__init__(task, settings, generator)
        self.compilation = compilation(task)
        self.exact = None if self.compilation.rule is None else exact.Source(task, settings, generator)
        asked = isinstance(task.rule, ConstraintModel) and self.exact is None
        self.second_name, second = ("solver", solver.Source) if asked else ("kbest", kbest.Source)
        self.second: TargetSource = second(task, settings, generator)
        self.anywhere = self.exact is not None or self.second.anywhere
        self.unknown = 0  # examples whose label the compiled rule does not know

    def start(self, labels: Tensor) -> State:
        doubted = self.settings.label_noise and is_total(self.task)  # then an impossible label is a wrong one
        self.unknown = 0 if doubted else int((~known_labels(self.task, labels)).sum())
        if self.unknown or self.exact is None:
            return self.second.start(labels)
        self.balances = self.doubts_labels = True
        return self.exact.start(labels)

    def target(self, state: State, query: Query, generator: Generator) -> tuple[Tensor, Info]:
        if self.exact is None:
            return self.second.target(state, query, generator)
        if not self.unknown:
            return self.exact.target(state, query, generator)
        known = known_labels(self.task, query.labels)  # [B]
        target, info = torch.zeros_like(query.log_p), Info()
        for chosen, source in ((known, self.exact), (~known, self.second)):
            if chosen.any():
                target[chosen], said = source.target(state, query.part(chosen), generator)
                info |= said
        return target, info

    def remedy(self) -> str:
        return self.second.remedy()

    def remarks(self) -> list[str]:
        return self.second.remarks() if self.exact is None or self.unknown else []

    def notes(self) -> list[str]:
        if self.exact is None:
            return [f"targets: {self.second_name}, since the rule is {self.compilation}"]
        rest = f", and {self.second_name} for {self.unknown:,} examples of rare labels" if self.unknown else ""
        rest += ", so that balance is off" if self.unknown and self.settings.balance else ""
        return [f"targets: exact{rest}; the rule is {self.compilation}", *self.exact.wrong_notes()]
