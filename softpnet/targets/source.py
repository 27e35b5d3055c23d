"""What every candidate source offers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Generator, Tensor

from softpnet.targets.weights import Candidates

State = dict[str, Tensor]
"""What a source must remember, by example id; empty for sources that remember nothing. Never changed in place."""

Info = dict[str, float]
"""Diagnostics of one step."""


class Query(NamedTuple):
    """The examples of one step, as a source sees them; tensors on the CPU."""

    ids: Tensor  # [B]
    labels: Tensor  # [B] or [B, m]
    log_p: Tensor  # [B, k, h], without gradient
    epoch: int
    gamma: float


class CandidateSource(Protocol):
    def start(self, labels: Tensor) -> State:
        """State before the first step for examples with these labels `[N]`; raises where a label is infeasible."""
        ...

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, State, Info]:
        """Candidates of the queried examples, and the state for the next step."""
        ...
