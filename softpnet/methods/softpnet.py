"""Soft-PNet: prototypes score feasible candidates, and one KL loss pulls the network towards them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softpnet.methods import losses
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.methods.grounded import Grounded
from softpnet.methods.prototypical import Prototypical
from softpnet.targets.source import State


class Method(Prototypical, Grounded):
    """Galván-López et al., Soft Symbol Grounding for Prototypical Concepts (NeSy 2026), algorithm 1."""

    columns = ("loss_proto", "loss_kl", "gamma", "rule_weight", "acceptance", "distinct", "found")

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, State, dict[str, float]]:
        gamma, weight = self.gamma(clock), self.weight(clock)
        anchors = self.augmented_anchors(streams("augment"))
        inputs = self.training_inputs(batch, clock, streams)
        reading = module(inputs, anchors)
        with torch.no_grad():
            clean = reading.log_p.detach() if inputs is batch.inputs else module(batch.inputs, anchors).log_p
            target, state, info = self.target(state, batch, clean, clock, gamma, streams("walk"))

        proto = self.prototypical(reading.anchors, streams)
        kl = losses.kl(target, reading.log_p)
        info |= {"loss_proto": proto.item(), "loss_kl": kl.item(), "gamma": gamma, "rule_weight": weight}
        return proto + weight * kl, state, info
