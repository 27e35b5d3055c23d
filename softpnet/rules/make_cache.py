"""Where a cache's rows come from: the task's own, every assignment, or uniform draws from the compiled rule."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError, user_code
from softpnet.rules.compile import compilation
from softpnet.rules.diagram import Diagram
from softpnet.rules.labels import unique_labels
from softpnet.rules.rows import Cache
from softpnet.task.rows import Rows
from softpnet.task.task import Task

ENUMERABLE = 1_000_000
"""Spaces up to this size are enumerated when a task brings no rows."""
DRAWN = 2_000_000
"""No cache has more rows than this that were drawn, over all labels."""


def make_cache(task: Task, generator: Generator, per_label: int = 200_000) -> Cache:
    """The task's own rows; else every assignment of a small space; else up to so many rows of each label."""
    if task.rows is not None:
        with user_code(f"the rows of task {task.name!r} cannot be made"):
            rows = task.rows(generator)
        return Cache(task, rows, generator)
    if task.space.size <= ENUMERABLE:
        every = task.space.all()
        return Cache(task, Rows(every, complete=unique_labels(task.rule(every))[0]), generator)
    found = compilation(task)
    if not isinstance(found.rule, Diagram):
        why = "its labels are too many to list" if found.rule is not None else f"its rule is {found}"
        raise TaskError(
            f"task {task.name!r} has {task.space.size:,} assignments, too many to list (at most {ENUMERABLE:,}), and "
            f"none can be drawn, since {why}; give the task rows=..., or use targets='kbest', which needs no cache"
        )
    return Cache(task, drawn_rows(found.rule, per_label, generator), generator)


def drawn_rows(rule: Diagram, per_label: int, generator: Generator) -> Rows:
    """Of each label all rows, or so many draws, exactly uniform."""
    labels, counts = rule.labels, rule.count(rule.labels)
    per_label = min(per_label, max(1, DRAWN // len(labels)))
    few = torch.tensor([count <= per_label for count in counts])  # [L]
    parts = [rows_of(rule, label, count) for label, count, all_ in zip(labels, counts, few, strict=True) if all_]
    many = labels[~few]
    if len(many):
        parts.append(rule.sample(many.repeat_interleave(per_label, 0), generator))
    return Rows(torch.cat(parts), complete=labels[few])


def rows_of(rule: Diagram, label: Tensor, count: int) -> Tensor:
    """All rows of one label, `[count, k]`: the most probable ones where all are equally probable."""
    nothing_known = torch.zeros(1, rule.space.k, rule.space.h)
    rows, exists = rule.best(nothing_known, label[None], count)
    return rows[0][exists[0]]
