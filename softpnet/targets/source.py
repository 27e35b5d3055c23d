"""What every source of soft targets offers."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError
from softpnet.rules.rows import Cache
from softpnet.rules.scoring import scores
from softpnet.targets.weights import Candidates, soft_target, weights
from softpnet.task.settings import Settings
from softpnet.task.task import Move, Task
from softpnet.together import Together

Info = dict[str, float]
"""Diagnostics of one step."""

UNTAUGHT = "untaught"
"""In a step's info, where there are any: its examples without a candidate, whose label taught nothing."""


@dataclass
class State:
    """What must be remembered from step to step: tensors, changed in place; a subclass names them, this has none."""

    by_example: ClassVar[tuple[str, ...]] = ()
    """Those that have a row for every example: of several processes, each keeps the rows of its own examples."""

    def keep_share(self, rank: int, processes: int, examples: int) -> None:
        """Keep the rows of the examples whose id is the rank modulo the number of processes."""
        if processes == 1:
            return
        for name, value in self.tensors().items():
            if name not in self.by_example and value.dim() and len(value) == examples:
                raise TaskError(
                    f"{name} of {type(self).__name__} has a row for each of the {examples:,} examples; of several "
                    f"processes each keeps its own rows, so name it in by_example = ({name!r},)"
                )
        for name in self.by_example:  # what a checkpoint leaves out too
            setattr(self, name, getattr(self, name)[rank::processes].clone())

    def tensors(self) -> dict[str, Tensor]:
        """By name, as a checkpoint keeps them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to(self, device: torch.device) -> None:
        """Move all of it there."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name).to(device))

    def check(self) -> None:
        """Raise a ValueError where a value is none that a step could have left, as in a forged checkpoint."""
        return None


@dataclass
class KeptRows(State):
    """Up to K candidates that every example keeps, in types as small as their values allow."""

    count: Tensor  # [N], how many there are: the first ones of its rows, the others are padding
    rows: Tensor  # [N, K, k]
    values: Tensor  # [k], how many each concept has

    by_example: ClassVar[tuple[str, ...]] = ("count", "rows")
    assignments: ClassVar[tuple[str, ...]] = ("rows",)
    """What is made of values of the concepts."""

    def check(self) -> None:
        for name, limit in {"count": self.rows.shape[1] + 1, **dict.fromkeys(self.assignments, self.values)}.items():
            found = getattr(self, name)
            if ((found < 0) | (found >= limit)).any():
                raise ValueError(f"its {name} are outside what they can be")

    def valid(self, ids: Tensor) -> Tensor:
        """Which of an example's rows are candidates, `[B, K]`."""
        return torch.arange(self.rows.shape[1], device=self.rows.device) < self.count[ids, None]


class Query(NamedTuple):
    """The examples of one step, as a source sees them; tensors on the network's device, or on the CPU."""

    ids: Tensor  # [B], their rows in the state
    labels: Tensor  # [B] or [B, m]
    log_p: Tensor  # [B, k, h], without gradient
    epoch: int
    gamma: float

    def part(self, chosen: Tensor) -> Query:
        """Some of the examples, `[B]` of bool."""
        return self._replace(ids=self.ids[chosen], labels=self.labels[chosen], log_p=self.log_p[chosen])


class TargetSource(ABC):
    """From log p and labels to the soft target. A file of this folder defines one as `Source`; so may a user's."""

    cache: Cache | None = None
    """The rows that it draws from, if there are any: `check_task` looks at them,"""
    move: Move | None = None
    """and at how they walk, if they do."""
    anywhere: bool = False
    """Whether it computes where the network does, on whichever device; one that does not gets and keeps all on the
    CPU."""
    together: Together | None = None
    """While several processes train together: what is taken over a batch is of the batch of all of them."""
    draws_together: bool = False
    """Whether it sees to it itself that what it draws for its rows is what one process would draw for them; for others
    the caller does, which can where every row of a batch draws."""
    balances: bool = False
    """Once started: whether its targets follow the setting `balance`."""
    doubts_labels: bool = False
    """Once started: whether its targets follow the setting `label_noise`; where they do not, it is refused."""

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        """The generator is for what is made once, before training."""
        self.task, self.settings = task, settings

    def start(self, labels: Tensor) -> State:
        """State before the first step for examples with these labels `[N]`; raises where a label is infeasible."""
        return State()

    def to(self, device: torch.device) -> None:
        """Once started: move the tables that every step asks there."""
        for name, value in vars(self).items():
            if isinstance(value, TargetSource):
                value.to(device)
            elif isinstance(value, (Tensor, Cache)):
                setattr(self, name, value.to(device))

    def share(self, together: Together | None) -> None:
        """From now on these processes train together; this one alone for None."""
        self.together = together
        for value in vars(self).values():
            if isinstance(value, TargetSource):
                value.share(together)

    @abstractmethod
    def target(self, state: State, query: Query, generator: Generator) -> tuple[Tensor, Info]:
        """The soft target `[B, k, h]` of the queried examples; the state is changed in place."""

    def remedy(self) -> str:
        """What to do where many examples get an empty target, as half a sentence."""
        return "look at the rule and the labels, or choose other targets"

    def notes(self) -> list[str]:
        """Once started: what a person should know of where the targets come from, a line each."""
        return []

    def remarks(self) -> list[str]:
        """Settings that take each other's effect away, a sentence each: `check_task` warns of them."""
        return []


class CandidateSource(TargetSource):
    """Targets that are marginals of weighted candidates."""

    @abstractmethod
    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, Info]:
        """Candidates of the queried examples; the state is changed in place."""

    def target(self, state: State, query: Query, generator: Generator) -> tuple[Tensor, Info]:
        found, info = self.candidates(state, query, generator)
        score = scores(query.log_p, found.rows)  # [B, K]
        weight = weights(score, found.valid, self.settings.target_gamma(query.gamma))
        return soft_target(found.rows, weight, self.task.space.h), info
