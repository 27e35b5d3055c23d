"""Solver: the best assignments with the label, found by CP-SAT, for a ConstraintModel that is too large to compile."""

from __future__ import annotations

import importlib
import signal
import weakref
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError, TrainingError
from softpnet.rules.labels import check_entries_known, find_feasible, unique_labels
from softpnet.rules.solvers import package
from softpnet.rules.solvers.constraints import ConstraintModel, CpSat, Found, Search, searched
from softpnet.targets.kbest import most_probable
from softpnet.targets.source import CandidateSource, Info, KeptRows, Query, State
from softpnet.targets.weights import Candidates
from softpnet.task.settings import Settings
from softpnet.task.task import Task

EFFORT = 0.5
"""What CP-SAT may do for one example, in its own deterministic unit, so that a rerun finds the same: about two seconds.
A 9x9 Sudoku whose reading is nearly right takes 0.02."""
MOST = 4
"""CP-SAT looks for at most so many assignments of an example: each is a search of its own."""
NEAR = 16
"""So many of the most probable assignments are tried before CP-SAT is asked; the first of them is the reading."""
CHECKED = 100
"""Where there are more labels than this, they are not asked about before training."""
FINE, WIDEST, IMPROBABLE = 1e6, 1e9, 1e5
"""CP-SAT counts in whole numbers: costs are rounded to a millionth, coarser where one is above 1,000, and none is
above 100,000."""


@dataclass
class Answers(KeptRows):
    """What CP-SAT found for every example."""

    answered: Tensor  # [N], whether it has been asked
    reading: Tensor  # [N, k], the most probable assignment when it was asked

    by_example = ("answered", "reading", "count", "rows")
    assignments = ("rows", "reading")

    def tensors(self) -> dict[str, Tensor]:
        return {"answered": self.answered, "reading": self.reading, "count": self.count, "rows": self.rows}


class Source(CandidateSource):
    """The best assignments among the few most probable ones; by CP-SAT, where all of those break the rule.

    Its answer is remembered until the example's reading, its most probable assignment, changes.
    """

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        super().__init__(task, settings, generator)
        if not isinstance(task.rule, ConstraintModel):
            raise TaskError(
                f"targets='solver' needs a rule that CP-SAT understands, but that of task {task.name!r} is "
                f"{type(task.rule).__name__}; write it as a softpnet.ConstraintModel, or use targets='kbest'"
            )
        package("ortools")
        self.rule = task.rule
        self.sought = min(settings.working_set, MOST)
        self.workers = torch.get_num_threads()  # this run's share of the machine: it waits while they work
        self._pool: Executor | None = None

    def start(self, labels: Tensor) -> Answers:
        check_entries_known(self.task, labels, "a solver")
        distinct, _ = unique_labels(labels)
        if len(distinct) <= CHECKED:
            answers = [searched(Search(model, [], 1, EFFORT)) for model in self._models(distinct)]
            possible = torch.tensor([bool(each.rows) or not each.exhausted for each in answers], dtype=torch.bool)
            find_feasible(self.task, distinct[possible], labels, labels)
        space = self.task.space
        small = torch.uint8 if space.h <= 256 else torch.int32
        return Answers(
            answered=torch.zeros(len(labels), dtype=torch.bool),
            reading=torch.zeros(len(labels), space.k, dtype=small),
            count=torch.zeros(len(labels), dtype=torch.uint8),
            rows=torch.zeros(len(labels), self.sought, space.k, dtype=small),
            values=torch.tensor(space.sizes),
        )

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, Info]:
        assert isinstance(state, Answers)
        near = most_probable(query.log_p, self.task.space.sizes, NEAR)  # [B, T, k], best first
        fits = self.task.satisfies(near, query.labels)  # [B, T]
        far, reading = ~fits.any(1), query.log_p.argmax(-1)  # [B], [B, k]
        ask = far & ~(state.answered[query.ids] & (state.reading[query.ids] == reading).all(1))
        if ask.any():
            self._ask(state, query, ask, reading[ask])
        first = fits.int().sort(dim=1, descending=True, stable=True).indices[:, : self.settings.working_set]
        close = Candidates(near.gather(1, first[..., None].expand(-1, -1, near.shape[2])), fits.gather(1, first))
        found = Candidates(state.rows[query.ids].long(), state.valid(query.ids))
        most = max(self.sought, first.shape[1])
        rows = torch.zeros(len(far), most, near.shape[2], dtype=torch.int64)
        valid = torch.zeros(len(far), most, dtype=torch.bool)
        for chosen, (some, which) in ((far, found), (~far, close)):
            rows[chosen, : some.shape[1]], valid[chosen, : some.shape[1]] = some[chosen], which[chosen]
        info = {"asked": float(ask.float().mean()), "found": float(valid.any(1).float().mean())}
        return Candidates(rows, valid), info

    def remedy(self) -> str:
        return (
            "train longer on the anchors first (warmup_steps), since CP-SAT finds an assignment soon where the reading "
            "is nearly right; or look at the rule and the labels"
        )

    def close(self) -> None:
        """End the processes; they also end with the source itself."""
        if self._pool is not None:
            self._ending()
            self._pool = None

    def _ask(self, state: Answers, query: Query, ask: Tensor, reading: Tensor) -> None:
        """Ask CP-SAT about some examples `[B]` of the query, whose readings are `[b, k]`, and remember its answers."""
        labels, ids, sizes = query.labels[ask], query.ids[ask], self.task.space.sizes
        prices = [[each[:h] for each, h in zip(cost, sizes, strict=True)] for cost in costs(query.log_p[ask], sizes)]
        searches = [Search(*each, self.sought, EFFORT) for each in zip(self._models(labels), prices, strict=True)]
        answers = self._asked(searches)
        count = torch.tensor([len(each.rows) for each in answers])  # [b]
        padding = [0] * self.task.space.k
        rows = torch.tensor([each.rows + [padding] * (self.sought - len(each.rows)) for each in answers])  # [b, K, k]
        wrong = (torch.arange(self.sought) < count[:, None]) & ~self.task.satisfies(rows, labels)
        if wrong.any():
            example, place = wrong.nonzero()[0].tolist()
            raise TaskError(
                f"CP-SAT gives row {rows[example, place].tolist()} for the label {labels[example].tolist()}, but the "
                f"rule of task {self.task.name!r} gives it another; correct its constraints or its rule=..."
            )
        state.answered[ids] = True
        state.reading[ids] = reading.to(state.reading.dtype)
        state.count[ids] = count.to(state.count.dtype)
        state.rows[ids] = rows.to(state.rows.dtype)

    def _models(self, labels: Tensor) -> list[CpSat]:
        """CP-SAT's model of each label `[b]` or `[b, m]`."""
        return [
            self.rule.cp_sat(label, self.task.space.sizes)
            for label in labels.view(len(labels), *labels.shape[1:] or (1,)).tolist()
        ]

    def _asked(self, searches: list[Search]) -> list[Found]:
        """What CP-SAT finds, several examples at a time."""
        if min(self.workers, len(searches)) <= 1:  # another process would only be waited for
            return [searched(each) for each in searches]
        try:
            return list(self._processes().map(searched, searches))
        except BaseException as error:
            self.close()  # nothing goes on behind an error or Ctrl-C
            if not isinstance(error, BrokenExecutor):
                raise
            raise TrainingError(
                "a process of the solver has ended before it answered; if the memory is full, resume with fewer threads"
            ) from error

    def _processes(self) -> Executor:
        """Made once. Joblib's, since those of the standard library run a user's script again when they start."""
        if self._pool is None:
            loky = importlib.import_module("joblib.externals.loky")
            # Ctrl-C is for the training, which ends its processes itself.
            deaf = (signal.SIGINT, signal.SIG_IGN)
            pool = loky.ProcessPoolExecutor(self.workers, timeout=300, initializer=signal.signal, initargs=deaf)
            self._ending = weakref.finalize(self, pool.shutdown, wait=True, kill_workers=True)
            self._pool = pool
        return self._pool


def costs(log_p: Tensor, sizes: Sequence[int]) -> list[list[list[int]]]:
    """-log p `[B, k, h]` in whole numbers, less that of each concept's most probable value."""
    inside = torch.arange(log_p.shape[2]) < torch.tensor(sizes)[:, None]  # [k, h]
    wide = log_p.double().masked_fill(~inside, -torch.inf)
    lost = (wide.amax(-1, keepdim=True) - wide).nan_to_num(IMPROBABLE).clamp_max(IMPROBABLE) * inside
    scale = (WIDEST / lost.amax((1, 2), keepdim=True)).clamp_max(FINE)  # [B, 1, 1]
    return (lost * scale).round().long().tolist()
