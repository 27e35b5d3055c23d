"""Labels that may be wrong: the marginals of p(c|x) given a label that is trusted only so far."""

from __future__ import annotations

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.rules import sweeps
from softpnet.rules.diagram import CompiledRule, Diagram


@torch.no_grad()
def noisy_marginals(rule: CompiledRule, log_p: Tensor, labels: Tensor, noise: float, gamma: float = 1.0) -> Tensor:
    """Marginals `[B, k, h]` of p(c | x, observed label), where a share `noise` of labels is wrong; log p `[B, k, h]`.

    A wrong label is any of the other L - 1, each as likely: P(observed | x) = (1 - noise) P + noise (1 - P) / (L - 1),
    with P = P(y|x). Scores need not be normalised: p is their softmax at temperature gamma.
    """
    labels = labels.to(log_p.device)
    normal = (log_p / gamma).log_softmax(-1)
    total, inside = sweeps.posterior(rule.layers(labels), normal)  # log P [B], marginals over S(y) [B, k, h]
    right = total.exp().clamp_max(1)  # rounding may lead beyond
    wrong = noise / max(1, label_count(rule) - 1)
    observed = (1 - noise) * right + wrong * (1 - right)
    # The rest of the space has the marginals (p - P inside) / (1 - P), and its weight cancels the division.
    rest = (normal.to(total.dtype).exp() - right[:, None, None] * inside).clamp_min(0)
    mixed = ((1 - noise) * right)[:, None, None] * inside + wrong * rest
    return (mixed / observed[:, None, None]).to(log_p.dtype)


def label_count(rule: CompiledRule) -> int:
    """How many labels there are, L."""
    if not isinstance(rule, Diagram):
        raise InputError(
            "label_noise needs to know how many labels there are, but a Machine that sees the label lists none; write "
            "it with label=..., or set label_noise to 0"
        )
    return len(rule.labels)
