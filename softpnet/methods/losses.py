"""The losses: KL towards the candidates' target, and two of the augmented anchors: episodic and cross-entropy."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Generator, Tensor

from softpnet.networks.prototypes import squared_distances


def kl(target: Tensor, log_p: Tensor) -> Tensor:
    """Mean over the batch of sum_i KL(target^i || p^i); target and log p `[B, k, h]` (eq. 3)."""
    # A value of weight zero adds nothing, also where log p is -inf; NaN must show in the loss.
    nothing = (target == 0) & log_p.isneginf()
    terms = target * (target.clamp_min(torch.finfo(target.dtype).tiny).log() - log_p.masked_fill(nothing, 0.0))
    return terms.sum((1, 2)).mean()


def episodic(embeddings: Tensor, episodes: int, generator: Generator, scaled: bool = False) -> Tensor:
    """Prototypical loss of the augmented anchors `[A, P, D]`, all episodes at once.

    In each episode one copy of every primitive is its support and all other copies are queries; the result is the
    mean negative log-likelihood of the queries. Episodes only index one distance matrix.
    """
    copies, primitives, _ = embeddings.shape
    flat = embeddings.flatten(0, 1)  # [A*P, D], copy after copy
    distances = squared_distances(flat, flat, scaled)  # [A*P, A*P]
    chosen = torch.randint(copies, (episodes, primitives), generator=generator)  # [E, P]
    own = torch.arange(primitives)
    support = (chosen * primitives + own).to(flat.device)  # [E, P], columns of the distance matrix
    log_p = torch.log_softmax(-distances[:, support], dim=-1)  # [A*P, E, P]
    truth = own.repeat(copies).to(flat.device)  # [A*P]
    nll = -log_p.gather(2, truth[:, None, None].expand(-1, episodes, 1)).squeeze(2)  # [A*P, E]
    is_query = torch.ones_like(nll).scatter(0, support.T, 0.0)  # supports answer no query
    return (nll * is_query).sum() / is_query.sum()


def anchor_cross_entropy(log_q: Tensor, anchored: Tensor) -> Tensor:
    """Cross-entropy on augmented anchors of the primitives `[V]`, by log-probabilities of all of them `[A, V, P]`."""
    own = log_q[:, :, anchored.to(log_q.device)]  # [A, V, V]
    return -own.diagonal(dim1=1, dim2=2).mean()


def mean_over_groups(parts: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(parts)).mean()
