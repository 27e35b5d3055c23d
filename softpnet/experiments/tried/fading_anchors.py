"""Soft-PNet whose anchors fall silent as the rule's evidence grows: they weigh what the targets leave open."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softpnet.methods import softpnet
from softpnet.methods.base import Streams
from softpnet.networks.prototypes import Reading
from softpnet.targets.source import Info


class Method(softpnet.Method):
    """The anchors' weight is 1 in the warm-up, then the targets' mean entropy over that of a first guess."""

    weight = 1.0
    """Computed anew in every step before it is used, so no checkpoint needs it."""

    def target(self, *given: Any) -> tuple[Tensor, Info]:
        target, info = super().target(*given)  # [B, k, h]
        nats = -torch.special.xlogy(target, target).sum(-1).mean()
        self.weight = float(nats) / math.log(target.shape[-1])
        return target, info

    def anchor_loss(self, reading: Reading, streams: Streams) -> Tensor:
        return self.weight * super().anchor_loss(reading, streams)
