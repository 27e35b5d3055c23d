"""Abduction, after the classifier has been trained on the augmented anchors."""

from __future__ import annotations

from torch import Tensor, nn

from softpnet.methods import abduction
from softpnet.methods.base import Streams
from softpnet.networks.frozen import Features


class Method(abduction.Method):
    """Abduction with what Soft-PNet starts from: as many warm-up steps, on as many copies, with a cross-entropy."""

    def warm_up(self, module: nn.Module, inputs: Tensor | Features, streams: Streams) -> Tensor:
        shown = module(inputs, self.augmented_anchors(streams("augment"))).anchors
        return self.shown_anchors_loss(self.without_blanks(shown))
