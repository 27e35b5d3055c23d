"""What the rule leaves open: values that only the anchors can tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import torch

from softpnet.checks.report import attribute_names, count, listed
from softpnet.checks.subject import NotApplicable, Subject, warned
from softpnet.errors import InputError
from softpnet.rules import function as rule
from softpnet.rules.exchange import Exchange, alike, exchanges
from softpnet.rules.misreadings import all_values_shown, misreadings, mixed_up
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import ConceptSpace

ROWS = 2000
"""Random assignments, and as many rows of the cache, that the labels are looked at on."""
PAIRS = 500
"""No more pairs of values are tried."""
NAMED = 5
"""No more pairs are named."""
NEEDED = 20
"""No more values are named that need an anchor."""


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
    rows = rows.unique(dim=0)
    labels = task.rule(rows.clone())
    if (labels == labels[0]).all():
        raise NotApplicable(f"all of {len(rows):,} assignments have the same label, so that nothing can be seen")
    tried, same = 0, []
    for exchange in islice(exchanges(task.space), PAIRS):
        tried += 1
        if torch.equal(task.rule(exchange.of(task.space, rows)), labels):
            where, one, other = _named(subject, exchange)
            same.append(f"{where}{one} and {other}")
    seen = f"on {len(rows):,} assignments" + (f", and more than {PAIRS} were not tried" if tried == PAIRS else "")
    if not same:
        return f"each of {count(tried, 'exchange')} of two values changes some label ({seen})"
    named = ", ".join(same[:NAMED]) + (", ..." if len(same) > NAMED else "")
    return warned(
        f"{len(same)} of {count(tried, 'exchange')} of two values change no label ({seen}): {named}; "
        "only the anchors tell these apart, so choose those with care"
    )


def needed_anchors_are_there(subject: Subject) -> str:
    """The values that must be anchored, and are where there is data: training refuses to start without them."""
    task, anchors = subject.task, subject.anchors
    anchored = [own.anchored()[0] for own in anchors] or None
    shown = _shown(task.space, anchors)
    needed: dict[str, bool] = {}  # by name, whether an anchor shows it
    for exchange in alike(task, most=PAIRS):
        where, *names = _named(subject, exchange)
        for name, value in zip(names, (exchange.one, exchange.other), strict=True):
            needed[where + name] = anchored is None or (exchange.group, exchange.attribute, value) in shown
    said = f"the rule cannot tell all values apart; these must be anchored: {listed(list(needed), NEEDED)}"
    missing = [name for name, there in needed.items() if not there]
    if missing:
        raise InputError(f"{said}; no anchor shows {listed(missing, NEEDED)}: label an input of each")
    if needed and anchored is None:
        return said
    found = misreadings(task, anchored)
    if found.taken and anchored is not None:
        doubt = f"neither rule nor anchors tell all values apart: {found}; label an input of {found.remedy}"
        if all_values_shown(task.space, anchored):
            return warned(doubt)
        raise InputError(doubt)
    mixed = mixed_up(task, anchors) if anchors else None
    if mixed is not None:
        return warned(mixed)
    if needed:
        return said
    without = found if anchored is None else misreadings(task)
    if without.taken:
        return f"the rule cannot tell all values apart: {without}; an anchor of {without.remedy} is enough"
    if not (found.all_tried and without.all_tried) or _pairs(task.space) > PAIRS:
        return "no value was found that must be anchored, but not all ways to take one for another were tried"
    return "no value must be anchored: the rule tells each from all others"


def _pairs(space: ConceptSpace) -> int:
    """How many exchanges of two values there are."""
    return sum(math.comb(values, 2) for group in space.groups for values in group.values)


def _shown(space: ConceptSpace, anchors: Sequence[AnchorSet]) -> set[tuple[int, int, int]]:
    """The group, attribute and value of all that some anchor shows."""
    parts = zip(space.groups, anchors, strict=bool(anchors))
    shown = [group.primitive_table()[own.primitives].tolist() for group, own in parts]  # [M, a] each
    return {(g, a, value) for g, rows in enumerate(shown) for row in rows for a, value in enumerate(row)}


def _named(subject: Subject, exchange: Exchange) -> tuple[str, str, str]:
    """What to say before the two values' names, and the names."""
    space = subject.task.space
    where, names = attribute_names(space, space.groups[exchange.group])[exchange.attribute]
    return where, names[exchange.one], names[exchange.other]
