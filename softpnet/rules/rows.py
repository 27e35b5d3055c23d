"""The global cache R: feasible assignments, verified by f_K, without duplicates, indexed by label."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError, TaskError
from softpnet.rules.labels import find_labels, unique_labels
from softpnet.rules.scoring import scores, shared_scores, table_lines, top_rows
from softpnet.storage import digest, from_safetensors, read_plain, to_safetensors, write_whole
from softpnet.task.integers import as_int64, is_integer
from softpnet.task.rows import Rows
from softpnet.task.task import Task

LONG = 2_000
"""Draws of more rows than this are shared by the examples of a label in a batch."""


class Cache:
    """Rows sorted by label; inside a label in random order, so that any window of them is a random draw.

    Attributes:
        rows: `[M, k]`, in a small integer type; `lines`, the same as lines of a table of scores.
        labels: the labels that have rows, `[L]` or `[L, m]`, sorted.
        starts: where each label's rows begin, `[L]`.
        counts: how many they are, `[L]`.
        complete: whether all of S(y) is there, `[L]`.
    """

    def __init__(self, task: Task, given: Rows, generator: Generator) -> None:
        self.task = task
        rows = verified_rows(task, given)
        rows = rows[torch.randperm(len(rows), generator=generator)]
        keys, place = task.space.keys(rows).sort(stable=True)
        first = torch.nn.functional.pad(keys[1:] != keys[:-1], (1, 0), value=True)
        rows = rows[place[first].sort().values]  # [M, k] distinct, in random order
        self.labels, ids = unique_labels(task.rule(rows))
        by_label = ids.sort(stable=True).indices
        rows = rows[by_label]
        self.rows = rows.to(torch.uint8 if task.space.h <= 256 else torch.int32)  # a long list is large enough so
        self.lines = table_lines(rows, task.space.h)
        self.counts = ids.bincount(minlength=len(self.labels))  # [L]
        self.starts = self.counts.cumsum(0) - self.counts
        complete = self.labels[:0] if given.complete is None else given.complete
        complete = as_int64(complete, f"the complete labels of task {task.name!r}")
        found = find_labels(self.labels, complete)
        if (found < 0).any():
            missing = complete[found < 0][0].tolist()
            raise TaskError(
                f"the rows of task {task.name!r} are called complete for label {missing}, but none has it; "
                "add its rows, or leave it out of `complete`"
            )
        self.complete = torch.zeros(len(self.labels), dtype=torch.bool).index_fill(0, found, True)

    def to(self, device: torch.device) -> Cache:
        """The same on that device."""
        there = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(there, name, value.to(device))
        return there

    def draw(
        self,
        ids: Tensor,
        log_p: Tensor,
        drawn: int,
        kept: int,
        generator: Generator,
        asked: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draw `drawn` distinct rows of each example's label, keep the `kept` with the highest log p (Alg. 2).

        Label indices `[B]`, log p `[B, k, h]` -> rows `[B, K, k]`, valid `[B, K]`; best first. Where a label has no
        more than `drawn` rows, all of them are scored and the result is exact. Where several processes share a batch,
        `asked` are the label indices of all of it.
        """
        asked = ids if asked is None else asked
        if min(drawn, int(self.counts[asked].max())) > LONG:
            where, valid = self._draw_long(ids, log_p, drawn, kept, generator, asked)
        else:
            where, valid = self._draw_short(ids, log_p, drawn, kept, generator)
        missing = kept - where.shape[1]
        rows = torch.nn.functional.pad(self.rows[where].long(), (0, 0, 0, missing))  # [B, K, k]
        return rows, torch.nn.functional.pad(valid, (0, missing))

    def _draw_short(
        self, ids: Tensor, log_p: Tensor, drawn: int, kept: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Every example draws for itself; places in the cache `[B, K]`, and which are rows of the label `[B, K]`."""
        counts = self.counts[ids]  # [B]
        width = min(drawn, int(counts.max()))
        begin = (torch.rand(len(ids), generator=generator).to(ids.device) * counts).long()  # [B]
        offset = torch.arange(
            width, device=ids.device
        )  # rows are in random order, so a window is a draw without replacement
        where = self.starts[ids, None] + (begin[:, None] + offset) % counts[:, None]  # [B, M]
        score = scores(log_p, self.rows[where].long()).masked_fill(offset >= counts[:, None], -torch.inf)  # [B, M]
        top = score.topk(min(kept, width), dim=1)
        return where.gather(1, top.indices), top.values > -torch.inf

    def _draw_long(
        self, ids: Tensor, log_p: Tensor, drawn: int, kept: int, generator: Generator, asked: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same for long lists, where the examples of a label share one draw: then a row is read once for all."""
        where = torch.zeros(len(ids), kept, dtype=torch.int64, device=ids.device)
        valid = torch.zeros(len(ids), kept, dtype=torch.bool, device=ids.device)
        for label in map(int, asked.unique()):
            mine = ids == label
            start, count = int(self.starts[label]), int(self.counts[label])
            width = min(drawn, count)
            begin = int(torch.randint(count, (), generator=generator)) if width < count else 0
            if not mine.any():  # but another process has some
                continue
            lines = self.lines[start : start + count]
            if width < count:
                lines = torch.cat([lines[begin : begin + width], lines[: max(begin + width - count, 0)]])
            best = top_rows(shared_scores(log_p[mine], lines), min(kept, width))  # [b, K]
            where[mine, : best.shape[1]] = start + (begin + best) % count
            valid[mine, : best.shape[1]] = True
        return where, valid

    def save(self, path: Path) -> None:
        """Write rows, labels and which labels are complete as safetensors, and its sha256 beside it."""
        stored = {
            "rows": self.rows,
            "labels": self.task.rule(self.rows.long()),
            "complete": self.labels[self.complete],
        }
        data = to_safetensors(stored, {})
        _sum_file(path).unlink(missing_ok=True)  # the old one's; between the two writes the rule alone vouches
        write_whole(path, data)
        write_whole(_sum_file(path), f"{digest(data)}  {path.name}\n".encode())


def stored_rows(path: Path, other: int = -1) -> Rows:
    """Rows written by `Cache.save` or by anyone; a Cache made of them verifies every one by the rule."""
    try:
        data = read_plain(path)
        sum_file = read_plain(_sum_file(path)) if _sum_file(path).exists() else None
    except FileNotFoundError as error:
        raise InputError(f"there is no cache file {path}") from error
    if sum_file is not None and sum_file != f"{digest(data)}  {path.name}\n".encode():
        raise InputError(f"{path} is damaged: its sha256 is not the one in {_sum_file(path).name}; make it again")
    stored, _ = from_safetensors(data, path)
    lacking = [name for name in ("rows", "complete", "labels") if name not in stored]
    if lacking:
        raise InputError(f"{path} is not a cache file: it has no {lacking[0]}; expected rows, labels, complete")
    return Rows(stored["rows"], stored["complete"], stored["labels"], other)


def _sum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def verified_rows(task: Task, given: Rows) -> Tensor:
    """The rows, each checked."""
    if not isinstance(given, Rows):
        raise TaskError(f"the rows of task {task.name!r} are {type(given).__name__}, expected softpnet.Rows")
    named = {"rows": given.rows, "complete labels": given.complete, "labels of the rows": given.labels}
    parts = {what: part for what, part in named.items() if part is not None}
    for what, part in parts.items():
        empty = isinstance(part, Tensor) and part.numel() == 0
        if not is_integer(part) and not empty:
            found = part.dtype if isinstance(part, Tensor) else type(part).__name__
            raise TaskError(f"the {what} of task {task.name!r} are {found}, expected an integer tensor")
    rows = as_int64(given.rows, f"the rows of task {task.name!r}")
    if rows.dim() != 2 or rows.shape[1] != task.space.k or len(rows) == 0:
        raise TaskError(f"the rows of task {task.name!r} have shape {list(rows.shape)}, expected [M, {task.space.k}]")
    outside = ~task.space.contains(rows)
    if outside.any():
        raise TaskError(
            f"cached row {rows[outside][0].tolist()} lies outside the space of task {task.name!r}; "
            f"expected values from 0 to below {list(task.space.sizes)}; correct the rows or the space"
        )
    if given.labels is not None:
        labels = task.rule(rows)
        if given.labels.shape != labels.shape:
            raise TaskError(
                f"labels of shape {list(given.labels.shape)} are stored with the {len(rows)} rows of task "
                f"{task.name!r}, expected {list(labels.shape)}; give one label per row, or none"
            )
        stored = as_int64(given.labels, f"the labels of the rows of task {task.name!r}")
        wrong = (labels != stored).reshape(len(rows), -1).any(1)
        if wrong.any():
            at = int(wrong.nonzero()[0])
            raise TaskError(
                f"cached row {rows[at].tolist()} is stored with label {stored[at].tolist()}, but the rule of "
                f"task {task.name!r} gives {labels[at].tolist()}; make the cache again with this rule"
            )
    return rows
