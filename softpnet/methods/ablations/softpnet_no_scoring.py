"""Ablation A of Soft-PNet, second reading: prototypes are trained and read, but do not score the candidates."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.methods import softpnet
from softpnet.methods.base import Batch, Clock
from softpnet.targets.source import Info, State


class Method(softpnet.Method):
    """Soft-PNet paper, appendix "Ablation study", Abl-A, by its words "a uniform distribution over the feasible set".

    Draw, walk and weights see every candidate as equally probable, so that the label teaches no example's own concepts;
    the anchors act through the prototypical loss alone.
    """

    def target(
        self, state: State, batch: Batch, log_p: Tensor, clock: Clock, gamma: float, generator: Generator
    ) -> tuple[Tensor, Info]:
        return super().target(state, batch, torch.zeros_like(log_p), clock, gamma, generator)
