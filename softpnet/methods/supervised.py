"""Supervised: the same encoder trained on the true concepts, the ceiling that others are held against."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import one_hot

from softpnet.methods import losses
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.methods.classified import Classified


class Method(Classified):
    """The ceiling (not in the paper): a linear head on the encoder, cross-entropy of every concept.

    It uses neither rule nor anchors.
    """

    columns = ("loss_concepts",)
    needs_concepts = True

    def loss(
        self, module: nn.Module, state: dict[str, Tensor], batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, float]]:
        assert batch.concepts is not None
        log_p = module(self.training_inputs(batch, clock, streams)).log_p
        loss = losses.kl(one_hot(batch.concepts, self.task.space.h).to(log_p), log_p)
        return loss, state, {"loss_concepts": loss.item()}
