"""Checks of what a user hands in, before training starts. Each error names the value, what was expected, and a fix."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softpnet.errors import InputError, about
from softpnet.runtime.inputs import (
    are_unit_pixels,
    check_kind,
    check_size,
    check_values,
    is_image,
    is_real,
    look_unscaled,
    warn_of_scale,
)
from softpnet.task.concepts import ConceptSpace
from softpnet.task.data import Data, Examples, Inputs
from softpnet.task.integers import as_int64, as_tensor, is_integer, tensor_as_array
from softpnet.task.lazy import SAMPLE, LazyInputs, as_inputs
from softpnet.task.task import AUTO, Task


def check_inputs(given: Any, space: ConceptSpace, size: Sequence[int] | None = None) -> Inputs:
    """Inputs `[N, n, *shape]`, finite, with the space's slots; after training, of that size. A source is made lazy."""
    inputs: Inputs = as_inputs(given, space)
    if not isinstance(inputs, LazyInputs):
        check_numbers(inputs, "inputs", 2, "[N, n, ...]")
    check_size(inputs.shape, space.slots, size)
    return inputs


def check_labels(labels: Any, count: int, task: Task) -> Tensor:
    """Labels must be integers, one (or one vector) per example, as the rule gives them; as int64."""
    labels = as_tensor(labels)
    if not is_integer(labels) or labels.dim() not in (1, 2):
        raise InputError(
            f"labels are {_kind(labels)}, expected an integer tensor [N] or [N, m]; use {_whole(labels, 'labels')}"
        )
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
    concepts = as_tensor(concepts)
    if not is_integer(concepts) or concepts.shape != (count, space.k):
        raise InputError(
            f"concepts are {_kind(concepts)}, expected an integer tensor [{count}, {space.k}]; use "
            f"{_whole(concepts, 'concepts')}"
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


def check_data(task: Task, data: Data) -> None:
    """Raise for examples that could not be trained or judged on: before an hour of training, not after it."""
    with about("training set"):
        train = check_inputs(data.train.inputs, task.space)
        shape = train.shape[2:]
        check_examples(data.train, task, shape)
    for name, examples in data.tests.items():
        with about(f"test set {name!r}"):
            check_examples(examples, task, shape)
            check_kind("inputs", as_inputs(examples.inputs, task.space).dtype, "the training inputs", train.dtype)


def check_examples(examples: Examples, task: Task, input_shape: torch.Size) -> None:
    """Examples to judge a model on that was trained on inputs of this shape."""
    inputs = check_inputs(examples.inputs, task.space)
    if inputs.shape[2:] != input_shape:
        raise InputError(
            f"inputs have size {list(inputs.shape[2:])}, but the training inputs have {list(input_shape)}; resize them"
        )
    check_labels(examples.labels, len(examples.inputs), task)
    if examples.concepts is not None:
        check_concepts(examples.concepts, len(examples.inputs), task.space)


def warn_of_images(task: Task, inputs: Inputs, anchors: Tensor) -> None:
    """Warn where training inputs, or anchors `[M, *shape]`, look like pixels of 0 to 255, or like images without a
    channel."""
    sample, size = some_inputs(inputs), tuple(inputs.shape[2:])
    images, shots = sample.reshape(-1, *size), tensor_as_array(anchors)
    if look_unscaled(images) or look_unscaled(shots):
        warnings.warn(
            "inputs or anchors are real numbers that look like pixels of 0 to 255, expected 0 to 1; divide them by 255",
            stacklevel=2,
        )
    else:
        warn_of_scale("inputs", images, "the anchors", are_unit_pixels(shots))
        warn_of_scale("anchors", shots, "the inputs", are_unit_pixels(images))
    if task.augment == AUTO and len(size) == 2 and is_image(size) and is_real(sample.dtype) and sample.min() >= 0:
        warnings.warn(
            f"inputs of size {size[0]}x{size[1]} look like images without a channel, which are not augmented; give "
            "them one by inputs.unsqueeze(2), and anchors by unsqueeze(1), or set augment=None if they are no images",
            stacklevel=2,
        )


def some_inputs(inputs: Inputs) -> np.ndarray:
    """Some inputs, evenly spread; of a source, the first alone."""
    some = inputs[:: max(1, len(inputs) // SAMPLE)] if isinstance(inputs, Tensor) else inputs.example[None]
    return tensor_as_array(some)


def check_numbers(inputs: Any, what: str, rank: int, shape: str) -> None:
    """Raise for what is no plain tensor of finite numbers with at least so many dimensions."""
    if not isinstance(inputs, Tensor):
        source = ", or a source of inputs with len() that gives one by its number" if what == "inputs" else ""
        raise InputError(f"{what} are {type(inputs).__name__}, expected a tensor {shape}{source}")
    if inputs.layout != torch.strided or inputs.is_meta or inputs.is_quantized:
        layout = "without numbers" if inputs.is_meta else f"{inputs.layout} of {inputs.dtype}"
        raise InputError(
            f"{what} are a tensor {layout}, expected a plain one {shape}; use {what.split()[0]}.to_dense()"
        )
    check_values(tensor_as_array(inputs, what), what, rank, shape)


def _whole(value: Any, name: str) -> str:
    """What makes an integer tensor of it."""
    return f"{name}.long()" if isinstance(value, Tensor) else f"torch.as_tensor({name})"


def _kind(value: Any) -> str:
    """Type and shape, for an error."""
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
