"""What the rule leaves open: values that only the anchors can tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

import torch
from torch import Tensor

from softpnet import rule
from softpnet.conformance.report import count
from softpnet.conformance.subject import NotApplicable, Subject

ROWS = 2000
"""Random assignments, and as many rows of the cache, that the labels are looked at on."""
PAIRS = 500
"""No more pairs of values are tried."""
NAMED = 5
"""No more pairs are named."""


def values_are_told_apart(subject: Subject) -> str:
    """Tries every exchange of two values in all slots; a label that none of the rows changes is blind to it.

    A network that has the two the wrong way round then gets every label right: a reasoning shortcut.
    """
    task = subject.task
    rows = rule.some_rows(task.space, ROWS)
    try:
        rows = torch.cat([rows, subject.walked_rows(ROWS)])  # where random ones all have the same label
    except NotApplicable:
        pass
    labels = task.label(rows.clone())
    tried = list(islice(_exchanges(subject, rows), PAIRS))
    same = [names for names, exchanged in tried if torch.equal(task.label(exchanged), labels)]
    if not same:
        return f"none of {count(len(tried), 'exchange')} of two values keeps all labels"
    named = ", ".join(same[:NAMED]) + (", ..." if len(same) > NAMED else "")
    return (
        f"{len(same)} of {count(len(tried), 'exchange')} of two values change no label: {named}; "
        "only the anchors tell these apart"
    )


def _exchanges(subject: Subject, rows: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Two values of an attribute in words, and the rows `[M, k]` with the two exchanged in all slots of the group."""
    parts = subject.task.space.split(rows)
    for at, group in enumerate(subject.task.space.groups):
        for attribute, names in enumerate(group.value_names):
            for one, other in combinations(range(len(names)), 2):
                part = parts[at].clone()  # [M, n_g, a]
                seen = parts[at][..., attribute]
                part[..., attribute] = torch.where(seen == one, other, torch.where(seen == other, one, seen))
                exchanged = [*parts[:at], part, *parts[at + 1 :]]
                yield f"{names[one]} and {names[other]}", torch.cat([each.flatten(1) for each in exchanged], dim=1)
