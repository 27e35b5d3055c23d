"""The simplest reasoning shortcuts, counted: readings of the values that give every training example its label."""

from __future__ import annotations

import torch
from torch import Tensor

from softpnet.concepts import ConceptSpace
from softpnet.conformance.report import count
from softpnet.conformance.subject import NotApplicable, Subject
from softpnet.task import LabelFunction

LIMIT = 20_000
"""More readings than this, whole or in part, are not followed."""
AT_ONCE = 2_000_000
"""So many values, about, does the rule see in one call."""


def one_reading_fits(subject: Subject) -> str:
    """Counts the readings that fit, and names a few values whose anchors alone would leave only the true one.

    A reading takes each value of an attribute for one of its values, in all slots alike, as a network might that
    gets every label right.
    """
    task, concepts = subject.task, subject.data.train.concepts
    if concepts is None:
        raise NotApplicable("the training examples have no true concepts, so that it is not known what occurs")
    rows = concepts.long().unique(dim=0)  # [M, k]
    examples = f"all training examples ({count(len(rows), 'different assignment')})"
    values = Values(task.space)
    readings = fitting_readings(values, rows, task.label)
    if readings is None:
        return f"more than {LIMIT:,} readings of the values fit a part of the training examples; they are not counted"
    absent = [name for name, taken in zip(values.names, readings[0].tolist(), strict=True) if taken < 0]
    if absent:
        examples += f", without {_listed(absent)} among them,"
    wrong = (readings >= 0) & (readings != values.number)  # [S, V]
    readings, wrong = readings[wrong.any(1)], wrong[wrong.any(1)]
    if not len(wrong):
        return f"the labels of {examples} allow only the true reading of the values"
    nearest = int(wrong.sum(1).argmin())
    moved = wrong[nearest].nonzero().flatten()
    taken = moved - values.number[moved] + readings[nearest, moved]  # the places of what they are taken for
    told = ", ".join(f"{values.names[v]} for {values.names[w]}" for v, w in zip(moved, taken, strict=True))
    enough = _listed([values.names[v] for v in _enough(wrong)])
    return (
        f"the labels of {examples} allow {count(len(wrong), 'wrong reading')} of the values beside the true one, "
        f"such as to take {told}; anchors of {enough} alone would rule out every wrong one"
    )


class Values:
    """The values of all attributes of a space, group after group, V in all.

    Attributes:
        number, choices: of each value, which of its attribute's it is, and how many those are, `[V]` each.
        first: where the values of each concept's attribute begin, `[k]`.
        names: for people; told apart by their attribute's place where two attributes share a name.
    """

    def __init__(self, space: ConceptSpace) -> None:
        sizes = [h for group in space.groups for h in group.values]
        begin = [sum(sizes[:at]) for at in range(len(sizes))]
        self.number = torch.cat([torch.arange(h) for h in sizes])
        self.choices = torch.tensor(sizes).repeat_interleave(torch.tensor(sizes))
        attributes = iter(begin)
        each = [[next(attributes) for _ in group.values] * len(group.slots) for group in space.groups]
        self.first = torch.tensor([place for part in each for place in part])
        named = [(group.name, names) for group in space.groups for names in group.value_names]
        plain = [name for _, names in named for name in names]
        unique = len(set(plain)) == len(plain)
        full = [f"{who} {at}: {name}" for at, (who, names) in enumerate(named) for name in names]
        self.names = plain if unique else full


def fitting_readings(values: Values, rows: Tensor, label: LabelFunction) -> Tensor | None:
    """All readings under which rows `[M, k]` keep their labels, `[S, V]`: what each value is taken for, -1 where it
    does not occur; None where there are too many to follow.

    Values are read one after the other, and a row is asked for its label as soon as all of its values are read.
    """
    places = rows + values.first  # [M, k]
    wanted = label(rows.clone())  # [M] or [M, m]
    unread = torch.zeros(len(rows), len(values.number), dtype=torch.bool).scatter(1, places, True)  # [M, V]
    readings = torch.full((1, len(values.number)), -1)
    while unread.any():
        value = _most_telling(unread)
        choices = torch.arange(int(values.choices[value]))
        readings = readings.repeat_interleave(len(choices), dim=0)
        readings[:, value] = choices.repeat(len(readings) // len(choices))
        waiting, unread[:, value] = unread.any(1), False
        ready = (waiting & ~unread.any(1)).nonzero().flatten()
        for at in ready.split(max(1, AT_ONCE // (len(readings) * rows.shape[1]))):
            fits = label(readings[:, places[at]]) == wanted[at]  # [S, b] or [S, b, m]
            readings = readings[fits.flatten(1).all(1)]
        if len(readings) > LIMIT:
            return None
    return readings


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def _most_telling(unread: Tensor) -> int:
    """Of the unread values of each row, `[M, V]`, the most frequent one in the rows that lack the fewest."""
    lacking = unread.sum(1)
    return int(unread[lacking == lacking[lacking > 0].min()].sum(0).argmax())


def _enough(wrong: Tensor) -> list[int]:
    """A few values of which every wrong reading `[S, V]` gets one wrong; not always the fewest."""
    found = []
    while len(wrong):
        found.append(int(wrong.sum(0).argmax()))
        wrong = wrong[~wrong[:, found[-1]]]
    return sorted(found)
