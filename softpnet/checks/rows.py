"""Checks of the feasible rows: each is verified, complete means complete."""

from __future__ import annotations

import torch

from softpnet.checks.kernel import find_rows
from softpnet.checks.report import count
from softpnet.checks.subject import NotApplicable, Subject
from softpnet.errors import TaskError
from softpnet.rules.function import some_rows
from softpnet.rules.labels import find_labels
from softpnet.rules.moves import change_one
from softpnet.rules.rows import ENUMERABLE

TRIED = 100_000
"""In a space too large to list, so many random assignments, and as many neighbours of rows, are tried."""


def rows_are_feasible(subject: Subject) -> str:
    cache = subject.cache  # every row was verified on the way
    if subject.rows is None:
        return f"all {count(len(cache.rows), 'assignment')} are listed, with {count(len(cache.labels), 'label')}"
    return f"{count(len(cache.rows), 'distinct row')} of {count(len(cache.labels), 'label')}, each verified by the rule"


def complete_is_true(subject: Subject) -> str:
    """No assignment whose label is called complete is missing among the rows."""
    task, cache = subject.task, subject.cache
    if subject.rows is None:
        raise NotApplicable("the task brings no rows of its own")
    if len(subject.rows.complete) == 0:
        raise NotApplicable("the rows are called complete for no label")
    listed = task.space.size <= ENUMERABLE
    rows = cache.rows.long()
    if listed:
        tried = task.space.all()
    else:
        generator = subject.generator("complete")
        some = rows[torch.randint(len(rows), (TRIED,), generator=generator)]
        near = change_one(some, torch.tensor(task.space.sizes), generator)
        tried = torch.cat([some_rows(task.space, TRIED), near])
    label = find_labels(cache.labels, task.rule(tried))
    tried = tried[(label >= 0) & cache.complete[label.clamp_min(0)]]
    missing = find_rows(task.space, rows, tried) < 0
    if missing.any():
        row = tried[missing][0]
        raise TaskError(
            f"the rows are called complete for label {task.rule(row[None])[0].tolist()}, but {row.tolist()} has it "
            f"too and is not among them ({int(missing.sum()):,} of {len(missing):,} are missing); "
            "add them, or leave the label out of `complete`"
        )
    if listed:
        labels = count(int(cache.complete.sum()), "label")
        return f"true for {labels}, compared with all {count(task.space.size, 'assignment')}"
    return (
        f"{task.space.size:,} assignments are too many to list, but none of {2 * TRIED:,}, random ones and "
        "neighbours of rows, speaks against it"
    )
