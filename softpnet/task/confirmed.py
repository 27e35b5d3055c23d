"""Confirmed training slots: anchors that are given by where they stand among the training inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.inputs import check_inputs
from softpnet.task.integers import whole_numbers

EACH = "whole numbers, a row for each anchor"


def confirmed_slots(
    space: ConceptSpace, inputs: Any, slots: Any, concepts: Any, group: str | None = None
) -> tuple[Tensor, Tensor]:
    """Inputs `[M, *shape]` at slots `[M, 2]`, each an example and a slot of it; and what they show, as a tensor."""
    own = _group(space, group)
    examples = check_inputs(inputs, space)
    places = whole_numbers("slots", slots, EACH)
    if places.dim() != 2 or places.shape[1] != 2 or not len(places):
        raise InputError(
            f"slots have shape {list(places.shape)}, expected [M, 2], an example's number and the slot in it: "
            "[[12, 1], [40, 0]]"
        )
    shown = whole_numbers("concepts", concepts, EACH)
    if shown.dim() not in (1, 2) or len(shown) != len(places):
        raise InputError(
            f"there are {len(places)} slots but concepts of shape {list(shown.shape)}; expected a primitive's number "
            "or attribute values for each slot"
        )
    outside = ~((places[:, 0] >= 0) & (places[:, 0] < len(examples)))
    if outside.any():
        found = places[outside][0].tolist()
        raise InputError(
            f"slot {found} is of example {found[0]}, but the inputs have {len(examples):,}, numbered from 0; "
            "correct its number"
        )
    strange = ~torch.isin(places[:, 1], torch.tensor(own.slots))
    if strange.any():
        found = places[strange][0].tolist()
        raise InputError(
            f"slot {found} is not read by group {own.name!r}, which reads slots {list(own.slots)}; name the slot's "
            "own group, or correct it"
        )
    _check_once(places, shown)
    return _read(examples, places), shown


def _read(examples: Any, places: Tensor) -> Tensor:
    """What stands there, `[M, *shape]`; each example is read once."""
    numbers, which = places[:, 0].unique(return_inverse=True)
    return examples[numbers][which, places[:, 1]]


def _check_once(places: Tensor, shown: Tensor) -> None:
    """Raise for a slot that is said to show two things."""
    _, which = places.unique(dim=0, return_inverse=True)
    first = torch.full((len(places),), len(places)).scatter_reduce(0, which, torch.arange(len(places)), "amin")[which]
    differs = (shown != shown[first]).reshape(len(shown), -1).any(1)
    if differs.any():
        at = int(differs.nonzero()[0])
        raise InputError(
            f"slot {places[at].tolist()} is given with concepts {shown[first[at]].tolist()} and {shown[at].tolist()}, "
            "expected one; leave out the wrong one"
        )


def _group(space: ConceptSpace, name: str | None) -> Group:
    names = [group.name for group in space.groups]
    if name is None and len(names) == 1:
        return space.groups[0]
    if name not in names:
        raise InputError(f"slots are given for group {name!r}; name the one that they show, group=... of {names}")
    return space.groups[names.index(name)]
