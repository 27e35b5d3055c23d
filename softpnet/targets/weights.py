"""Scores, weights and soft targets of candidates (paper, section 4.3). Nothing here carries a gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Candidates(NamedTuple):
    """Feasible assignments of each example of a batch."""

    rows: Tensor  # [B, K, k]
    valid: Tensor  # [B, K]; False is padding or a repeated row and has weight zero


def weights(scores: Tensor, valid: Tensor, gamma: float) -> Tensor:
    """w = softmax(s / gamma) over the valid candidates, `[B, K]`; gamma = 0 is the limit, all on the best one.

    An example without a valid candidate has weights zero.
    """
    masked = scores.masked_fill(~valid, -math.inf)
    if gamma == 0:
        best = torch.nn.functional.one_hot(masked.argmax(-1), masked.shape[-1])  # [B, K]
        return best.to(scores.dtype) * valid
    # Shifting before the division keeps s / gamma small where it matters.
    shifted = masked - masked.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    return torch.softmax(shifted / gamma, -1).nan_to_num(0.0)


def soft_target(rows: Tensor, weights: Tensor, h: int) -> Tensor:
    """target^i(v) = sum_j w_j [c_ji = v]: rows `[B, K, k]`, weights `[B, K]` -> `[B, k, h]`."""
    batch, _, k = rows.shape
    index = rows.transpose(1, 2)  # [B, k, K]
    target = torch.zeros(batch, k, h, dtype=weights.dtype, device=weights.device)
    return target.scatter_add_(2, index, weights[:, None].expand(index.shape))
