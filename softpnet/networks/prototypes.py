"""Anchors -> prototypes -> log p of every concept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from softpnet.networks.classifier import embedding_size
from softpnet.networks.reader import Reader, at_least_single, module_key
from softpnet.task.concepts import ConceptSpace

FIRST = 0.1
"""How far apart learned prototypes are at first."""


def squared_distances(points: Tensor, centres: Tensor, scaled: bool = False) -> Tensor:
    """||x - z||^2, or that over sqrt(D): points `[..., D]`, centres `[P, D]` -> `[..., P]`."""
    inner = points @ centres.T
    squared = points.square().sum(-1, keepdim=True) - 2 * inner + centres.square().sum(-1)
    return squared / points.shape[-1] ** 0.5 if scaled else squared


class Reading(NamedTuple):
    """What the network sees in a batch and its anchors."""

    log_p: Tensor  # [B, k, h]
    anchors: list[Tensor]  # per group [A, P, D], embedded in the same forward
    primitives: list[Tensor]  # per group, log-probabilities of the primitives of each anchor image, [A, P, P]


class PrototypeNetwork(Reader):
    """Encoders, by name, and the prototypes of every group.

    In training, prototypes are the mean embeddings of the augmented anchors handed in, with gradient. For inference
    `settle` computes them once and keeps them with the model.
    """

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module], scaled: bool = False) -> None:
        super().__init__(space, encoders)
        self.prototypes = nn.ParameterDict()
        self.scaled = scaled  # distances are over sqrt(D)

    def forward(self, inputs: Tensor, anchors: Sequence[Tensor]) -> Reading:
        """Images `[B, n, C, H, W]` (B may be 0) and anchors `[A, P, C, H, W]` per group, in one pass per encoder."""
        slots, embedded = self.embed_with_anchors(inputs, anchors)
        centres = [anchor.mean(0) for anchor in embedded]  # [P, D]
        return Reading(self.space.log_p(self._primitives(slots, centres)), embedded, [])

    @torch.no_grad()
    def settle(self, anchors: Sequence[Tensor]) -> None:
        """Fix the prototypes of inference from anchors `[A, P, C, H, W]` per group, in evaluation mode."""
        empty = anchors[0].new_zeros(0, self.space.slots, *anchors[0].shape[2:])
        _, embedded = self.embed_with_anchors(empty, anchors)
        for group, anchor in zip(self.space.groups, embedded, strict=True):
            self.prototypes[module_key(group.name)] = nn.Parameter(anchor.mean(0), requires_grad=False)

    def log_p(self, inputs: Tensor) -> Tensor:
        """log p `[B, k, h]` of inputs `[B, n, C, H, W]` with the settled prototypes."""
        return self.space.log_p(self._primitives(self.embed(inputs), self.settled()))

    def settled(self) -> list[Tensor]:
        """The prototypes of inference, per group `[P, D]`."""
        return [self.prototypes[module_key(group.name)] for group in self.space.groups]

    def _primitives(self, embedded: Sequence[Tensor], centres: Sequence[Tensor]) -> list[Tensor]:
        """Log-probabilities of each group's primitives: embeddings `[..., D]` and prototypes `[P, D]` -> `[..., P]`."""
        # Differences of squares need full precision, also where the encoder runs in a mixed one.
        with torch.autocast(embedded[0].device.type, enabled=False):
            return [
                torch.log_softmax(-squared_distances(at_least_single(e), at_least_single(z), self.scaled), dim=-1)
                for e, z in zip(embedded, centres, strict=True)
            ]


class LearnedPrototypeNetwork(PrototypeNetwork):
    """Prototypes that are weights of the network: the anchors teach them, and so do the feasible assignments.

    They begin near zero, all alike: the warm-up on the anchors tells them apart.
    """

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module], scaled: bool, like: Tensor) -> None:
        super().__init__(space, encoders, scaled)
        for group in space.groups:
            size = embedding_size(encoders[group.encoder], like)
            self.prototypes[module_key(group.name)] = nn.Parameter(FIRST * torch.randn(len(group.primitives), size))

    def forward(self, inputs: Tensor, anchors: Sequence[Tensor]) -> Reading:
        """Images `[B, n, C, H, W]` (B may be 0) and anchors `[A, P, C, H, W]` per group, in one pass per encoder."""
        slots, embedded = self.embed_with_anchors(inputs, anchors)
        centres = self.settled()
        log_p = self.space.log_p(self._primitives(slots, centres))
        return Reading(log_p, embedded, self._primitives(embedded, centres))

    def settle(self, anchors: Sequence[Tensor]) -> None:
        """They are what training made them."""
