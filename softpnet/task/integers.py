"""Tensors of numbers, of whichever type: which are whole, and as numpy has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.runtime.inputs import as_array

UNCOUNTED = (torch.uint16, torch.uint32, torch.uint64)
"""Types that torch stores, but hardly computes with."""


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


def whole_numbers(what: str, given: Any, expected: str) -> Tensor:
    """A tensor, a list or an array of whole numbers, as int64."""
    try:
        found = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{what} cannot be read ({error}); expected {expected}") from error
    if not is_integer(found) or found.dtype == torch.bool:
        raise InputError(f"{what} are {found.dtype}, expected whole numbers; use .long()")
    return found.long()


def any_entry(flags: Tensor) -> Tensor:
    """Whether any entry of each row is true: `[N]` or `[N, ...]` -> `[N]`; N may be 0."""
    return flags if flags.dim() == 1 else flags.flatten(1).any(1)


def tensor_as_array(values: Tensor, what: str = "inputs") -> np.ndarray:
    """A plain tensor as numpy has it, which has no real numbers of fewer bits than half precision, without a copy."""
    short = values.is_floating_point() and values.dtype not in (torch.float16, torch.float32, torch.float64)
    return as_array((values.float() if short else values).detach().cpu(), what)


def as_int64(values: Tensor, what: str) -> Tensor:
    """Whole numbers of any type in the one that all code here computes with; `what` they are is for the error."""
    whole = values.long()
    if values.dtype == torch.uint64 and (whole < 0).any():  # beyond int64 they wrap around
        found = int(whole[whole < 0][0]) + 2**64
        raise InputError(f"{what} hold {found}, expected whole numbers of up to 63 bits; number them from 0 on")
    return whole
