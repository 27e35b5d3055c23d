"""Targets that the search tries: each concept has its own attention over the feasible assignments.

A concept's own evidence counts in full, that of the other concepts at temperature 2. Run it by
`--targets softpnet/experiments/tried/concept_attention.py`.
"""

from __future__ import annotations

from torch import Tensor

from softpnet.targets import exact
from softpnet.targets.source import Query


class Source(exact.Source):
    """Exact targets at temperature 2, in which a concept's own evidence is brought back to temperature 1."""

    def marginals(self, query: Query) -> Tensor:
        softened = super().marginals(query._replace(gamma=2.0))  # [B, k, h]
        weight = softened * (query.log_p - query.log_p.amax(-1, keepdim=True)).div(2).exp()
        return weight / weight.sum(-1, keepdim=True)
