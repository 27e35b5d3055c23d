"""Soft-PNet that learns how much its distances count, in place of dividing them by sqrt(D) alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from softpnet.methods import softpnet
from softpnet.networks.prototypes import LearnedPrototypeNetwork
from softpnet.networks.reader import Reader


class ScaledNetwork(LearnedPrototypeNetwork):
    """Squared distances are multiplied by a weight of the network, which begins at 1."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.log_scale = nn.Parameter(torch.zeros(()))

    def _primitives(self, embedded: Sequence[Tensor], centres: Sequence[Tensor]) -> list[Tensor]:
        root = (self.log_scale / 2).exp()
        return super()._primitives([root * each for each in embedded], [root * each for each in centres])


class Method(softpnet.Method):
    """As the recipe, with that network."""

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        return ScaledNetwork(self.task.space, encoders, self.settings.scaled, self.like)
