"""Labels are integers `[N]` or integer vectors `[N, m]`; here they are looked up in a table of known ones."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.rules.function import some_rows
from softpnet.task.task import Task

SAMPLED = 100_000
"""So many random assignments stand for all of a space that is too large to list."""


MANY = 10_000
"""Label vectors from which on sorting them whole is slow."""

SHOWN = 5
"""So many labels, and examples of each, are named in a message."""


def sampled_rows(task: Task) -> Tensor:
    """Many random assignments, always the same ones, `[M, k]`."""
    return some_rows(task.space, SAMPLED)


def sampled_labels(task: Task) -> Tensor:
    """The distinct labels of many random assignments, always the same ones."""
    return unique_labels(task.rule(sampled_rows(task)))[0]


def unique_labels(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct labels, sorted, and the index of each label among them `[N]`."""
    if labels.dim() == 1:
        return labels.unique(return_inverse=True)
    if len(labels) < MANY:
        return labels.unique(dim=0, return_inverse=True)
    ids = torch.zeros_like(labels[:, 0])  # the same entry by entry, which is much faster for many
    for entry in labels.unbind(1):
        values, each = entry.unique(return_inverse=True)
        ids = (ids * len(values) + each).unique(return_inverse=True)[1]
    one_of = ids.new_zeros(int(ids.max()) + 1).scatter(0, ids, torch.arange(len(ids), device=ids.device))
    return labels[one_of], ids


class LabelIndex:
    """Known labels, `[L]` or `[L, m]` and distinct, sorted once: a look-up takes time for the labels asked about only.

    Entry by entry: each is a place among that entry's values, and with the entries before it a place among the known
    beginnings of a label.
    """

    def __init__(self, known: Tensor) -> None:
        self.shape = known.shape[1:]
        ids = torch.zeros(len(known), dtype=torch.int64)
        self.entries: list[tuple[Tensor, Tensor]] = []  # of each its values, and the beginnings as numbers; sorted
        for entry in known.long().reshape(len(known), *self.shape or (1,)).unbind(1):
            values, each = entry.unique(return_inverse=True)
            begun, ids = (ids * len(values) + each).unique(return_inverse=True)
            self.entries.append((values, begun))
        self.place = torch.full((max(1, len(known)),), -1).scatter(0, ids, torch.arange(len(known)))  # [L]

    def find(self, labels: Tensor) -> Tensor:
        """The place of each label `[N]` or `[N, m]` among the known ones, -1 where it is none: `[N]`."""
        if labels.shape[1:] != self.shape:
            shape = ", ".join(["N", *map(str, self.shape)])
            raise InputError(f"labels have shape {list(labels.shape)}, but the rule gives [{shape}]")
        ids, found = torch.zeros(len(labels), dtype=torch.int64), torch.ones(len(labels), dtype=torch.bool)
        columns = labels.long().reshape(len(labels), *self.shape or (1,)).unbind(1)
        for entry, (values, begun) in zip(columns, self.entries, strict=True):
            each, there = _place(values, entry)
            ids, also = _place(begun, ids * len(values) + each)
            found &= there & also
        return torch.where(found, self.place[ids], -1)


def _place(known: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Where each number `[N]` stands among sorted ones, and whether it does."""
    if len(known) == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    at = torch.searchsorted(known, wanted.contiguous()).clamp_max_(len(known) - 1)
    return at, known[at] == wanted


def find_labels(known: Tensor, labels: Tensor) -> Tensor:
    """Index into `known` (`[L]` or `[L, m]`, distinct) of each label `[N]` or `[N, m]`, -1 where it is not: `[N]`."""
    return LabelIndex(known).find(labels)


def find_feasible(task: Task, known: Tensor, wanted: Tensor, labels: Tensor) -> Tensor:
    """Index of each wanted label in `known` `[N]`; raises, with the example's own label, where it is missing."""
    found = find_labels(known, wanted)
    if (found < 0).any():
        which = name_labels(labels, found < 0)
        raise InputError(
            f"{which} has an empty feasible set in task {task.name!r}: no known assignment gives it; "
            "correct the labels or the rule, or add rows for it"
        )
    return found


def warn_of_unseen(task: Task, seen: Tensor, labels: Tensor) -> None:
    """Warn of labels that no assignment seen so far has, where not all assignments could be seen."""
    found = find_labels(seen, labels)
    if (found < 0).any():
        warnings.warn(
            f"{name_labels(labels, found < 0)} was given by none of many random assignments of task {task.name!r}: it "
            "is rare or impossible, and such examples may get no candidates; correct the labels, raise kbest_pool, or "
            "write the rule as a Machine",
            stacklevel=2,
        )


def name_labels(labels: Tensor, missing: Tensor) -> str:
    """The missing labels, and the examples that have them; in the singular."""
    distinct, ids = unique_labels(labels[missing])
    examples = missing.nonzero().flatten()
    named = [_named(label, examples[ids == i].tolist()) for i, label in enumerate(distinct[:SHOWN].tolist())]
    if len(distinct) == 1:
        return f"label {named[0]}"
    more = f" and {len(distinct) - SHOWN:,} more" if len(distinct) > SHOWN else ""
    many = f"{len(distinct):,} labels of {len(examples):,} of {len(labels):,} examples"
    return f"each of {many}, {', '.join(named)}{more},"


def _named(label: Any, ids: list[int]) -> str:
    """A label and the examples that have it."""
    if len(ids) <= SHOWN:
        return f"{label} (example ids {', '.join(map(str, ids))})"
    return f"{label} ({len(ids):,} times; example ids {', '.join(map(str, ids[:SHOWN]))}, ...)"
