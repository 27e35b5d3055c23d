"""A plain classifier of primitives: encoders and one linear head per group, without prototypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from softpnet.networks.blank import two_blank
from softpnet.networks.reader import Reader, at_least_single, module_key
from softpnet.task.concepts import ConceptSpace


class Classification(NamedTuple):
    """What the network sees in a batch and, where it is shown them, in anchors."""

    log_p: Tensor  # [B, k, h]
    anchors: list[Tensor]  # per group, log-probabilities of the primitives of each anchor image, [A, P, P]


class LinearHeads(nn.ModuleDict):
    """From embedding to primitives, one linear layer for every group."""

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module], like: Tensor) -> None:
        sizes = {name: embedding_size(encoder, like) for name, encoder in encoders.items()}
        super().__init__(
            {module_key(group.name): nn.Linear(sizes[group.encoder], len(group.primitives)) for group in space.groups}
        )
        self.space = space

    def primitives(self, embedded: Sequence[Tensor]) -> list[Tensor]:
        """Log-probabilities of each group's primitives: embeddings `[..., D]` per group -> `[..., P]`."""
        heads = [self[module_key(group.name)] for group in self.space.groups]
        return [torch.log_softmax(at_least_single(head(e)), dim=-1) for head, e in zip(heads, embedded, strict=True)]

    def log_p(self, slots: Sequence[Tensor]) -> Tensor:
        """log p `[B, k, h]` from the embedded slots `[B, n_g, D]` of each group."""
        return self.space.log_p(self.primitives(slots))


class ClassifierNetwork(Reader):
    """Encoders, by name, and linear heads."""

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module], like: Tensor) -> None:
        super().__init__(space, encoders)
        self.heads = LinearHeads(space, encoders, like)

    def forward(self, inputs: Tensor, anchors: Sequence[Tensor] = ()) -> Classification:
        """Images `[B, n, C, H, W]` (B may be 0) and anchors `[A, P, C, H, W]` per group, in one pass per encoder."""
        slots, embedded = self.embed_with_anchors(inputs, anchors)
        return Classification(self.heads.log_p(slots), self.heads.primitives(embedded) if embedded else [])

    def log_p(self, inputs: Tensor) -> Tensor:
        """log p `[B, k, h]` of inputs `[B, n, C, H, W]`."""
        return self.heads.log_p(self.embed(inputs))


@torch.no_grad()
def embedding_size(encoder: nn.Module, like: Tensor) -> int:
    """D of an encoder for inputs like that, `[*shape]`, asked with two blank ones in evaluation mode."""
    training = encoder.training
    size = encoder.eval()(two_blank(like).to(next((each.device for each in encoder.parameters()), like.device))).shape[
        1
    ]
    encoder.train(training)
    return int(size)
