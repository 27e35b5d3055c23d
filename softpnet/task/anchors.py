"""Anchors as a user has them, checked and put in the order of the primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.data import Anchors
from softpnet.task.inputs import check_numbers
from softpnet.task.lazy import numbers


def arrange_anchors(
    space: ConceptSpace, anchors: Anchors | tuple[Tensor, Any] | Mapping[str, Any], input_shape: torch.Size
) -> list[Tensor]:
    """Anchors as given -> per group `[P, *shape]` in the order of its primitives."""
    if not isinstance(anchors, Mapping):
        if len(space.groups) > 1:
            raise InputError(
                f"the space has groups {[g.name for g in space.groups]}; give anchors as a dict by group name"
            )
        anchors = {space.groups[0].name: anchors}
    names = {group.name for group in space.groups}
    if set(anchors) != names:
        raise InputError(f"anchors are given for groups {sorted(map(str, anchors))}, expected {sorted(names)}")
    for name, given in anchors.items():
        if isinstance(given, Tensor) or not isinstance(given, Sequence) or len(given) != 2:
            raise InputError(
                f"anchors of group {name!r} are {type(given).__name__}, expected softpnet.Anchors(inputs, concepts)"
            )
    return [_arrange(group, Anchors(*anchors[group.name]), input_shape) for group in space.groups]


def _arrange(group: Group, anchors: Anchors, input_shape: torch.Size) -> Tensor:
    check_numbers(anchors.inputs, f"anchors of group {group.name!r}", 1, "[P, ...]")
    if anchors.inputs.shape[1:] != input_shape:
        raise InputError(
            f"anchors of group {group.name!r} have size {list(anchors.inputs.shape[1:])}, "
            f"but the inputs have {list(input_shape)}; resize them"
        )
    primitives = list(group.primitives)
    try:
        given = torch.as_tensor(anchors.concepts)
        if given.dim() not in (1, 2):
            raise ValueError(f"their shape is {list(given.shape)}")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"anchor concepts of group {group.name!r} cannot be read ({error}); expected a tensor of primitives' "
            "numbers [P], or of attribute values [P, a]"
        ) from error
    if len(given) != len(anchors.inputs):
        raise InputError(f"there are {len(anchors.inputs)} anchor inputs but {len(given)} anchor concepts")
    # A plain integer is a primitive's number; a row of integers is its attribute values.
    order = {primitive: number for number, primitive in enumerate(primitives)}
    place: dict[int, int] = {}
    for at, concept in enumerate(given.tolist()):
        number = order.get(tuple(concept), -1) if isinstance(concept, list) else concept
        if number not in range(len(primitives)):
            names = group.primitive_names
            raise InputError(
                f"anchor {at} of group {group.name!r} has concept {concept}, which is outside the space; "
                f"expected one of its {len(names)} primitives, {names[0]!r} to {names[-1]!r}"
            )
        if number in place:
            raise InputError(
                f"anchors {place[number]} and {at} of group {group.name!r} both show concept "
                f"{group.primitive_names[number]!r}; expected exactly one anchor per concept, drop one"
            )
        place[number] = at
    missing = [name for key, name in enumerate(group.primitive_names) if key not in place]
    if missing:
        raise InputError(
            f"group {group.name!r} has no anchor for {', '.join(map(repr, missing))}; "
            "expected one labelled image per concept"
        )
    return numbers(anchors.inputs[[place[key] for key in range(len(primitives))]])
