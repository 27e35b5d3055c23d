"""Supervised, read by prototypes: the ceiling of the methods that read by prototypes of the anchors."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import one_hot

from softpnet.methods import losses, softpnet
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.targets.source import Info, State


class Method(softpnet.Method):
    """A second ceiling (not in the paper): Soft-PNet with the true concepts in place of its target.

    What lies between this one and `supervised` is the price of reading by prototypes, with the loss and the start that
    belong to it; what lies between Soft-PNet and this one is that of not knowing the concepts.
    """

    columns = ("loss_proto", "loss_concepts", "rule_weight")
    needs_concepts = True

    def start(self, labels: Tensor, streams: Streams) -> State:
        return State()

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, Info]:
        assert batch.concepts is not None
        weight = self.rule_weight(clock)
        anchors = self.augmented_anchors(streams("augment"))
        reading = module(self.training_inputs(batch, clock, streams), anchors)
        proto = self.anchor_loss(reading, streams)
        loss = losses.kl(one_hot(batch.concepts, self.task.space.h).to(reading.log_p), reading.log_p)
        info = {"loss_proto": proto.item(), "loss_concepts": loss.item(), "rule_weight": weight}
        return proto + weight * loss, info
