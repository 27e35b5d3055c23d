"""Reader: the network that reads concepts from inputs, and what inference asks of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from softpnet.networks.finite import not_finite
from softpnet.task.concepts import ConceptSpace
from softpnet.task.data import Inputs
from softpnet.task.lazy import numbers

AT_ONCE = 512
"""Inference reads about so many inputs per pass."""


def module_key(name: str) -> str:
    """torch's containers take no key that is an attribute of theirs, such as "type"; none begins like this."""
    return f"of_{name}"


def at_least_single(x: Tensor) -> Tensor:
    """x in single precision where it is in half of it; double precision stays double."""
    return x if x.dtype == torch.float64 else x.float()


class Prediction(NamedTuple):
    """What was read in every example."""

    concepts: Tensor  # [N, k]; -1 where it abstains
    labels: Tensor  # [N] or [N, m], the rule applied to the concepts; -1 where it abstains from one of them
    probabilities: Tensor  # [N, k, h], at the model's temperature


class Reader(nn.Module):
    """Encoders, by name; how their embeddings become log p is a subclass's matter."""

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.space = space
        self.encoders = nn.ModuleDict({module_key(name): encoder for name, encoder in encoders.items()})
        # A mask of attention is made of infinities; what else holds one later has diverged.
        self.constants = frozenset(not_finite(dict(self.named_buffers())))

    @abstractmethod
    def log_p(self, inputs: Tensor) -> Tensor:
        """log p `[B, k, h]` of inputs `[B, n, *shape]`."""

    def embed(self, inputs: Tensor) -> list[Tensor]:
        """Embeddings of the slots of each group, `[B, n_g, D]`."""
        return self.embed_with_anchors(inputs, [])[0]

    def settled(self) -> list[Tensor]:
        """The prototypes of inference, per group `[P, D]`; none for a network that has no prototypes."""
        return []

    def embed_with_anchors(self, inputs: Tensor, anchors: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Slots `[B, n_g, D]` and anchors `[A, P, D]` of every group; a shared encoder runs once over all it reads."""
        slots: dict[int, Tensor] = {}
        embedded: dict[int, Tensor] = {}
        for name, encoder in self.encoders.items():
            groups = {g: group for g, group in enumerate(self.space.groups) if module_key(group.encoder) == name}
            read = sorted({slot for group in groups.values() for slot in group.slots})
            seen = inputs if read == list(range(inputs.shape[1])) else inputs[:, read]  # [B, n_read, C, H, W]
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


def in_parts(space: ConceptSpace, inputs: Inputs) -> Iterator[Tensor]:
    """Inputs `[N, n, *shape]` as numbers, as many at a time as inference reads in one pass."""
    return (numbers(part) for part in inputs.split(max(1, AT_ONCE // space.slots)))


@torch.no_grad()
def read(module: Reader, inputs: Inputs) -> Tensor:
    """log p `[N, k, h]` of inputs `[N, n, *shape]`, part by part."""
    return torch.cat([module.log_p(part) for part in in_parts(module.space, inputs)])
