"""Tensors of numbers, of whichever type: which are whole, and which fit the type that networks compute with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError

UNCOUNTED = (torch.uint16, torch.uint32, torch.uint64)
"""Types that torch stores, but hardly computes with."""
LARGEST = torch.finfo(torch.float32).max
FINITE = f"finite numbers of at most {LARGEST:.2g}"


def is_integer(value: Any) -> bool:
    """Whether it is a tensor of whole numbers."""
    return isinstance(value, Tensor) and not (value.dtype.is_floating_point or value.dtype.is_complex)


def as_tensor(given: Any) -> Any:
    """Numbers in a list or an array, as a tensor; anything else as it is, for the check that names it."""
    if given is None or isinstance(given, (Tensor, str, bytes)):
        return given
    try:
        return torch.tensor(given)
    except (TypeError, ValueError, RuntimeError):
        return given


def any_entry(flags: Tensor) -> Tensor:
    """Whether any entry of each row is true: `[N]` or `[N, ...]` -> `[N]`; N may be 0."""
    return flags if flags.dim() == 1 else flags.flatten(1).any(1)


def not_finite(items: Tensor) -> tuple[list[int], list[int], str]:
    """Items `[N, ...]` with NaN, an infinity, or what becomes one in float32: their numbers; of the first such value
    its place in the item, and the value itself."""
    if not items.is_floating_point() or not items.numel():
        return [], [], ""
    low, high = items.reshape(len(items), -1).aminmax(dim=1)  # [N]; both keep NaN, and take no memory
    ids = (~((low.double() >= -LARGEST) & (high.double() <= LARGEST))).nonzero().flatten().tolist()
    if not ids:
        return [], [], ""
    first = items[ids[0]].double()
    place = (~(first.abs() <= LARGEST)).nonzero()[0].tolist()
    return ids, place, f"{float(first[tuple(place)]):g}"


def as_int64(values: Tensor, what: str) -> Tensor:
    """Whole numbers of any type in the one that all code here computes with; `what` they are is for the error."""
    whole = values.long()
    if values.dtype == torch.uint64 and (whole < 0).any():  # beyond int64 they wrap around
        found = int(whole[whole < 0][0]) + 2**64
        raise InputError(f"{what} hold {found}, expected whole numbers of up to 63 bits; number them from 0 on")
    return whole
