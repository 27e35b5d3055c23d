"""Working sets that a Metropolis walk refines: first draw (Alg. 2), steps at later encounters (Alg. 3)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError
from softpnet.rules.labels import find_feasible
from softpnet.rules.moves import same_label
from softpnet.rules.rows import Cache
from softpnet.rules.scoring import scores
from softpnet.targets.source import Info, Query, State
from softpnet.targets.weights import Candidates
from softpnet.task.settings import Settings
from softpnet.task.task import Move, Task


class CacheWalk:
    """K candidates per example, drawn from the cache once and walked ever after."""

    def __init__(self, task: Task, cache: Cache, settings: Settings) -> None:
        self.task, self.cache, self.settings = task, cache, settings
        self.move: Move = task.move or same_label(cache)
        if task.corrupt is not None and cache.labels.dim() > 1:
            raise TaskError(f"task {task.name!r} has label vectors; corruption is for integer labels only")

    def start(self, labels: Tensor) -> State:
        """Empty working sets. An example of a corrupted label walks on rows of the label it is corrupted from."""
        walked = walked_labels(self.task, labels)
        label = find_feasible(self.task, self.cache.labels, walked, labels)  # [N]
        kept, k = self.settings.working_set, self.task.space.k
        return {
            "label": label,
            "started": torch.zeros(len(labels), dtype=torch.bool),
            "rows": torch.zeros(len(labels), kept, k, dtype=torch.int64),
            "valid": torch.zeros(len(labels), kept, dtype=torch.bool),
        }

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, State, Info]:
        ids, log_p = query.ids, query.log_p
        label, rows, valid = (state[name][ids] for name in ("label", "rows", "valid"))  # [B], [B, K, k], [B, K]
        new = ~state["started"][ids]
        info: Info = {}
        if new.any():
            settings = self.settings
            rows[new], valid[new] = self.cache.draw(
                label[new], log_p[new], settings.working_set * settings.draw_factor, settings.working_set, generator
            )
        # A set that already holds every cached row of its label has nowhere to go: walking it could only lose rows.
        free = ~new & (self.cache.counts[label] > self.settings.working_set)
        if query.epoch % self.settings.walk_every == 0 and free.any():
            rows[free], info["acceptance"] = self._walk(rows[free], log_p[free], query.gamma, generator)
        state = state | {
            "started": state["started"].index_fill(0, ids, True),
            "rows": state["rows"].index_copy(0, ids, rows),
            "valid": state["valid"].index_copy(0, ids, valid),
        }
        corrupt = self.task.corrupt
        if corrupt is not None:
            wrong = query.labels == corrupt.label
            if wrong.any():
                rows[wrong] = corrupt.apply(rows[wrong], generator)
        valid = valid & ~repeated(self.task.space.keys(rows))
        info["distinct"] = float(valid.sum(1).float().mean())
        return Candidates(rows, valid), state, info

    def _walk(self, rows: Tensor, log_p: Tensor, gamma: float, generator: Generator) -> tuple[Tensor, float]:
        """Candidates `[B, K, k]` after their steps, and the share of proposals of another state that were accepted."""
        proposals = moves = torch.zeros((), dtype=torch.int64)
        for _ in range(self.settings.walk_steps):
            rows, proposed, moved = metropolis(rows, log_p, self.move, gamma, generator)
            proposals, moves = proposals + proposed.sum(), moves + moved.sum()
        return rows, float(moves / proposals.clamp_min(1))


def metropolis(
    rows: Tensor, log_p: Tensor, move: Move, gamma: float, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """One Metropolis step of every candidate `[B, K, k]` on p(c|x)^(1/gamma).

    Returns the new rows, which candidates had another state proposed, and which of them moved there, `[B, K]` each.

    A proposal c' is accepted with probability min(1, (p(c'|x) / p(c|x))^(1/gamma)), compared in log space.
    """
    proposal = move(rows, generator)
    log_ratio = (scores(log_p, proposal) - scores(log_p, rows)) / gamma
    accepted = torch.rand(log_ratio.shape, generator=generator).log() <= log_ratio
    proposed = (proposal != rows).any(-1)
    return torch.where(accepted[..., None], proposal, rows), proposed, accepted & proposed


def repeated(keys: Tensor) -> Tensor:
    """Which entries of each row of keys `[B, K]` have come before in it: R_K is a set, so each state counts once."""
    ordered, place = keys.sort(dim=1, stable=True)  # [B, K] each
    again = torch.nn.functional.pad(ordered[:, 1:] == ordered[:, :-1], (1, 0))  # [B, K], in the sorted order
    return torch.zeros_like(again).scatter(1, place, again)


def walked_labels(task: Task, labels: Tensor) -> Tensor:
    """The label whose rows each example keeps: its own, or the one that it is corrupted from."""
    if task.corrupt is None:
        return labels
    return torch.where(labels == task.corrupt.label, task.corrupt.source, labels)
