"""Anchors -> prototypes -> log p of every concept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from softpnet.networks.reader import Reader, at_least_single, module_key
from softpnet.task.concepts import ConceptSpace


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """||x - z||^2: points `[..., D]`, centres `[P, D]` -> `[..., P]`."""
    inner = points @ centres.T
    return points.square().sum(-1, keepdim=True) - 2 * inner + centres.square().sum(-1)


class Reading(NamedTuple):
    """What the network sees in a batch and its anchors."""

    log_p: Tensor  # [B, k, h]
    anchors: list[Tensor]  # per group [A, P, D], embedded in the same forward


class PrototypeNetwork(Reader):
    """Encoders, by name, and the prototypes of every group.

    In training, prototypes are the mean embeddings of the augmented anchors handed in, with gradient. For inference
    `settle` computes them once and keeps them with the model.
    """

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module]) -> None:
        super().__init__(space, encoders)
        self.prototypes = nn.ParameterDict()

    def forward(self, inputs: Tensor, anchors: Sequence[Tensor]) -> Reading:
        """Images `[B, n, C, H, W]` (B may be 0) and anchors `[A, P, C, H, W]` per group, in one pass per encoder."""
        slots, embedded = self.embed_with_anchors(inputs, anchors)
        centres = [anchor.mean(0) for anchor in embedded]  # [P, D]
        return Reading(self._log_p(slots, centres), embedded)

    @torch.no_grad()
    def settle(self, anchors: Sequence[Tensor]) -> None:
        """Fix the prototypes of inference from anchors `[A, P, C, H, W]` per group, in evaluation mode."""
        empty = anchors[0].new_zeros(0, self.space.slots, *anchors[0].shape[2:])
        _, embedded = self.embed_with_anchors(empty, anchors)
        for group, anchor in zip(self.space.groups, embedded, strict=True):
            self.prototypes[module_key(group.name)] = nn.Parameter(anchor.mean(0), requires_grad=False)

    def log_p(self, inputs: Tensor) -> Tensor:
        """log p `[B, k, h]` of inputs `[B, n, C, H, W]` with the settled prototypes."""
        return self._log_p(self.embed(inputs), self.settled())

    def settled(self) -> list[Tensor]:
        """The prototypes of inference, per group `[P, D]`."""
        return [self.prototypes[module_key(group.name)] for group in self.space.groups]

    def _log_p(self, slots: Sequence[Tensor], centres: Sequence[Tensor]) -> Tensor:
        # Differences of squares need full precision, also where the encoder runs in a mixed one.
        with torch.autocast(slots[0].device.type, enabled=False):
            joints = [  # [B, n_g, P] each
                torch.log_softmax(-squared_distances(at_least_single(slot), at_least_single(centre)), dim=-1)
                for slot, centre in zip(slots, centres, strict=True)
            ]
            return self.space.log_p(joints)
