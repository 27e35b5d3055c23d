"""Soft-PNet whose anchors weigh five times as much, in the warm-up and beside the KL."""

from __future__ import annotations

from torch import Tensor

from softpnet.methods import softpnet
from softpnet.methods.base import Streams
from softpnet.networks.prototypes import Reading

WEIGHT = 5.0


class Method(softpnet.Method):
    """As the recipe, but for the weight."""

    def anchor_loss(self, reading: Reading, streams: Streams) -> Tensor:
        return WEIGHT * super().anchor_loss(reading, streams)
