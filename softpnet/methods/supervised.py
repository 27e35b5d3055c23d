"""Supervised: the same encoder trained on the true concepts, the ceiling that others are held against."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn.functional import one_hot

from softpnet.methods import base, losses
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.networks.classifier import ClassifierNetwork
from softpnet.networks.reader import Reader
from softpnet.targets.source import Info, State


class Method(base.Method):
    """The ceiling (not in the paper): a linear head on the encoder, cross-entropy of every concept.

    It uses neither rule nor anchors.
    """

    columns = ("loss_concepts",)
    needs_concepts = True

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        return ClassifierNetwork(self.task.space, encoders, self.like)

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, Info]:
        assert batch.concepts is not None
        log_p = module(self.training_inputs(batch, clock, streams)).log_p
        loss = losses.kl(one_hot(batch.concepts, self.task.space.h).to(log_p), log_p)
        return loss, {"loss_concepts": loss.item()}
