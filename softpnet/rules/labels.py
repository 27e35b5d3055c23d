"""Labels are integers `[N]` or integer vectors `[N, m]`; here they are looked up in a table of known ones."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.rules.function import some_rows
from softpnet.task.integers import any_entry
from softpnet.task.task import Task

SAMPLED = 100_000
"""So many random assignments stand for all of a space that is too large to list."""


MANY = 10_000
"""Label vectors from which on sorting them whole is slow."""

AT_ONCE = 1024
"""So many labels with unknown entries are held against all known ones at a time."""

UNKNOWN = -1
"""An entry of a label vector that nobody knows, unless -1 is one of that entry's own values."""

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


def unknown_entries(known: Tensor, labels: Tensor) -> Tensor:
    """Which entries of label vectors `[N, m]` are unknown, where the rule gives the labels `known` `[L, m]`; none of
    labels `[N]`: the shape of the labels."""
    if labels.dim() == 1:
        return torch.zeros_like(labels, dtype=torch.bool)
    return (labels == UNKNOWN) & ~(known == UNKNOWN).any(0).to(labels.device)


def unknown_in(task: Task, labels: Tensor) -> Tensor:
    """The same of a task's labels, by the labels of many random assignments; those are only asked for where needed."""
    if labels.dim() == 1 or not (labels == UNKNOWN).any():
        return torch.zeros_like(labels, dtype=torch.bool)
    if "sampled labels" not in task.memo:
        task.memo["sampled labels"] = sampled_labels(task)
    return unknown_entries(task.memo["sampled labels"], labels)


def satisfied(task: Task, rows: Tensor, labels: Tensor) -> Tensor:
    """Whether each row `[B, K, k]` has its example's label `[B]` or `[B, m]`, wherever that is known: `[B, K]`."""
    if labels.dim() == 1:
        return task.satisfies(rows, labels)
    return ((task.rule(rows) == labels[:, None]) | unknown_in(task, labels)[:, None]).all(-1)


def check_entries_known(task: Task, labels: Tensor, who: str, remedy: str = "use targets='exact' or 'kbest'") -> None:
    """Raise for label vectors with unknown entries, where they are of no use."""
    lacking = unknown_in(task, labels)
    if lacking.any():
        at = int(any_entry(lacking).nonzero()[0])
        raise InputError(
            f"label {labels[at].tolist()} of example {at} has an unknown entry ({UNKNOWN}), which {who} cannot use; "
            f"{remedy}, or drop such examples"
        )


class LabelIndex:
    """Known labels, `[L]` or `[L, m]` and distinct, sorted once: a look-up takes time for the labels asked about only.

    Entry by entry: each is a place among that entry's values, and with the entries before it a place among the known
    beginnings of a label.
    """

    def __init__(self, known: Tensor) -> None:
        self.known, self.shape = known.long(), known.shape[1:]
        device = known.device
        ids = torch.zeros(len(known), dtype=torch.int64, device=device)
        self.entries: list[tuple[Tensor, Tensor]] = []  # of each its values, and the beginnings as numbers; sorted
        for entry in known.long().reshape(len(known), *self.shape or (1,)).unbind(1):
            values, each = entry.unique(return_inverse=True)
            begun, ids = (ids * len(values) + each).unique(return_inverse=True)
            self.entries.append((values, begun))
        places = torch.arange(len(known), device=device)
        self.place = torch.full((max(1, len(known)),), -1, device=device).scatter(0, ids, places)  # [L]

    def find(self, labels: Tensor) -> Tensor:
        """The place of each label `[N]` or `[N, m]` among the known ones, -1 where it is none: `[N]`."""
        if labels.shape[1:] != self.shape:
            shape = ", ".join(["N", *map(str, self.shape)])
            raise InputError(f"labels have shape {list(labels.shape)}, but the rule gives [{shape}]")
        ids = torch.zeros(len(labels), dtype=torch.int64, device=labels.device)
        found = torch.ones_like(ids, dtype=torch.bool)
        columns = labels.long().reshape(len(labels), *self.shape or (1,)).unbind(1)
        for entry, (values, begun) in zip(columns, self.entries, strict=True):
            each, there = _place(values, entry)
            ids, also = _place(begun, ids * len(values) + each)
            found &= there & also
        return torch.where(found, self.place[ids], -1)

    def matches(self, labels: Tensor) -> Tensor:
        """Which known labels each label `[N]` or `[N, m]` can be, where unknown entries can be anything: `[L, N]`."""
        same = torch.arange(len(self.known), device=labels.device)[:, None] == self.find(labels)
        if labels.dim() == 1:
            return same
        unknown = unknown_entries(self.known, labels)
        some = any_entry(unknown)  # [N]
        if some.any():
            fits = torch.ones(len(self.known), int(some.sum()), dtype=torch.bool, device=labels.device)
            for own, asked, free in zip(self.known.T, labels[some].T, unknown[some].T, strict=True):
                fits &= (own[:, None] == asked) | free
            same[:, some] = fits
        return same

    def has(self, labels: Tensor) -> Tensor:
        """Whether each label `[N]` or `[N, m]` can be one of the known ones, `[N]`."""
        found = self.find(labels) >= 0
        if labels.dim() == 1:
            return found
        vague = any_entry(unknown_entries(self.known, labels))
        if vague.any():
            distinct, which = unique_labels(labels[vague])
            found[vague] = torch.cat([self.matches(part).any(0) for part in distinct.split(AT_ONCE)])[which]
        return found


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
        who, which = name_labels(labels, found < 0)
        raise InputError(
            f"{who} that no known values of the concepts give in task {task.name!r}: {which}; correct the labels or "
            "the rule, or add rows for them"
        )
    return found


def warn_of_unseen(task: Task, seen: Tensor, labels: Tensor) -> None:
    """Warn of labels that no assignment seen so far has, where not all assignments could be seen."""
    found = LabelIndex(seen).has(labels)
    if not found.all():
        who, which = name_labels(labels, ~found)
        warnings.warn(
            f"{who} that none of many random assignments of task {task.name!r} gave: {which}, rare or impossible, so "
            "that such examples may get no candidates; correct the labels, raise kbest_pool, or write the rule as a "
            "Machine",
            stacklevel=2,
        )


def name_labels(labels: Tensor, missing: Tensor) -> tuple[str, str]:
    """How many examples have one of the missing labels; and these labels, each with its examples."""
    distinct, ids = unique_labels(labels[missing])
    examples = missing.nonzero().flatten()
    named = [_named(label, examples[ids == i].tolist()) for i, label in enumerate(distinct[:SHOWN].tolist())]
    more = f" and {len(distinct) - SHOWN:,} more" if len(distinct) > SHOWN else ""
    have = "has a label" if len(examples) == 1 else "have labels"
    return f"{len(examples):,} of {len(labels):,} examples {have}", ", ".join(named) + more


def _named(label: Any, ids: list[int]) -> str:
    """A label and the examples that have it."""
    if len(ids) <= SHOWN:
        return f"{label} (example ids {', '.join(map(str, ids))})"
    return f"{label} ({len(ids):,} times; example ids {', '.join(map(str, ids[:SHOWN]))}, ...)"
