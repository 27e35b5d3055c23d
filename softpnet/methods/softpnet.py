"""Soft-PNet: prototypes score feasible candidates, and one KL loss pulls the network towards them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn

from softpnet import losses, schedules, targets
from softpnet.augment import augment
from softpnet.candidates.choose import choose_source
from softpnet.candidates.source import CandidateSource, Query, State
from softpnet.methods import base
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.prototypes import PrototypeNetwork
from softpnet.reader import Reader

INFERENCE_SEED = 0
"""The augmented anchors of inference are the same for every model."""


class Method(base.Method):
    """Galván-López et al., Soft Symbol Grounding for Prototypical Concepts (NeSy 2026), algorithm 1."""

    columns = ("loss_proto", "loss_kl", "gamma", "weight", "acceptance", "distinct", "found")
    source: CandidateSource

    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        return PrototypeNetwork(self.task.space, encoders)

    def start(self, labels: Tensor, streams: Streams) -> State:
        self.source = choose_source(self.task, self.settings, streams("cache"))
        return self.source.start(labels)

    def warm_up(self, module: nn.Module, images: Tensor, streams: Streams) -> Tensor:
        anchors = self.augmented_anchors(streams("augment"))
        return self.prototypical(module(images, anchors).anchors, streams)

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, State, dict[str, float]]:
        settings = self.settings
        gamma = schedules.exponential(settings.gamma, settings.gamma_decay, settings.gamma_floor)(clock.epoch)
        weight = schedules.ramp(settings.weight, settings.weight_delay, settings.weight_ramp)(clock.epoch)
        anchors = self.augmented_anchors(streams("augment"))

        images = batch.images
        views = settings.views and clock.epoch >= settings.views_delay
        if views:
            images = augment(batch.images, self.task.background, streams("views"))
        reading = module(images, anchors)
        with torch.no_grad():
            clean = module(batch.images, anchors).log_p if views else reading.log_p.detach()
            target, state, info = self.target(state, batch, clean, clock, gamma, streams("walk"))

        proto = self.prototypical(reading.anchors, streams)
        kl = losses.kl(target, reading.log_p)
        info |= {"loss_proto": proto.item(), "loss_kl": kl.item(), "gamma": gamma, "weight": weight}
        return proto + weight * kl, state, info

    def target(
        self, state: State, batch: Batch, log_p: Tensor, clock: Clock, gamma: float, generator: Generator
    ) -> tuple[Tensor, State, dict[str, float]]:
        """The soft target `[B, k, h]` of a batch, from candidates scored by log p `[B, k, h]`."""
        query = Query(batch.ids.cpu(), batch.labels.cpu(), log_p.cpu(), clock.epoch, gamma)
        candidates, state, info = self.source.candidates(state, query, generator)
        scores = targets.scores(query.log_p, candidates.rows)  # [B, K]
        weights = targets.weights(scores, candidates.valid, gamma if self.settings.target == "soft" else 0.0)
        return targets.soft_target(candidates.rows, weights, self.task.space.h).to(log_p.device), state, info

    def prototypical(self, embedded: list[Tensor], streams: Streams) -> Tensor:
        """Mean over groups of the episodic loss of the embedded anchors `[A, P, D]`."""
        each = [losses.episodic(e.float(), self.settings.episodes, streams("episodes")) for e in embedded]
        return torch.stack(each).mean()

    def augmented_anchors(self, generator: Generator) -> list[Tensor]:
        """The originals and fresh copies of them, per group `[A, P, C, H, W]`."""
        result = []
        for originals in self.anchors:
            copies = originals.expand(self.settings.copies, *originals.shape)
            views = augment(copies, self.task.background, generator)
            result.append(torch.cat([originals[None], views]))
        return result

    def finish(self, module: Reader) -> None:
        assert isinstance(module, PrototypeNetwork)
        generator = Generator().manual_seed(INFERENCE_SEED)
        module.settle(self.augmented_anchors(generator))
