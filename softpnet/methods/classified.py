"""Part of the methods that read by a plain classifier, without prototypes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from softpnet.methods import base, losses
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.methods.grounded import Grounded
from softpnet.networks.classifier import ClassifierNetwork
from softpnet.networks.reader import Reader
from softpnet.targets.source import State


class Classified(base.Method):
    """A linear head on the encoder. There is one loss only, so that its weight in the settings is not used."""

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        return ClassifierNetwork(self.task.space, encoders, self.anchors[0].shape[1:])


class GroundedClassifier(Classified, Grounded):
    """A classifier that its own candidates teach: KL towards their target, and nothing else."""

    columns = ("loss_kl", "gamma", "acceptance", "distinct", "found")

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, State, dict[str, float]]:
        gamma = self.gamma(clock)
        inputs = self.training_inputs(batch, clock, streams)
        log_p = module(inputs).log_p
        with torch.no_grad():
            clean = log_p.detach() if inputs is batch.inputs else module(batch.inputs).log_p
            target, state, info = self.target(state, batch, clean, clock, gamma, streams("walk"))
        kl = losses.kl(target, log_p)
        return kl, state, info | {"loss_kl": kl.item(), "gamma": gamma}
