"""Soft-PNet whose anchors fall silent as the rule's evidence grows: they weigh what the rule leaves open.

What the rule says of a concept is its target without what the network reads there itself. It is sharp once label and
other concepts settle the concept, and stays even among values that the rule cannot tell apart.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softpnet.methods import softpnet
from softpnet.methods.base import Batch, Streams
from softpnet.networks.prototypes import Reading
from softpnet.targets.source import Info, State


class Method(softpnet.Method):
    """The anchors' weight is 1 in the warm-up, then the mean entropy of what the rule says, over that of a guess."""

    weight = 1.0
    """Computed anew in every step before it is used, so no checkpoint needs it."""

    def target(self, state: State, batch: Batch, log_p: Tensor, *given: Any) -> tuple[Tensor, Info]:
        target, info = super().target(state, batch, log_p, *given)  # [B, k, h]
        said = (target.clamp_min(1e-30).log() - log_p.clamp_min(math.log(1e-30))).softmax(-1)
        nats = -torch.special.xlogy(said, said).sum(-1).mean()
        self.weight = float(nats) / math.log(target.shape[-1])
        return target, info

    def anchor_loss(self, reading: Reading, streams: Streams) -> Tensor:
        return self.weight * super().anchor_loss(reading, streams)
