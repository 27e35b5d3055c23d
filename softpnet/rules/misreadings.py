"""Misreadings: values that neither rule nor anchors tell apart, since another reading of them changes no label."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.rules.exchange import RANDOM, telling_rows
from softpnet.rules.function import some_rows
from softpnet.rules.relabelings import Values, enough, followed
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.task import Rule, Task

NEAREST = 200
"""Where more readings would have to be followed at a time, those that mistake the fewest values are."""
MOST = 2_000
"""No search among more primitives."""
NAMED = 8
"""No more values are named."""


class Misreadings(NamedTuple):
    """What a network may take primitives for, in all slots alike, with every label right."""

    taken: list[str]  # of one such reading, "'1' for '2'" each; none where the rule tells all apart
    enough: list[str]  # primitives whose anchors alone would rule out all that were found
    all_tried: bool  # or else there may be more

    def __str__(self) -> str:
        more = [f"{len(self.taken) - NAMED} more"] if len(self.taken) > NAMED else []
        return f"to take {_joined([*self.taken[:NAMED], *more])} changes no label"

    @property
    def remedy(self) -> str:
        return _joined(self.enough)


def misreadings(task: Task, anchored: Sequence[Tensor] | None = None) -> Misreadings:
    """Readings of primitives, other than the true one, under which no assignment changes its label.

    Args:
        anchored: per group, the primitives that have anchors, which are taken for what they are.
    """
    space = task.space
    if sum(len(group.primitives) for group in space.groups) > MOST:
        return Misreadings([], [], False)
    ids = _by_primitives(space)
    values = Values(ids)
    rows = _told(task, ids)  # [M, n], a primitive per slot
    each = [torch.arange(0)] * len(space.groups) if anchored is None else anchored
    sizes = [len(group.primitives) for group in space.groups]
    known = [torch.isin(torch.arange(size), own) for size, own in zip(sizes, each, strict=True)]  # [P_g] each

    def label(shown: Tensor) -> Tensor:
        return task.rule(_assignments(space, ids, shown))

    if (label(rows) == label(rows[:1])).all():
        return Misreadings([], [], False)  # labels so rare that no row has them: any reading would seem to keep them
    found, all_tried = followed(ids, rows, label, torch.cat(known), NEAREST)
    wrong = (found >= 0) & (found != values.number)  # [S, V]
    fits = [_fits(ids, label, values, *pair) for pair in zip(found, wrong, strict=True)]
    found, wrong = found[fits], wrong[fits]
    if not len(found):
        return Misreadings([], [], all_tried)
    prefixes = [f"{group.name} " if len(space.groups) > 1 else "" for group in space.groups]
    parts = zip(prefixes, space.groups, strict=True)
    names = [f"{before}{name!r}" for before, group in parts for name in group.primitive_names]
    nearest = int(wrong.sum(1).argmin())
    moved = wrong[nearest].nonzero().flatten()
    instead = moved - values.number[moved] + found[nearest, moved]
    taken = [f"{names[one]} for {names[other]}" for one, other in zip(moved, instead, strict=True)]
    return Misreadings(taken, [names[value] for value in enough(wrong)], all_tried)


def mixed_up(task: Task, anchors: Sequence[AnchorSet]) -> str | None:
    """A sentence on two groups of the same slots, if there are such, whose anchors are the same inputs in fixed pairs
    of primitives, and which the rule lets change places: a network may read one for the other."""
    space, ids = task.space, _by_primitives(task.space)
    for one, other in combinations(range(len(space.groups)), 2):
        first, second = space.groups[one], space.groups[other]
        if first.slots != second.slots or not len(first.primitives) == len(second.primitives) > 1:
            continue
        partner = _shown_with(anchors[one], anchors[other])
        if partner is None or len(partner) < len(first.primitives):
            continue
        rows = _told(task, ids)  # [M, n], a primitive per slot
        labels, parts = task.rule(_assignments(space, ids, rows)), ids.split(rows)
        parts[one], parts[other] = partner.argsort()[parts[other]], partner[parts[one]]
        changed = torch.cat([part.flatten(1) for part in parts], dim=1)
        same = torch.equal(task.rule(_assignments(space, ids, changed)), labels)
        if same and not (labels == labels[:1]).all():  # where all are alike, nothing can be seen
            names = [second.primitive_names[at] for at in partner]
            pairs = [f"{own!r} with {its!r}" for own, its in zip(first.primitive_names, names, strict=True)]
            return (
                f"neither rule nor anchors tell {first.name} from {second.name}: anchors show {_joined(pairs[:NAMED])} "
                "only, and to read one group for the other changes no label; label an input of "
                f"{first.primitive_names[0]!r} with {names[1]!r} too"
            )
    return None


def _shown_with(one: AnchorSet, other: AnchorSet) -> Tensor | None:
    """Where the same inputs show both, each primitive of one always with the same of the other: the latter, for each of
    one's, `[P]`."""
    if one.inputs.shape[1:] != other.inputs.shape[1:] or one.inputs.dtype != other.inputs.dtype:
        return None
    inputs = torch.cat([one.inputs, other.inputs]).flatten(1).unique(dim=0, return_inverse=True)[1]  # numbered
    shown = [
        dict(zip(its.tolist(), own.primitives.tolist(), strict=True))
        for its, own in zip(inputs.split([len(one.inputs), len(other.inputs)]), (one, other), strict=True)
    ]
    if shown[0].keys() != shown[1].keys():
        return None
    pairs = sorted({(primitive, shown[1][at]) for at, primitive in shown[0].items()})
    every = list(range(len(pairs)))
    if [first for first, _ in pairs] != every or sorted(second for _, second in pairs) != every:
        return None
    return torch.tensor([second for _, second in pairs])


def all_values_shown(space: ConceptSpace, anchored: Sequence[Tensor]) -> bool:
    """Whether anchors show every value of every attribute, so that only combinations of them lack one."""
    return all(
        len(group.primitive_table()[own, at].unique()) == size
        for group, own in zip(space.groups, anchored, strict=True)
        for at, size in enumerate(group.values)
    )


def _fits(ids: ConceptSpace, label: Rule, values: Values, reading: Tensor, moved: Tensor) -> bool:
    """Whether a reading `[V]` mistakes something, and no label changes where what it mistakes is frequent: values that
    hardly meet in random assignments would seem alike."""
    if not moved.any():
        return False
    involved = moved.clone()
    involved[(torch.arange(len(moved)) - values.number + reading)[moved]] = True
    generator, columns = Generator().manual_seed(0), []
    for first, size in zip(values.first.tolist(), ids.sizes, strict=True):
        here = involved[first : first + size].float()
        weight = 1 / size + here / here.sum().clamp_min(1)  # half of what is drawn is involved
        columns.append(first + torch.multinomial(weight, RANDOM, True, generator=generator))
    places = torch.stack(columns, dim=1)  # [M, n]
    shown = reading[places]
    shown = torch.where(shown < 0, places - values.first, shown)  # what did not occur is taken for itself
    return torch.equal(label(shown), label(places - values.first))


def _by_primitives(space: ConceptSpace) -> ConceptSpace:
    """A space whose values are the primitives."""
    return ConceptSpace(*(Group(group.slots, len(group.primitives), group.name) for group in space.groups))


def _told(task: Task, ids: ConceptSpace) -> Tensor:
    """Assignments to ask the rule about, as primitives `[M, n]`: all, or random ones and some of every label."""
    if ids.size <= RANDOM:
        return ids.all()
    rows = torch.cat(task.space.primitives(telling_rows(task)), dim=-1)
    return torch.cat([some_rows(ids, RANDOM), rows[(rows >= 0).all(1)]])


def _assignments(space: ConceptSpace, ids: ConceptSpace, shown: Tensor) -> Tensor:
    """A primitive per slot `[..., n]` -> assignments `[..., k]`."""
    parts = zip(space.groups, ids.split(shown), strict=True)  # [..., n_g, 1] each
    return torch.cat([group.primitive_table()[part[..., 0]].flatten(-2) for group, part in parts], dim=-1)


def _joined(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + [*names[-1:]])
