"""k-best: p(c|x) factorises, so the most probable assignments come exactly, and f_K filters them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from softpnet.candidates.cache import ENUMERABLE
from softpnet.candidates.source import Info, Query, State
from softpnet.labels import find_feasible
from softpnet.settings import Settings
from softpnet.targets import Candidates
from softpnet.task import Task


class KBest:
    """The K most probable assignments with the example's label among the T most probable of all; no cache."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.task, self.settings = task, settings

    def start(self, labels: Tensor) -> State:
        if self.task.space.size <= ENUMERABLE:
            known = self.task.label(self.task.space.all()).unique(dim=0)
            find_feasible(self.task, known, labels, labels)
        return {}

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, Info]:
        rows = most_probable(query.log_p, self.task.space.sizes, self.settings.pool)  # [B, T, k]
        fits = self.task.satisfies(rows, query.labels)  # [B, T]
        # A stable sort puts the survivors first and keeps their order, so the first K are the best K.
        order = (~fits).int().sort(dim=1, stable=True).indices[:, : self.settings.kept]  # [B, K]
        chosen = rows.gather(1, order[..., None].expand(-1, -1, rows.shape[2]))
        valid = fits.gather(1, order)
        return Candidates(chosen, valid), {"found": float(valid.any(1).float().mean())}


def most_probable(log_p: Tensor, sizes: Sequence[int], pool: int) -> Tensor:
    """The T = min(pool, size of the space) most probable assignments of each example, best first.

    log p `[B, k, h]`, number of values of each concept -> rows `[B, T, k]`. Concepts are merged one after the
    other: the best T prefixes of i + 1 concepts extend the best T prefixes of i.
    """
    batch, k, _ = log_p.shape
    score = log_p.new_zeros(batch, 1)
    rows = torch.zeros(batch, 1, k, dtype=torch.int64, device=log_p.device)
    for i, values in enumerate(sizes):
        extended = (score[:, :, None] + log_p[:, i, None, :values]).flatten(1)  # [B, T * h_i]
        score, place = extended.topk(min(pool, extended.shape[1]), dim=1)
        parent = place // values  # [B, T']
        rows = rows.gather(1, parent[..., None].expand(-1, -1, k))
        rows[:, :, i] = place % values
    return rows
