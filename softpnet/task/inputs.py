"""Checks of what a user hands in, before training starts. Each error names the value, what was expected, and a fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError, about
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.data import Anchors, Data, Examples
from softpnet.task.integers import as_int64, is_integer
from softpnet.task.task import Task


def check_inputs(inputs: Any, space: ConceptSpace, size: Sequence[int] | None = None) -> None:
    """Images must be finite float32 `[N, n, C, H, W]` with the space's slots and, after training, of that size."""
    _check_pixels(inputs, "inputs", 5, "[N, n, C, H, W]")
    if inputs.shape[1] != space.slots:
        raise InputError(
            f"inputs have {inputs.shape[1]} slots (shape {list(inputs.shape)}), "
            f"expected the {space.slots} of the space; give one image per slot"
        )
    if size is not None and list(inputs.shape[2:]) != list(size):
        raise InputError(
            f"inputs have size {list(inputs.shape[2:])}, expected {list(size)} as in training; resize them"
        )


def check_labels(labels: Any, count: int, task: Task) -> Tensor:
    """Labels must be integers, one (or one vector) per example, as the rule gives them; as int64."""
    if not is_integer(labels) or labels.dim() not in (1, 2):
        raise InputError(f"labels are {_kind(labels)}, expected an integer tensor [N] or [N, m]; use labels.long()")
    if len(labels) != count:
        raise InputError(f"there are {len(labels)} labels for {count} examples; expected one per example")
    entries = task.rule(torch.zeros(1, task.space.k, dtype=torch.int64)).shape[1:]
    if labels.shape[1:] != entries:
        shape = ", ".join(["N", *map(str, entries)])
        raise InputError(
            f"labels have shape {list(labels.shape)}, but the rule gives [{shape}]; reshape them or correct the rule"
        )
    return as_int64(labels, "labels")


def check_concepts(concepts: Any, count: int, space: ConceptSpace) -> Tensor:
    """True concepts must be integers `[N, k]` inside the space; as int64."""
    if not is_integer(concepts) or concepts.shape != (count, space.k):
        raise InputError(
            f"concepts are {_kind(concepts)}, expected an integer tensor [{count}, {space.k}]; use concepts.long()"
        )
    whole = as_int64(concepts, "concepts")
    outside = ~space.contains(whole)
    if outside.any():
        raise InputError(
            f"concepts {whole[outside][0].tolist()} of example {int(outside.nonzero()[0])} lie outside the space; "
            f"expected values from 0 to below {list(space.sizes)} ({int(outside.sum()):,} of {count:,} examples differ)"
        )
    return whole


def needed_concepts(concepts: Any, count: int, space: ConceptSpace, method: str) -> Tensor:
    """True concepts for a method that trains on them."""
    if concepts is None:
        raise InputError(
            f"method {method!r} trains on the true concepts, but none are given; "
            "pass fit(..., concepts=...) or Examples with concepts, or choose another method"
        )
    return check_concepts(concepts, count, space)


def arrange_anchors(
    space: ConceptSpace, anchors: Anchors | tuple[Tensor, Any] | Mapping[str, Any], input_shape: torch.Size
) -> list[Tensor]:
    """Anchors as given -> per group `[P, C, H, W]` in the order of its primitives."""
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
    _check_pixels(anchors.inputs, f"anchors of group {group.name!r}", 4, "[P, C, H, W]")
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
    numbers = {primitive: number for number, primitive in enumerate(primitives)}
    place: dict[int, int] = {}
    for at, concept in enumerate(given.tolist()):
        number = numbers.get(tuple(concept), -1) if isinstance(concept, list) else concept
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
    return anchors.inputs[[place[key] for key in range(len(primitives))]]


def check_data(task: Task, data: Data) -> None:
    """Raise for examples that could not be trained or judged on: before an hour of training, not after it."""
    with about("training set"):
        check_inputs(data.train.inputs, task.space)
        check_examples(data.train, task, data.train.inputs.shape[2:])
    for name, examples in data.tests.items():
        with about(f"test set {name!r}"):
            check_examples(examples, task, data.train.inputs.shape[2:])


def check_examples(examples: Examples, task: Task, input_shape: torch.Size) -> None:
    """Examples to judge a model on that was trained on inputs of this shape."""
    check_inputs(examples.inputs, task.space)
    if examples.inputs.shape[2:] != input_shape:
        raise InputError(
            f"inputs have size {list(examples.inputs.shape[2:])}, but the training inputs have {list(input_shape)}; "
            "resize them"
        )
    check_labels(examples.labels, len(examples.inputs), task)
    if examples.concepts is not None:
        check_concepts(examples.concepts, len(examples.inputs), task.space)


def _check_pixels(inputs: Any, what: str, rank: int, shape: str) -> None:
    if not isinstance(inputs, Tensor):
        raise InputError(f"{what} are {type(inputs).__name__}, expected a float32 tensor {shape}; use torch.as_tensor")
    if inputs.layout != torch.strided or inputs.is_meta:
        kind = "without numbers" if inputs.is_meta else str(inputs.layout)
        raise InputError(f"{what} are a tensor {kind}, expected a plain one {shape}; use {what.split()[0]}.to_dense()")
    if inputs.dim() != rank:
        raise InputError(
            f"{what} have rank {inputs.dim()} (shape {list(inputs.shape)}), expected {shape}; "
            "inputs.unsqueeze(dim) adds a missing dimension"
        )
    if inputs.dtype != torch.float32:
        raise InputError(
            f"{what} are {inputs.dtype}, expected torch.float32 in [0, 1]; use inputs.float() / 255 for bytes"
        )
    if len(inputs) == 0:
        raise InputError(f"{what} are empty, expected at least one")
    bad = ~torch.isfinite(inputs.flatten(1).sum(1, dtype=torch.float64))  # a sum keeps NaN, and takes no memory
    if bad.any():
        ids = bad.nonzero().flatten().tolist()
        raise InputError(
            f"{what} hold NaN or infinite pixels in {len(ids)} of them, first in number {ids[0]}; clean or drop them"
        )


def _kind(value: Any) -> str:
    """Type and shape, for an error."""
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
