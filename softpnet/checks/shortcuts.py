"""What the rule leaves open: values that only the anchors can tell apart."""

from __future__ import annotations

from itertools import islice

import torch

from softpnet.checks.report import attribute_names, count
from softpnet.checks.subject import NotApplicable, Subject, warned
from softpnet.rules import function as rule
from softpnet.rules.exchange import exchanges

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
    labels = task.rule(rows.clone())
    if (labels == labels[0]).all():
        raise NotApplicable(f"all of {len(rows):,} assignments have the same label, so that nothing can be seen")
    tried, same = 0, []
    for exchange in islice(exchanges(task.space), PAIRS):
        tried += 1
        if torch.equal(task.rule(exchange.of(task.space, rows)), labels):
            where, names = attribute_names(task.space, task.space.groups[exchange.group])[exchange.attribute]
            same.append(f"{where}{names[exchange.one]} and {names[exchange.other]}")
    seen = f"on {len(rows):,} assignments" + (f", and more than {PAIRS} were not tried" if tried == PAIRS else "")
    if not same:
        return f"each of {count(tried, 'exchange')} of two values changes some label ({seen})"
    named = ", ".join(same[:NAMED]) + (", ..." if len(same) > NAMED else "")
    return warned(
        f"{len(same)} of {count(tried, 'exchange')} of two values change no label ({seen}): {named}; "
        "only the anchors tell these apart, so choose those with care"
    )
