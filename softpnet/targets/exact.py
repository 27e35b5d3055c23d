"""Exact: the marginals of all feasible assignments, by one sweep over the compiled rule; nothing is left out."""

from __future__ import annotations

from torch import Generator, Tensor

from softpnet.errors import TaskError
from softpnet.rules.compile import check_known, compilation
from softpnet.rules.diagram import CompiledRule
from softpnet.targets.source import Info, Query, State, TargetSource
from softpnet.task.settings import Settings
from softpnet.task.task import Task


class Source(TargetSource):
    """The tempered marginal over all of S(y); nothing is drawn, and nothing is remembered."""

    rule: CompiledRule

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        super().__init__(task, settings, generator)
        found = compilation(task)
        if found.rule is None:
            raise TaskError(
                f"targets='exact' needs a compiled rule, but that of task {task.name!r} is {found}; "
                "targets='auto' takes what there is"
            )
        self.rule = found.rule

    def start(self, labels: Tensor) -> State:
        check_known(self.task, labels)
        return State()

    def target(self, state: State, query: Query, generator: Generator) -> tuple[Tensor, Info]:
        return self.rule.marginals(query.log_p, query.labels, self.settings.target_gamma(query.gamma)), {}

    def notes(self) -> list[str]:
        return [f"targets: exact; the rule is {compilation(self.task)}"]
