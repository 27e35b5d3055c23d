"""Soft-PNet: prototypes score feasible candidates, and one KL loss pulls the network towards them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from softpnet import targets
from softpnet.methods import base, losses
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.networks.frozen import Features
from softpnet.networks.prototypes import LearnedPrototypeNetwork, PrototypeNetwork, Reading
from softpnet.networks.reader import Reader, at_least_single
from softpnet.targets.source import Info, State

INFERENCE_SEED = 0
"""The augmented anchors of inference are the same for every model."""


class Method(base.Method):
    """Galván-López et al., Soft Symbol Grounding for Prototypical Concepts (NeSy 2026), algorithm 1."""

    columns: ClassVar[tuple[str, ...]] = ("loss_proto", "loss_kl", "gamma", "rule_weight")

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        space, scaled = self.task.space, self.settings.scaled
        if self.settings.prototypes == "learned":
            return LearnedPrototypeNetwork(space, encoders, scaled, self.like)
        return PrototypeNetwork(space, encoders, scaled)

    def start(self, labels: Tensor, streams: Streams) -> State:
        self.source = targets.make(self.task, self.settings, streams("cache"))
        return self.source.start(labels)

    def warm_up(self, module: nn.Module, inputs: Tensor | Features, streams: Streams) -> Tensor:
        reading = module(inputs, self.augmented_anchors(streams("augment")))
        if reading.primitives:
            return self.shown_anchors_loss(self.without_blanks(reading.primitives))
        return self.anchor_loss(reading, streams)

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, Info]:
        gamma, weight = self.gamma(clock), self.rule_weight(clock)
        # Anchors are augmented afresh, and go through the encoder together with the batch.
        anchors = self.augmented_anchors(streams("augment"))
        inputs = self.training_inputs(batch, clock, streams)
        # log p comes from the distances to the prototypes: the anchors' means, or learned.
        reading = module(inputs, anchors)
        # The target: feasible candidates, weighted by what the network itself thinks of them; without gradient.
        with torch.no_grad():
            clean = module(batch.inputs, anchors).log_p if self.scores_clean(clock) else reading.log_p.detach()
            target, info = self.target(state, batch, clean, clock, gamma, streams("walk"))
        # L = L_proto + lambda * L_KL
        proto = self.anchor_loss(reading, streams)
        kl = losses.kl(target, reading.log_p)
        info |= {"loss_proto": proto.item(), "loss_kl": kl.item(), "gamma": gamma, "rule_weight": weight}
        return proto + weight * kl, info

    def anchor_loss(self, reading: Reading, streams: Streams) -> Tensor:
        """L_proto: what the augmented anchors teach, by episodes or, where prototypes are learned, by cross-entropy."""
        if reading.primitives:
            return self.shown_anchors_loss(reading.primitives)
        chosen = self.settings.episodes, streams("episodes"), self.settings.scaled
        return losses.mean_over_groups(losses.episodic(at_least_single(each), *chosen) for each in reading.anchors)

    def finish(self, module: Reader) -> None:
        """Fix the prototypes of inference."""
        assert isinstance(module, PrototypeNetwork)
        most = max(int(anchors.anchored()[1].max()) for anchors in self.anchors)
        module.settle(self.anchor_inputs(Generator().manual_seed(INFERENCE_SEED), most))
