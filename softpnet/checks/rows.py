"""Checks of the feasible rows: each is verified, complete means complete."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from softpnet.checks.kernel import find_rows
from softpnet.checks.report import count
from softpnet.checks.subject import NotApplicable, Subject
from softpnet.errors import TaskError
from softpnet.rules.compile import TABLE, compilation
from softpnet.rules.diagram import CompiledRule
from softpnet.rules.function import some_rows
from softpnet.rules.labels import find_labels
from softpnet.rules.moves import change_one
from softpnet.task.rows import Rows
from softpnet.task.task import Task

TRIED = 100_000
"""In a space too large to list, so many random assignments, and as many neighbours of rows, are tried."""


def rows_are_feasible(subject: Subject) -> str:
    cache = subject.cache  # every row was verified on the way
    if subject.rows is None and cache.complete.all():
        return f"all {count(len(cache.rows), 'assignment')} are listed, with {count(len(cache.labels), 'label')}"
    return f"{count(len(cache.rows), 'distinct row')} of {count(len(cache.labels), 'label')}, each verified by the rule"


def complete_is_true(subject: Subject) -> str:
    """No assignment whose label is called complete is missing among the rows."""
    task, cache = subject.task, subject.cache
    if subject.rows is None:
        raise NotApplicable("the task brings no rows of its own")
    if not cache.complete.any():
        raise NotApplicable("the rows are called complete for no label")
    alone = compilation(dataclasses.replace(task, rows=None)) if _can_be_counted(task) else None
    if alone is not None and alone.rule is not None and alone.how == "exact":
        return _counted(subject, alone.rule)
    rows, generator = cache.rows.long(), subject.generator("complete")
    some = rows[torch.randint(len(rows), (TRIED,), generator=generator)]
    near = change_one(some, torch.tensor(task.space.sizes), generator)
    tried = torch.cat([some_rows(task.space, TRIED), near])
    label = find_labels(cache.labels, task.rule(tried))
    tried = tried[(label >= 0) & cache.complete[label.clamp_min(0)]]
    missing = find_rows(task.space, rows, tried) < 0
    if missing.any():
        raise _incomplete(subject, tried[missing][0], f"{int(missing.sum()):,} of {len(missing):,} that were tried")
    return (
        f"{task.space.size:,} assignments are too many to list, but none of {2 * TRIED:,}, random ones and "
        "neighbours of rows, speaks against it"
    )


def _can_be_counted(task: Task) -> bool:
    """Whether the rule can be compiled without its rows, and exactly: probing would only be another sample."""
    return task.space.size <= TABLE or hasattr(task.rule, "compiled") or isinstance(task.rule, Rows)


def _counted(subject: Subject, rule: CompiledRule) -> str:
    """As many rows as the rule has assignments with the label: then all are there."""
    task, cache = subject.task, subject.cache
    labels, rows = cache.labels[cache.complete], cache.counts[cache.complete]
    for label, found, there in zip(labels, rows.tolist(), rule.count(labels), strict=True):
        if found != there:
            drawn = rule.sample(label.expand(TRIED, *label.shape), subject.generator("complete"))
            missing = find_rows(task.space, cache.rows.long(), drawn) < 0
            shown = drawn[missing][0] if missing.any() else drawn[0]
            raise _incomplete(subject, shown, f"{there - found:,} of {there:,}")
    labels_told = count(len(labels), "label")
    return f"true for {labels_told}: as many rows as the rule counts among {task.space.size:,} assignments"


def _incomplete(subject: Subject, row: Tensor, missing: str) -> TaskError:
    return TaskError(
        f"the rows are called complete for label {subject.task.rule(row[None])[0].tolist()}, but {row.tolist()} has it "
        f"too and is not among them ({missing} are missing); add them, or leave the label out of `complete`"
    )
