"""Anchors as a user has them: checked, and in the order of the primitives that they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.runtime.inputs import check_kind, is_real
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.data import Anchors, Inputs
from softpnet.task.inputs import check_numbers
from softpnet.task.integers import as_tensor, whole_numbers
from softpnet.task.lazy import numbers


class AnchorSet(NamedTuple):
    """The anchors of a group, one or several of a primitive, or none."""

    inputs: Tensor  # [M, *shape], in the order of the primitives
    primitives: Tensor  # [M], rising

    def anchored(self) -> tuple[Tensor, Tensor]:
        """The primitives that have anchors `[V]`, and how many each has `[V]`."""
        found, counts = self.primitives.unique_consecutive(return_counts=True)
        return found, counts

    def tensors(self) -> list[Tensor]:
        """What tells two sets apart: the inputs, and where they are not one of each, the primitives."""
        plain = torch.equal(self.primitives, torch.arange(len(self.primitives)))
        return [self.inputs] if plain else [self.inputs, self.primitives]

    def one_of_each(self, primitives: int) -> Tensor:
        """The first anchor of every primitive `[P, *shape]`, blank where there is none."""
        found, counts = self.anchored()
        shown = self.inputs.new_zeros(primitives, *self.inputs.shape[1:])
        shown[found] = self.inputs[counts.cumsum(0) - counts]
        return shown


def arrange_anchors(
    space: ConceptSpace, anchors: Anchors | tuple[Tensor, Any] | Mapping[str, Any], input_shape: torch.Size
) -> list[AnchorSet]:
    """Anchors as given, per group, in the order of its primitives."""
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
                f"anchors of group {name!r} are {type(given).__name__}, expected softpnet.Anchors(inputs, concepts); a "
                "method that uses none takes any inputs, one per value, as docs/data.md shows under Anchors"
            )
    return [_arrange(group, Anchors(*anchors[group.name]), input_shape) for group in space.groups]


def check_kinds(space: ConceptSpace, inputs: Inputs, anchors: Sequence[AnchorSet]) -> None:
    """Raise where anchors are real numbers and inputs whole ones, or the other way round: one encoder reads both."""
    for group, own in zip(space.groups, anchors, strict=True):
        pair = [(f"anchors of group {group.name!r}", own.inputs.dtype), ("inputs", inputs.dtype)]
        wrong, right = pair if is_real(inputs.dtype) else reversed(pair)  # numbers are seldom tokens
        check_kind(*wrong, *right)


def _arrange(group: Group, anchors: Anchors, input_shape: torch.Size) -> AnchorSet:
    anchors = Anchors(*map(as_tensor, anchors))
    check_numbers(anchors.inputs, f"anchors of group {group.name!r}", 1, "[P, ...]")
    if anchors.inputs.shape[1:] != input_shape:
        raise InputError(
            f"anchors of group {group.name!r} have size {list(anchors.inputs.shape[1:])}, "
            f"but the inputs have {list(input_shape)}; resize them"
        )
    primitives = list(group.primitives)
    what, expected = f"anchor concepts of group {group.name!r}", "primitives' numbers [P], or attribute values [P, a]"
    given = whole_numbers(what, anchors.concepts, expected)
    if given.dim() not in (1, 2):
        raise InputError(f"{what} have shape {list(given.shape)}, expected {expected}")
    if len(given) != len(anchors.inputs):
        raise InputError(f"there are {len(anchors.inputs)} anchor inputs but {len(given)} anchor concepts")
    # A plain integer is a primitive's number; a row of integers is its attribute values.
    order = {primitive: number for number, primitive in enumerate(primitives)}
    shown = []
    for at, concept in enumerate(given.tolist()):
        number = order.get(tuple(concept), -1) if isinstance(concept, list) else concept
        if number not in range(len(primitives)):
            names = group.primitive_names
            raise InputError(
                f"anchor {at} of group {group.name!r} has concept {concept}, which is outside the space; "
                f"expected one of its {len(names)} primitives, {names[0]!r} to {names[-1]!r}"
            )
        shown.append(number)
    rising, places = torch.tensor(shown).sort(stable=True)
    return AnchorSet(numbers(anchors.inputs[places]), rising)
