"""Rows: assignments that are listed, with their labels: a cache's content, or a rule by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from softpnet.errors import TaskError
from softpnet.task.concepts import row_keys
from softpnet.task.integers import any_entry, is_integer


@dataclass(frozen=True, eq=False)
class Rows:
    """Assignments from a solver, a generator or a file, before verification. With labels they are a rule as well:
    `Task(space, rule=sp.Rows(rows, labels=labels))`.

    Args:
        rows: `[M, k]`.
        complete: labels `[L]` or `[L, m]` of which every assignment is among the rows; of a rule, all that it has
            unless given.
        labels: `[M]` or `[M, m]`, what the rows are claimed to give; checked where the task has a rule beside them.
        other: of a rule, the label of every assignment that is not listed.
    """

    rows: Tensor
    complete: Tensor | None = None
    labels: Tensor | None = None
    other: int | Sequence[int] = -1

    def __call__(self, assignments: Tensor) -> Tensor:
        """As a rule: assignments `[..., k]` -> labels `[...]` or `[..., m]`."""
        keys, labels, limits = self._index
        inside = ((assignments >= 0) & (assignments < limits.to(assignments.device))).all(-1)  # [...]
        wanted = row_keys(assignments, limits.tolist())
        at = torch.searchsorted(keys.to(assignments.device), wanted).clamp_max(len(keys) - 1)
        listed = inside & (keys.to(assignments.device)[at] == wanted)
        found = labels.to(assignments.device)[torch.where(listed, at, len(keys))]
        return found

    @cached_property
    def _index(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys of the rows, sorted `[M]`; their labels, and last the other one `[M + 1]`; values per concept `[k]`."""
        if self.labels is None:
            raise TaskError("Rows that are a rule need labels=..., the label of each row")
        if self.rows.dim() != 2 or not len(self.rows) or len(self.labels) != len(self.rows):
            raise TaskError(
                f"Rows that are a rule have rows of shape {list(self.rows.shape)} and {len(self.labels)} labels, "
                "expected [M, k] with at least one row, and a label for each"
            )
        rows = self.rows.long()
        limits = rows.amax(0) + 1
        keys, place = row_keys(rows, limits.tolist()).sort(stable=True)
        labels = self.labels[place].long()
        twice = (keys[1:] == keys[:-1]) & any_entry(labels[1:] != labels[:-1])
        if twice.any():
            at = int(twice.nonzero()[0])
            first, second = place[at : at + 2].tolist()
            raise TaskError(
                f"row {rows[first].tolist()} is listed with two labels, {labels[at].tolist()} (row number {first}) and "
                f"{labels[at + 1].tolist()} (row number {second}, counted from 0); a rule gives each assignment one"
            )
        return keys, torch.cat([labels, self.other_label[None]]), limits

    @property
    def other_label(self) -> Tensor:
        """Of an assignment that is not listed, `[]` or `[m]`."""
        assert self.labels is not None
        other, shape = torch.as_tensor(self.other), self.labels.shape[1:]
        if not is_integer(other) or other.shape not in (torch.Size(), shape):
            raise TaskError(f"the other label is {self.other!r}, expected a whole number, or {list(shape)} of them")
        return other.expand(shape).long()
