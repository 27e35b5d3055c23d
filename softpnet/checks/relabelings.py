"""The simplest reasoning shortcuts, counted: relabelings of the values that leave every training example its label."""

from __future__ import annotations

import torch
from torch import Tensor

from softpnet.checks.report import attribute_names, count, listed
from softpnet.checks.subject import NotApplicable, Subject, warned
from softpnet.task.concepts import ConceptSpace
from softpnet.task.task import Rule

LIMIT = 20_000
"""More relabelings than this, whole or in part, are not followed at a time."""
TRIED = 2_000_000
"""More than this are not tried in all, so that the check takes seconds."""
AT_ONCE = 2_000_000
"""So many values, about, does the rule see in one call."""
NAMED = 8
"""No more values are named in a list."""


def no_relabeling_fits(subject: Subject) -> str:
    """Counts the relabelings that fit, and names a few values whose anchors alone would rule them out.

    A relabeling takes each value of an attribute for one of its values, in all slots alike, as a network might that
    gets every label right; two may be taken for the same.
    """
    task, concepts = subject.task, subject.data.train.concepts
    if concepts is None:
        raise NotApplicable("the training examples have no true concepts, so that it is not known what occurs")
    rows = concepts.long().unique(dim=0)  # [M, k]
    if not task.space.consist_of_primitives(rows).all():
        raise NotApplicable("some training examples have a combination of values that is no primitive (see 'concepts')")
    found = fitting_relabelings(task.space, rows, task.rule)
    if found is None:
        return warned(
            f"more than {LIMIT:,} relabelings of the values would have to be followed at a time, or {TRIED:,} in all; "
            "they are not counted, so that shortcuts are neither found nor ruled out"
        )
    values = Values(task.space)
    examples = count(len(rows), "different assignment")
    absent = (found[0] < 0).nonzero().flatten()
    if len(absent):
        examples += f", none with {listed([values.names[v] for v in absent], NAMED)}"
    wrong = (found >= 0) & (found != values.number)  # [S, V]
    found, wrong = found[wrong.any(1)], wrong[wrong.any(1)]
    if not len(wrong):
        return f"no relabeling of the values keeps the labels of all training examples ({examples})"
    nearest = int(wrong.sum(1).argmin())
    moved = wrong[nearest].nonzero().flatten()
    taken = moved - values.number[moved] + found[nearest, moved]  # the places of what they are taken for
    told = listed([f"{values.names[v]} for {values.plain[w]}" for v, w in zip(moved, taken, strict=True)], NAMED)
    enough = listed([values.names[v] for v in _enough(wrong)], NAMED)
    keep = "relabeling of the values keeps" if len(wrong) == 1 else "relabelings of the values keep"
    return warned(
        f"{len(wrong):,} {keep} the labels of all training examples ({examples}), such as to take {told}; "
        f"anchors of {enough} alone would rule out every one, so choose those with care"
    )


class Values:
    """The values of all attributes of a space, group after group, V in all.

    Attributes:
        number, choices: of each value, which of its attribute's it is, and how many those are, `[V]` each.
        first: where the values of each concept's attribute begin, `[k]`.
        plain, names: for people, `names` with the attribute before them where two attributes share a name.
    """

    def __init__(self, space: ConceptSpace) -> None:
        sizes = [h for group in space.groups for h in group.values]
        begin = [sum(sizes[:at]) for at in range(len(sizes))]
        self.number = torch.cat([torch.arange(h) for h in sizes])
        self.choices = torch.tensor(sizes).repeat_interleave(torch.tensor(sizes))
        attributes = iter(begin)
        each = [[next(attributes) for _ in group.values] * len(group.slots) for group in space.groups]
        self.first = torch.tensor([place for part in each for place in part])
        named = [(who, names) for group in space.groups for who, names in attribute_names(space, group)]
        self.plain = [name for _, names in named for name in names]
        unique = len(set(self.plain)) == len(self.plain)
        self.names = self.plain if unique else [who + name for who, names in named for name in names]


def fitting_relabelings(space: ConceptSpace, rows: Tensor, label: Rule) -> Tensor | None:
    """All relabelings under which rows `[M, k]` keep their labels, and show only what has a prototype.

    Values are read one after the other, and a row is asked for its label as soon as all of its values are read.

    Returns:
        What each value is taken for, -1 where it does not occur, `[S, V]`; None where there are too many to follow.
    """
    values = Values(space)
    places = rows + values.first  # [M, k]
    wanted = label(rows.clone())  # [M] or [M, m]
    unread = torch.zeros(len(rows), len(values.number), dtype=torch.bool).scatter(1, places, True)  # [M, V]
    lacking = unread.sum(1)  # [M]
    relabelings = torch.full((1, len(values.number)), -1)
    tried = 0
    while lacking.any():
        value = _most_telling(unread, lacking)
        choices = torch.arange(int(values.choices[value]))
        lacking = lacking - unread[:, value].long()
        ready = (unread[:, value] & (lacking == 0)).nonzero().flatten()
        unread[:, value] = False
        tried += len(relabelings) * len(choices)
        if tried > TRIED:
            return None
        kept, many = [], 0
        for some in relabelings.split(max(1, AT_ONCE // (len(choices) * max(places.shape[1], len(values.number))))):
            some = some.repeat_interleave(len(choices), dim=0)
            some[:, value] = choices.repeat(len(some) // len(choices))
            kept.append(_that_fit(some, places[ready], wanted[ready], space, label))
            many += len(kept[-1])
            if many > LIMIT:
                return None
        relabelings = torch.cat(kept)
    return relabelings


def _that_fit(relabelings: Tensor, places: Tensor, wanted: Tensor, space: ConceptSpace, label: Rule) -> Tensor:
    """Those of the relabelings `[S, V]` that give rows, at these places `[b, k]`, primitives and the labels wanted."""
    while len(places) and len(relabelings):
        many = max(1, AT_ONCE // (len(relabelings) * places.shape[1]))  # more rows, the fewer relabelings are left
        read = relabelings[:, places[:many]]  # [S, b, k]
        shown = space.consist_of_primitives(read).all(1)
        if not shown.all():
            relabelings, read = relabelings[shown], read[shown]
        if len(relabelings):
            fits = label(read) == wanted[:many]  # [S, b] or [S, b, m]
            relabelings = relabelings[fits.flatten(1).all(1)]
        places, wanted = places[many:], wanted[many:]
    return relabelings


def _most_telling(unread: Tensor, lacking: Tensor) -> int:
    """Of the unread values of each row, `[M, V]`, the most frequent one in the rows that lack the fewest, `[M]`."""
    return int(unread[lacking == lacking[lacking > 0].min()].sum(0).argmax())


def _enough(wrong: Tensor) -> list[int]:
    """A few values of which every wrong relabeling `[S, V]` gets one wrong; not always the fewest."""
    found = []
    while len(wrong):
        found.append(int(wrong.sum(0).argmax()))
        wrong = wrong[~wrong[:, found[-1]]]
    return sorted(found)
