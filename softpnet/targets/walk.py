"""One Metropolis step of every candidate (Alg. 3)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.rules.scoring import scores
from softpnet.task.task import Move


def metropolis(
    rows: Tensor, log_p: Tensor, move: Move, gamma: float, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """One Metropolis step of every candidate `[B, K, k]` on p(c|x)^(1/gamma).

    Returns the new rows, which candidates had another state proposed, and which of them moved there, `[B, K]` each.

    A proposal c' is accepted with probability min(1, (p(c'|x) / p(c|x))^(1/gamma)), compared in log space.
    """
    proposal = move(rows, generator)
    log_ratio = (scores(log_p, proposal) - scores(log_p, rows)) / gamma
    accepted = torch.rand(log_ratio.shape, generator=generator).log().to(log_ratio.device) <= log_ratio
    proposed = (proposal != rows).any(-1)
    return torch.where(accepted[..., None], proposal, rows), proposed, accepted & proposed


def repeated(keys: Tensor) -> Tensor:
    """Which entries of each row of keys `[B, K]` have come before in it: R_K is a set, so each state counts once."""
    ordered, place = keys.sort(dim=1, stable=True)  # [B, K] each
    again = torch.nn.functional.pad(ordered[:, 1:] == ordered[:, :-1], (1, 0))  # [B, K], in the sorted order
    return torch.zeros_like(again).scatter(1, place, again)
