"""Relabelings: each value is taken for another, in all slots alike, and rows keep their labels all the same."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softpnet.task.concepts import ConceptSpace
from softpnet.task.task import Rule

LIMIT = 20_000
"""More relabelings than this, whole or in part, are not followed at a time."""
TRIED = 2_000_000
"""More than this are not tried in all, so that it takes seconds."""
ASKED = 500_000
"""A search that need not find all asks the rule about so many rows: some rules are asked one by one."""
AT_ONCE = 2_000_000
"""So many values, about, does the rule see in one call."""


class Values:
    """The values of all attributes of a space, group after group, V in all.

    Attributes:
        number, choices: of each value, which of its attribute's it is, and how many those are, `[V]` each.
        first: where the values of each concept's attribute begin, `[k]`.
    """

    def __init__(self, space: ConceptSpace) -> None:
        sizes = [h for group in space.groups for h in group.values]
        begin = [sum(sizes[:at]) for at in range(len(sizes))]
        self.number = torch.cat([torch.arange(h) for h in sizes])
        self.choices = torch.tensor(sizes).repeat_interleave(torch.tensor(sizes))
        attributes = iter(begin)
        each = [[next(attributes) for _ in group.values] * len(group.slots) for group in space.groups]
        self.first = torch.tensor([place for part in each for place in part])


class Found(NamedTuple):
    """Relabelings that fit, `[S, V]`: what each value is taken for, -1 where it does not occur."""

    relabelings: Tensor
    all_tried: bool  # or else there may be more


def fitting_relabelings(space: ConceptSpace, rows: Tensor, label: Rule) -> Tensor | None:
    """All relabelings under which rows `[M, k]` keep their labels, and show only what has a prototype: `[S, V]`; None
    where there are too many to follow."""
    found = followed(space, rows, label)
    return found.relabelings if found.all_tried else None


def followed(
    space: ConceptSpace, rows: Tensor, label: Rule, fixed: Tensor | None = None, nearest: int | None = None
) -> Found:
    """Relabelings that fit. Values are read one after the other, and a row is asked for its label as soon as all of its
    values are read.

    Args:
        fixed: the values that are taken for themselves, `[V]` of bool.
        nearest: where more than so many would have to be followed, go on with those that move the fewest values;
            without it, stop there and find none.
    """
    values, limit = Values(space), LIMIT if nearest is None else nearest
    fixed = torch.zeros(len(values.number), dtype=torch.bool) if fixed is None else fixed
    places = rows + values.first  # [M, k]
    wanted = label(rows.clone())  # [M] or [M, m]
    unread = torch.zeros(len(rows), len(values.number), dtype=torch.bool).scatter(1, places, True) & ~fixed  # [M, V]
    lacking = unread.sum(1)  # [M]
    relabelings, all_tried = torch.where(fixed, values.number, -1)[None], True
    none = relabelings[:0]
    tried = asked = 0
    while lacking.any():
        value = _most_telling(unread, lacking)
        choices = torch.arange(int(values.choices[value]))
        lacking = lacking - unread[:, value].long()
        ready = (unread[:, value] & (lacking == 0)).nonzero().flatten()
        unread[:, value] = False
        tried += len(relabelings) * len(choices)
        if tried > TRIED:
            return Found(none, False)
        kept, many = [], 0
        for some in relabelings.split(max(1, AT_ONCE // (len(choices) * max(places.shape[1], len(values.number))))):
            some = some.repeat_interleave(len(choices), dim=0)
            some[:, value] = choices.repeat(len(some) // len(choices))
            fit, rows_asked = _that_fit(some, places[ready], wanted[ready], space, label)
            kept.append(fit)
            many, asked = many + len(fit), asked + rows_asked
            if nearest is not None and asked > ASKED:
                return Found(none, False)
            if many > limit:
                if nearest is None:
                    return Found(none, False)
                kept, many, all_tried = [_nearest(torch.cat(kept), values, nearest)], nearest, False
        relabelings = torch.cat(kept)
    return Found(relabelings, all_tried)


def _nearest(relabelings: Tensor, values: Values, count: int) -> Tensor:
    """Those that move the fewest values."""
    moved = ((relabelings >= 0) & (relabelings != values.number)).sum(1)
    return relabelings[moved.argsort(stable=True)[:count]]


def _that_fit(
    relabelings: Tensor, places: Tensor, wanted: Tensor, space: ConceptSpace, label: Rule
) -> tuple[Tensor, int]:
    """Those of the relabelings `[S, V]` that give rows, at these places `[b, k]`, primitives and the labels wanted; and
    how many rows the rule was asked about."""
    asked = 0
    while len(places) and len(relabelings):
        many = max(1, AT_ONCE // (len(relabelings) * places.shape[1]))  # more rows, the fewer relabelings are left
        read = relabelings[:, places[:many]]  # [S, b, k]
        shown = space.consist_of_primitives(read).all(1)
        if not shown.all():
            relabelings, read = relabelings[shown], read[shown]
        if len(relabelings):
            asked += read.shape[0] * read.shape[1]
            fits = label(read) == wanted[:many]  # [S, b] or [S, b, m]
            relabelings = relabelings[fits.flatten(1).all(1)]
        places, wanted = places[many:], wanted[many:]
    return relabelings, asked


def _most_telling(unread: Tensor, lacking: Tensor) -> int:
    """Of the unread values of each row, `[M, V]`, the most frequent one in the rows that lack the fewest, `[M]`."""
    return int(unread[lacking == lacking[lacking > 0].min()].sum(0).argmax())


def enough(wrong: Tensor) -> list[int]:
    """A few values of which every wrong relabeling `[S, V]` gets one wrong; not always the fewest."""
    found = []
    while len(wrong):
        found.append(int(wrong.sum(0).argmax()))
        wrong = wrong[~wrong[:, found[-1]]]
    return sorted(found)
