"""A plain classifier of primitives: encoders and one linear head per group, without prototypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from softpnet.concepts import ConceptSpace
from softpnet.reader import Reader, module_key


class Classification(NamedTuple):
    """What the network sees in a batch and, where it is shown them, in anchors."""

    log_p: Tensor  # [B, k, h]
    anchors: list[Tensor]  # per group, log-probabilities of the primitives of each anchor image, [A, P, P]


class ClassifierNetwork(Reader):
    """Encoders, by name, and a linear head from embedding to primitives for every group."""

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module], image_shape: torch.Size) -> None:
        super().__init__(space, encoders)
        sizes = {name: embedding_size(encoder, image_shape) for name, encoder in encoders.items()}
        self.heads = nn.ModuleDict(
            {module_key(group.name): nn.Linear(sizes[group.encoder], len(group.primitives)) for group in space.groups}
        )

    def forward(self, images: Tensor, anchors: Sequence[Tensor] = ()) -> Classification:
        """Images `[B, n, C, H, W]` (B may be 0) and anchors `[A, P, C, H, W]` per group, in one pass per encoder."""
        slots, embedded = self.embed_with_anchors(images, anchors)
        shown = [self._primitives(g, anchor) for g, anchor in enumerate(embedded)]
        return Classification(self._log_p(slots), shown)

    def log_p(self, images: Tensor) -> Tensor:
        """log p `[B, k, h]` of images `[B, n, C, H, W]`."""
        return self._log_p(self.embed(images))

    def _log_p(self, slots: Sequence[Tensor]) -> Tensor:
        return self.space.log_p([self._primitives(g, slot) for g, slot in enumerate(slots)])

    def _primitives(self, g: int, embeddings: Tensor) -> Tensor:
        """Log-probabilities of group g's primitives: embeddings `[..., D]` -> `[..., P]`."""
        head = self.heads[module_key(self.space.groups[g].name)]
        return torch.log_softmax(head(embeddings).float(), dim=-1)


@torch.no_grad()
def embedding_size(encoder: nn.Module, image_shape: torch.Size) -> int:
    """D of an encoder for images `[C, H, W]`, asked with two blank ones in evaluation mode."""
    training = encoder.training
    size = encoder.eval()(torch.zeros(2, *image_shape)).shape[1]
    encoder.train(training)
    return int(size)
