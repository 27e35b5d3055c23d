"""Part of the methods that read by prototypes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn

from softpnet.methods import base, losses, schedules
from softpnet.methods.base import Clock, Streams
from softpnet.networks.prototypes import PrototypeNetwork
from softpnet.networks.reader import Reader

INFERENCE_SEED = 0
"""The augmented anchors of inference are the same for every model."""


class Prototypical(base.Method):
    """Prototypes of augmented anchors, their episodic loss, and a warm-up on it."""

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        return PrototypeNetwork(self.task.space, encoders)

    def warm_up(self, module: nn.Module, inputs: Tensor, streams: Streams) -> Tensor:
        anchors = self.augmented_anchors(streams("augment"))
        return self.prototypical(module(inputs, anchors).anchors, streams)

    def prototypical(self, embedded: list[Tensor], streams: Streams) -> Tensor:
        """Mean over groups of the episodic loss of the embedded anchors `[A, P, D]`."""
        each = [losses.episodic(e.float(), self.settings.episodes, streams("episodes")) for e in embedded]
        return torch.stack(each).mean()

    def weight(self, clock: Clock) -> float:
        """lambda, the weight of the label's loss beside the prototypical one."""
        settings = self.settings
        return schedules.ramp(settings.rule_weight, settings.rule_delay, settings.rule_ramp)(clock.epoch)

    def finish(self, module: Reader) -> None:
        assert isinstance(module, PrototypeNetwork)
        generator = Generator().manual_seed(INFERENCE_SEED)
        module.settle(self.augmented_anchors(generator))
