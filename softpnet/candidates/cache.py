"""The global cache R: feasible assignments, verified by f_K, without duplicates, indexed by label."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError, TaskError
from softpnet.labels import find_labels
from softpnet.task import Rows, Task

ENUMERABLE = 1_000_000
"""Spaces up to this size are enumerated when a task brings no rows."""


class Cache:
    """Rows sorted by label; inside a label in random order, so that any window of them is a random draw.

    Attributes:
        rows: `[M, k]`.
        labels: the labels that have rows, `[L]` or `[L, m]`, sorted.
        starts, counts: where each label's rows lie, `[L]`.
        complete: whether all of S(y) is there, `[L]`.
    """

    def __init__(self, task: Task, given: Rows, generator: Generator) -> None:
        rows = given.rows.long()
        self.task = task
        _verify(task, given, rows)
        order = torch.randperm(len(rows), generator=generator)
        keys, position = task.space.keys(rows[order]).unique(return_inverse=True)
        first = torch.full((len(keys),), len(rows)).scatter_reduce(0, position, torch.arange(len(rows)), "amin")
        rows = rows[order][first.sort().values]  # [M, k] distinct, shuffled
        self.labels, ids = task.label(rows).unique(dim=0, return_inverse=True)
        by_label = ids.sort(stable=True).indices
        self.rows = rows[by_label]
        self.counts = ids.bincount(minlength=len(self.labels))  # [L]
        self.starts = self.counts.cumsum(0) - self.counts
        found = find_labels(self.labels, given.complete)
        if (found < 0).any():
            missing = given.complete[found < 0][0].tolist()
            raise TaskError(f"the rows of task {task.name!r} are called complete for label {missing}, but none has it")
        self.complete = torch.zeros(len(self.labels), dtype=torch.bool).index_fill(0, found, True)

    @classmethod
    def of(cls, task: Task, generator: Generator) -> Cache:
        """The task's own rows, or every assignment of a small space."""
        if task.rows is not None:
            return cls(task, task.rows(generator), generator)
        if task.space.size > ENUMERABLE:
            raise TaskError(
                f"task {task.name!r} has {task.space.size:,} assignments, too many to list (at most {ENUMERABLE:,}); "
                "give the task rows=..., or use candidates='kbest', which needs no cache"
            )
        rows = task.space.all()
        return cls(task, Rows(rows, complete=task.label(rows).unique(dim=0)), generator)

    def draw(self, ids: Tensor, log_p: Tensor, drawn: int, kept: int, generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw `drawn` distinct rows of each example's label, keep the `kept` with the highest log p (Alg. 2).

        Label indices `[B]`, log p `[B, k, h]` -> rows `[B, K, k]`, valid `[B, K]`; best first. Where a label has no
        more than `drawn` rows, all of them are scored and the result is exact.
        """
        counts = self.counts[ids]  # [B]
        width = min(drawn, int(counts.max()))
        begin = (torch.rand(len(ids), generator=generator) * counts).long()  # [B]
        offset = torch.arange(width)  # rows are shuffled, so a window is a draw without replacement
        where = self.starts[ids, None] + (begin[:, None] + offset) % counts[:, None]  # [B, M]
        score = torch.zeros(where.shape, dtype=log_p.dtype)
        for i in range(self.task.space.k):
            score += log_p[:, i].gather(1, self.rows[:, i][where])  # one concept at a time keeps memory at [B, M]
        score = score.masked_fill(offset >= counts[:, None], -torch.inf)
        top = score.topk(min(kept, width), dim=1)
        rows = self.rows[where.gather(1, top.indices)]  # [B, min(K, M), k]
        missing = kept - rows.shape[1]
        rows = torch.nn.functional.pad(rows, (0, 0, 0, missing))
        return rows, torch.nn.functional.pad(top.values > -torch.inf, (0, missing))

    def save(self, path: Path) -> None:
        """Write rows, labels and which labels are complete as safetensors."""
        from safetensors.torch import save_file

        save_file(
            {
                "rows": self.rows.contiguous(),
                "labels": self.task.label(self.rows).contiguous(),
                "complete": self.labels[self.complete].contiguous(),
            },
            path,
        )


def read_rows(path: Path) -> Rows:
    """Rows written by `Cache.save` or by anyone; a Cache made of them verifies every one."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        stored = load_file(path)
        return Rows(stored["rows"], stored["complete"], stored["labels"])
    except (SafetensorError, KeyError) as error:
        raise InputError(
            f"{path} is not a cache file ({error}); expected safetensors with rows, labels, complete"
        ) from error


def _verify(task: Task, given: Rows, rows: Tensor) -> None:
    if rows.dim() != 2 or rows.shape[1] != task.space.k or len(rows) == 0:
        raise TaskError(f"the rows of task {task.name!r} have shape {list(rows.shape)}, expected [M, {task.space.k}]")
    outside = ~task.space.contains(rows)
    if outside.any():
        raise TaskError(f"cached row {rows[outside][0].tolist()} lies outside the space of task {task.name!r}")
    if given.labels is not None:
        labels = task.label(rows)
        wrong = (labels != given.labels).reshape(len(rows), -1).any(1)
        if wrong.any():
            at = int(wrong.nonzero()[0])
            raise TaskError(
                f"cached row {rows[at].tolist()} is stored with label {given.labels[at].tolist()}, but the rule of "
                f"task {task.name!r} gives {labels[at].tolist()}; make the cache again with this rule"
            )
