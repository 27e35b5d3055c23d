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
    ids = torch.zeros(len(labels), dtype=torch.int64)  # the same entry by entry, which is much faster for many
    for entry in labels.unbind(1):
        values, each = entry.unique(return_inverse=True)
        ids = (ids * len(values) + each).unique(return_inverse=True)[1]
    one_of = torch.zeros(int(ids.max()) + 1, dtype=torch.int64).scatter(0, ids, torch.arange(len(ids)))
    return labels[one_of], ids


def find_labels(known: Tensor, labels: Tensor) -> Tensor:
    """Index into `known` (`[L]` or `[L, m]`, distinct) of each label `[N]` or `[N, m]`, -1 where it is not: `[N]`."""
    if labels.shape[1:] != known.shape[1:]:
        shape = ", ".join(["N", *map(str, known.shape[1:])])
        raise InputError(f"labels have shape {list(labels.shape)}, but the rule gives [{shape}]")
    _, ids = unique_labels(torch.cat([known, labels]))
    place = torch.full((len(ids),), -1).scatter(0, ids[: len(known)], torch.arange(len(known)))
    return place[ids[len(known) :]]


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
