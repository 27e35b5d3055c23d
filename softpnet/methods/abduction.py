"""Abduction: the K best feasible candidates, weighted by their probability, teach a plain classifier; no anchors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from softpnet import targets
from softpnet.methods import base, losses
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.networks.classifier import ClassifierNetwork
from softpnet.networks.reader import Reader
from softpnet.targets.source import Info, State


class Method(base.Method):
    """After He et al., Ambiguity-Aware Abductive Learning (ICML 2024), which ABLkit ships as A3BL.

    The candidates are the most probable of S(y) at every encounter, not walked. Their weights are their joint
    probabilities, normalised (gamma = 1). The KL is the only loss, so that its weight in the settings is not used.
    """

    columns: ClassVar[tuple[str, ...]] = ("loss_kl", "gamma")
    fixed: ClassVar[dict[str, Any]] = {"targets": "kbest", "target": "soft", "gamma": 1.0, "gamma_decay": 1.0}

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        return ClassifierNetwork(self.task.space, encoders, self.like)

    def start(self, labels: Tensor, streams: Streams) -> State:
        self.source = targets.make(self.task, self.settings, streams("cache"))
        return self.source.start(labels)

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, Info]:
        gamma = self.gamma(clock)
        log_p = module(self.training_inputs(batch, clock, streams)).log_p
        with torch.no_grad():
            clean = module(batch.inputs).log_p if self.scores_clean(clock) else log_p.detach()
            target, info = self.target(state, batch, clean, clock, gamma, streams("walk"))
        kl = losses.kl(target, log_p)
        return kl, info | {"loss_kl": kl.item(), "gamma": gamma}
