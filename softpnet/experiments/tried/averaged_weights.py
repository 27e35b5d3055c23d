"""Soft-PNet that is judged by a running mean of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softpnet.methods import softpnet
from softpnet.networks.reader import Reader
from softpnet.targets.source import Info

PACE = 0.01
"""Of a mean over about a hundred steps."""


class Method(softpnet.Method):
    """As the recipe; the means are buffers of the network, so a checkpoint holds them."""

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        self.trained = super().module(encoders)
        for name, weight in list(self.trained.named_parameters()):
            self.trained.register_buffer(_mean(name), weight.detach().clone())
        return self.trained

    @torch.no_grad()
    def _follow(self) -> None:
        for name, weight in self.trained.named_parameters():
            self.trained.get_buffer(_mean(name)).lerp_(weight, PACE)

    def warm_up(self, *given: Any) -> Tensor:
        self._follow()
        return super().warm_up(*given)

    def loss(self, *given: Any) -> tuple[Tensor, Info]:
        self._follow()
        return super().loss(*given)

    @torch.no_grad()
    def ready(self, module: Reader) -> Reader:
        for name, weight in module.named_parameters():
            weight.copy_(module.get_buffer(_mean(name)))
        return super().ready(module)


def _mean(name: str) -> str:
    """The buffer of a weight's mean."""
    return f"mean_{name.replace('.', '_')}"
