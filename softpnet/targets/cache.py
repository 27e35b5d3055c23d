"""The cache: working sets drawn from it once (Alg. 2), refined by a Metropolis walk at later encounters (Alg. 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError, user_code
from softpnet.rules.compile import compilation
from softpnet.rules.diagram import Diagram
from softpnet.rules.labels import check_entries_known, find_feasible
from softpnet.rules.make_cache import make_cache
from softpnet.rules.moves import redraw, same_label
from softpnet.rules.rows import Cache
from softpnet.targets.source import CandidateSource, Info, KeptRows, Query, State
from softpnet.targets.walk import metropolis, repeated
from softpnet.targets.weights import Candidates
from softpnet.task.settings import Settings
from softpnet.task.task import Move, Task
from softpnet.together import drawers


@dataclass
class WorkingSets(KeptRows):
    """K candidates of every example."""

    by_example = ("label", "started", "count", "rows")
    label: Tensor  # [N], whose rows of the cache the example walks on
    started: Tensor  # [N], whether its candidates have been drawn

    def tensors(self) -> dict[str, Tensor]:
        return {"started": self.started, "count": self.count, "rows": self.rows}  # labels follow from the examples


class Source(CandidateSource):
    """K candidates per example, drawn from the cache once and walked ever after."""

    anywhere = True
    draws_together = True
    cache: Cache
    move: Move

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        super().__init__(task, settings, generator)
        self.cache = make_cache(task, generator, settings.cache_rows)
        self.move = task.move or self._own_move()
        if task.corrupt is not None and self.cache.labels.dim() > 1:
            raise TaskError(f"task {task.name!r} has label vectors; corruption is for integer labels only")

    def _own_move(self) -> Move:
        """Of a task that brings none: another row of a complete list, or any row of the label by the compiled rule."""
        drawn = self.task.rows is None and not self.cache.complete.all()
        rule = compilation(self.task).rule if drawn else None
        return redraw(rule) if isinstance(rule, Diagram) else same_label(self.cache)

    def start(self, labels: Tensor) -> WorkingSets:
        """Empty working sets. An example of a corrupted label walks on rows of the label it is corrupted from."""
        check_entries_known(self.task, labels, "the cache", "use targets='exact' or 'kbest' where the method allows it")
        label = find_feasible(self.task, self.cache.labels, walked_labels(self.task, labels), labels)  # [N]
        kept, space = self.settings.working_set, self.task.space
        return WorkingSets(
            label=label.to(_smallest_type(len(self.cache.labels))),
            started=torch.zeros(len(labels), dtype=torch.bool),
            count=torch.zeros(len(labels), dtype=_smallest_type(kept + 1)),
            rows=torch.zeros(len(labels), kept, space.k, dtype=self.cache.rows.dtype),
            values=torch.tensor(space.sizes),
        )

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, Info]:
        assert isinstance(state, WorkingSets)
        ids, log_p, settings = query.ids, query.log_p, self.settings
        label, rows, valid = state.label[ids].long(), state.rows[ids].long(), state.valid(ids)  # [B], [B, K, k], [B, K]
        new = ~state.started[ids]
        # A set that already holds every cached row of its label has nowhere to go: walking it could only lose rows.
        free = ~new & (self.cache.counts[label] > settings.working_set) & (query.epoch % settings.walk_every == 0)
        corrupt = self.task.corrupt
        wrong = torch.zeros_like(new) if corrupt is None else query.labels == corrupt.label
        info: Info = {}
        fresh, walking, corrupted = drawers(self.together, [new, free, wrong])
        if fresh is not None:
            drawn = settings.working_set * settings.draw_factor
            asked = None if self.together is None else self.together.joined(label[new])[0]
            with fresh.drawing:
                found, fits = self.cache.draw(
                    label[fresh.chosen], log_p[fresh.chosen], drawn, settings.working_set, generator, asked
                )
            rows[new], valid[new] = found[: fresh.own], fits[: fresh.own]
        if walking is not None:
            with (
                user_code(f"the move of task {self.task.name!r} cannot be made on {rows.device}, where the network is"),
                walking.drawing,
            ):
                moved, acceptance = self._walk(rows[walking.chosen], log_p[walking.chosen], query.gamma, generator)
            rows[free] = moved[: walking.own]
            info |= {"acceptance": acceptance} if walking.own else {}
        state.started[ids] = True
        state.count[ids] = valid.sum(1).to(state.count.dtype)  # the best come first, so that they are the first ones
        state.rows[ids] = rows.to(state.rows.dtype)
        if corrupt is not None and corrupted is not None:
            with user_code(f"rows of task {self.task.name!r} cannot be corrupted on {rows.device}"), corrupted.drawing:
                rows[wrong] = corrupt.apply(rows[corrupted.chosen], generator)[: corrupted.own]
        valid = valid & ~repeated(self.task.space.keys(rows))
        info["distinct"] = float(valid.sum(1).float().mean())
        return Candidates(rows, valid), info

    def remarks(self) -> list[str]:
        every, epochs = self.settings.walk_every, self.settings.epochs
        still = 1 < epochs <= every
        return [f"walk_every is {every} of {epochs} epochs: the walk never takes a step"] if still else []

    def _walk(self, rows: Tensor, log_p: Tensor, gamma: float, generator: Generator) -> tuple[Tensor, float]:
        """Candidates `[B, K, k]` after their steps, and the share of proposals of another state that were accepted."""
        proposals = moves = torch.zeros((), dtype=torch.int64, device=rows.device)
        for _ in range(self.settings.walk_steps):
            rows, proposed, moved = metropolis(rows, log_p, self.move, gamma, generator)
            proposals, moves = proposals + proposed.sum(), moves + moved.sum()
        return rows, float(moves / proposals.clamp_min(1))


def walked_labels(task: Task, labels: Tensor) -> Tensor:
    """The label whose rows each example keeps: its own, or the one that it is corrupted from."""
    if task.corrupt is None:
        return labels
    return torch.where(labels == task.corrupt.label, task.corrupt.source, labels)


def _smallest_type(values: int) -> torch.dtype:
    """The smallest integer type that holds 0 .. values - 1."""
    return next(t for t in (torch.uint8, torch.int16, torch.int32, torch.int64) if values - 1 <= torch.iinfo(t).max)
