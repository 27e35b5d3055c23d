"""Anchors -> prototypes -> log p of every concept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from softpnet.concepts import ConceptSpace
from softpnet.reader import Reader


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """||x - z||^2: points `[..., D]`, centres `[P, D]` -> `[..., P]`."""
    inner = points @ centres.T
    return points.square().sum(-1, keepdim=True) - 2 * inner + centres.square().sum(-1)


class Reading(NamedTuple):
    """What the network sees in a batch and its anchors."""

    log_p: Tensor  # [B, k, h]
    anchors: list[Tensor]  # per group [A, P, D], embedded in the same forward


def _key(name: str) -> str:
    """torch's containers take no key that is an attribute of theirs, such as "type"; none begins like this."""
    return f"of_{name}"


class PrototypeNetwork(Reader):
    """Encoders, by name, and the prototypes of every group.

    In training, prototypes are the mean embeddings of the augmented anchors handed in, with gradient. For inference
    `settle` computes them once and keeps them with the model.
    """

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.space = space
        self.encoders = nn.ModuleDict({_key(name): encoder for name, encoder in encoders.items()})
        self.prototypes = nn.ParameterDict()

    def forward(self, images: Tensor, anchors: Sequence[Tensor]) -> Reading:
        """Images `[B, n, C, H, W]` (B may be 0) and anchors `[A, P, C, H, W]` per group, in one pass per encoder."""
        slots, embedded = self._embed(images, anchors)
        centres = [anchor.mean(0) for anchor in embedded]  # [P, D]
        return Reading(self._log_p(slots, centres), embedded)

    @torch.no_grad()
    def settle(self, anchors: Sequence[Tensor]) -> None:
        """Fix the prototypes of inference from anchors `[A, P, C, H, W]` per group, in evaluation mode."""
        empty = anchors[0].new_zeros(0, self.space.slots, *anchors[0].shape[2:])
        _, embedded = self._embed(empty, anchors)
        for group, anchor in zip(self.space.groups, embedded, strict=True):
            self.prototypes[_key(group.name)] = nn.Parameter(anchor.mean(0), requires_grad=False)

    def log_p(self, images: Tensor) -> Tensor:
        """log p `[B, k, h]` of images `[B, n, C, H, W]` with the settled prototypes."""
        return self._log_p(self.embed(images), self.settled())

    def settled(self) -> list[Tensor]:
        """The prototypes of inference, per group `[P, D]`."""
        return [self.prototypes[_key(group.name)] for group in self.space.groups]

    def embed(self, images: Tensor) -> list[Tensor]:
        """Embeddings of the slots of each group, `[B, n_g, D]`."""
        return self._embed(images, [])[0]

    def _log_p(self, slots: Sequence[Tensor], centres: Sequence[Tensor]) -> Tensor:
        # Differences of squares need full precision, also where the encoder runs in a mixed one.
        with torch.autocast(slots[0].device.type, enabled=False):
            joints = [
                torch.log_softmax(-squared_distances(slot.float(), centre.float()), dim=-1)  # [B, n_g, P]
                for slot, centre in zip(slots, centres, strict=True)
            ]
            return self.space.log_p(joints)

    def _embed(self, images: Tensor, anchors: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Slots `[B, n_g, D]` and anchors `[A, P, D]` of every group; a shared encoder runs once over all it reads."""
        slots: dict[int, Tensor] = {}
        embedded: dict[int, Tensor] = {}
        for name, encoder in self.encoders.items():
            groups = {g: group for g, group in enumerate(self.space.groups) if _key(group.encoder) == name}
            read = sorted({slot for group in groups.values() for slot in group.slots})
            seen = images if read == list(range(images.shape[1])) else images[:, read]  # [B, n_read, C, H, W]
            extra = {g: anchors[g] for g in groups} if anchors else {}
            parts = [seen.flatten(0, 1), *(anchor.flatten(0, 1) for anchor in extra.values())]
            vectors = encoder(torch.cat(parts) if extra else parts[0])  # [B * n_read + sum of A * P, D]
            first, *others = vectors.split([len(part) for part in parts])
            by_slot = first.unflatten(0, seen.shape[:2])  # [B, n_read, D]
            for g, group in groups.items():
                columns = [read.index(slot) for slot in group.slots]
                slots[g] = by_slot if columns == list(range(len(read))) else by_slot[:, columns]
            for (g, anchor), piece in zip(extra.items(), others, strict=True):
                embedded[g] = piece.unflatten(0, anchor.shape[:2])
        return [slots[g] for g in sorted(slots)], [embedded[g] for g in sorted(embedded)]
