"""Blank inputs, to try an encoder on."""

from __future__ import annotations

import torch
from torch import Tensor


def two_blank(like: Tensor) -> Tensor:
    """Two inputs of that shape and kind, all zero: `[2, *shape]`; real numbers in the encoder's first precision."""
    return torch.zeros(2, *like.shape, dtype=torch.float32 if like.is_floating_point() else like.dtype)
