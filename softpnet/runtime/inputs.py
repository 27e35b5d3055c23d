"""Inputs that a model takes: the same checks, in the same words, for a Learner and for an export."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from softpnet.errors import InputError

LARGEST = float(np.finfo(np.float32).max)
FINITE = f"finite numbers of at most {LARGEST:.2g}"
FAR_ABOVE_ONE = 10
"""No noise brings a pixel of 0 to 1 to this."""
ANY_NUMBER = 2**63 - 1
"""In place of a table's rows, where a number is not looked up in one."""


def as_array(inputs: Any, what: str = "inputs") -> np.ndarray:
    """Numbers of a type that is computed with, in this machine's order of bytes."""
    try:
        array = np.asarray(inputs)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, and tensors that numpy lacks
        raise InputError(f"{what} cannot be read as an array ({error}); give an array of numbers") from error
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InputError(f"{what} are {array.dtype}, expected real or whole numbers of at most 64 bits; convert them")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_values(array: np.ndarray, what: str, rank: int, shape: str) -> None:
    """Raise for what has fewer dimensions, nothing in it, or NaN or an infinity."""
    if array.ndim < rank:
        raise InputError(
            f"{what} have rank {array.ndim} (shape {list(array.shape)}), expected {shape}; unsqueeze adds a missing "
            "dimension to a tensor, np.expand_dims to an array"
        )
    if len(array) == 0:
        raise InputError(f"{what} are empty, expected at least one")
    ids, _, value = not_finite(array)
    if ids:
        raise InputError(
            f"{what} hold NaN, infinity or numbers too large for float32 in {len(ids)} of {len(array)}, first {value} "
            f"in number {ids[0]}; clean or drop them"
        )


def not_finite(array: np.ndarray) -> tuple[list[int], list[int], str]:
    """Items `[N, ...]` with NaN, an infinity, or what becomes one in float32: their numbers; of the first such value
    its place in the item, and the value itself."""
    if array.dtype.kind != "f" or not array.size:
        return [], [], ""
    flat = array.reshape(len(array), -1)
    with np.errstate(invalid="ignore"):
        low, high = (ends.astype(np.float64) for ends in (flat.min(1), flat.max(1)))  # [N]; both keep NaN
    ids = np.flatnonzero(~((low >= -LARGEST) & (high <= LARGEST))).tolist()
    if not ids:
        return [], [], ""
    first = array[ids[0]].astype(np.float64)
    place = np.argwhere(~(np.abs(first) <= LARGEST))[0]
    return ids, place.tolist(), f"{first[tuple(place)]:g}"


def check_size(shape: Sequence[int], slots: int, size: Sequence[int] | None = None) -> None:
    """Raise unless inputs of this shape have the slots and, after training, the size `[*shape]` of a slot."""
    if shape[1] != slots:
        raise InputError(
            f"inputs have {shape[1]} slots (shape {list(shape)}), expected the {slots} of the space; give one input "
            f"per slot, [N, {slots}, ...]"
        )
    if size is not None and list(shape[2:]) != list(size):
        raise InputError(f"inputs have size {list(shape[2:])}, expected {list(size)} as in training; resize them")


def is_real(kind: Any) -> bool:
    """Whether an encoder reads numbers of this type, numpy's or torch's, as real ones, as it does bytes."""
    return "float" in _name(kind) or _name(kind) in ("uint8", "bool")


def check_kind(what: str, kind: Any, others: str, other: Any) -> None:
    """Raise where one of two types is read as real numbers and the other as whole ones, such as tokens."""
    if is_real(kind) == is_real(other):
        return
    words = ["real", "whole"] if is_real(kind) else ["whole", "real"]
    to = "float32, or to uint8 if they are pixels of 0 to 255" if is_real(other) else "int64"
    raise InputError(
        f"{what} are {words[0]} numbers ({_name(kind)}), but {others} are {words[1]} ones ({_name(other)}); convert "
        f"them to {to}"
    )


def check_ids(array: np.ndarray, rows: np.ndarray, what: str = "inputs") -> None:
    """Raise where a table of so many rows `[...]` lacks one of the whole numbers `[N, ...]` that it looks up."""
    wrong = (rows < ANY_NUMBER) & ((array < 0) | (array >= rows))
    if wrong.any():
        first, *at = np.argwhere(wrong)[0]
        most = int(rows[tuple(at)]) - 1
        raise InputError(
            f"{what} hold the id {array[(first, *at)]} in number {first}, expected 0 to {most:,}, the rows of the "
            "encoder's table; correct it, or train with a larger table"
        )


def is_image(size: Sequence[int]) -> bool:
    """Whether inputs of that size may be images: windows of signals are hardly ever square."""
    return len(size) == 3 or (len(size) == 2 and size[0] == size[1] >= 8)


def are_unit_pixels(images: np.ndarray) -> bool:
    """Whether inputs `[M, *shape]` are images of 0 to 1."""
    return is_image(images.shape[1:]) and bool(0 <= images.min() and images.max() <= 1)


def look_unscaled(images: np.ndarray) -> bool:
    """Whether real numbers `[M, *shape]` look like pixels of 0 to 255: in colour by their range; else they are whole
    too, and go beyond what boards and small counts have."""
    if images.dtype.kind != "f" or not is_image(images.shape[1:]) or not 0 <= images.min():
        return False
    high = images.max()
    in_colour = images.ndim == 4 and images.shape[1] == 3 and 200 < high <= 255
    return bool(in_colour or (127 < high <= 255 and (images == images.round()).all()))


def warn_of_scale(what: str, images: np.ndarray, others: str, unit: bool) -> None:
    """Warn where the others are pixels of 0 to 1, and these go up to 255."""
    high = images.max() if unit and images.dtype.kind == "f" and images.min() >= 0 else 0
    if FAR_ABOVE_ONE < high <= 255:
        warnings.warn(
            f"{what} go up to {high:.4g}, but {others} are pixels of 0 to 1; divide them by 255", stacklevel=3
        )


def unreadable(lost: np.ndarray, inputs: Any, before: int = 0) -> InputError:
    """Of examples `[N]` among these inputs, `before` others, of which the network makes what is not finite."""
    at = int(lost.argmax())
    low, high = float(inputs[at].min()), float(inputs[at].max())
    return InputError(
        f"{int(lost.sum())} of {len(lost)} examples cannot be read, number {before + at} first: the network makes of "
        f"its numbers, {low:g} to {high:g}, what is not finite; scale them as in training, where 0 to 1 is usual, or "
        "train again with a lower learning_rate if all examples are lost"
    )


def _name(kind: Any) -> str:
    """A type of numbers as numpy calls it."""
    return getattr(kind, "name", None) or str(kind).removeprefix("torch.")
