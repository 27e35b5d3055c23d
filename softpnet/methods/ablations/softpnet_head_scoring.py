"""Ablation A of Soft-PNet, third reading: prototypes read, but a linear head beside them scores the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from softpnet.methods import softpnet
from softpnet.networks.classifier import LinearHeads
from softpnet.networks.prototypes import PrototypeNetwork, Reading
from softpnet.networks.reader import Reader
from softpnet.task.concepts import ConceptSpace


class HeadedPrototypeNetwork(PrototypeNetwork):
    """Linear heads beside the prototypes: training sees the heads' log p, inference that of the prototypes."""

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module], like: Tensor) -> None:
        super().__init__(space, encoders)
        self.heads = LinearHeads(space, encoders, like)

    def forward(self, inputs: Tensor, anchors: Sequence[Tensor]) -> Reading:
        slots, embedded = self.embed_with_anchors(inputs, anchors)
        return Reading(self.heads.log_p(slots), embedded, [])


class Method(softpnet.Method):
    """Soft-PNet paper, appendix "Ablation study", Abl-A, by its words "the prototypical encoder but without
    anchor-guided scoring".

    The heads' output drives draw, walk and target, and is pulled towards it; they share the encoder with the
    prototypes, which the episodic loss trains and which read.
    """

    fixed: ClassVar[dict[str, Any]] = {"prototypes": "mean", "scaled": False}
    idle_parts = True  # the heads, in the warm-up

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        return HeadedPrototypeNetwork(self.task.space, encoders, self.like)
