"""Scores of rows: log p(c|x) of each example's own rows, or of long lists that many examples share."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def scores(log_p: Tensor, rows: Tensor) -> Tensor:
    """s_j = log p(c_j | x) = sum_i log p^i(c_ji | x): log p `[B, k, h]`, rows `[B, K, k]` -> `[B, K]`."""
    return log_p.gather(2, rows.transpose(1, 2)).sum(1)  # [B, k, K] -> [B, K]


def table_lines(rows: Tensor, h: int) -> Tensor:
    """Rows `[M, k]` as lines of the table that `shared_scores` sums up: one line per concept and value, `[M, k]`."""
    return (rows + torch.arange(rows.shape[1]) * h).int()


def shared_scores(log_p: Tensor, lines: Tensor) -> Tensor:
    """Scores of the same rows for every example: log p `[B, k, h]`, lines of the rows `[M, k]` -> `[M, B]`."""
    table = log_p.flatten(1).T.contiguous()  # [k * h, B]
    return torch.nn.functional.embedding_bag(lines, table, mode="sum")


def top_rows(scores: Tensor, count: int, block: int = 64) -> Tensor:
    """Places of the highest scores of each example, best first: scores `[M, B]` -> `[B, count]`.

    The best `count` rows lie in the `count` blocks with the best maxima, so only those are sorted.
    """
    padding = -len(scores) % block
    padded = torch.nn.functional.pad(scores, (0, 0, 0, padding), value=-math.inf)  # [M', B]
    maxima = padded.unflatten(0, (-1, block)).amax(1)  # [M' / block, B]
    blocks = maxima.T.topk(min(count, len(maxima)), dim=1).indices  # [B, count]
    place = (blocks[:, :, None] * block + torch.arange(block, device=scores.device)).flatten(1)  # [B, count * block]
    best = padded.T.gather(1, place).topk(count, dim=1).indices
    return place.gather(1, best)
