"""PNet+SL: prototypes, and the exact negative log-likelihood of the label (semantic loss)."""

from __future__ import annotations

from torch import Tensor, nn

from softpnet.errors import TaskError
from softpnet.methods import softpnet
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.rules.compile import check_known, compilation
from softpnet.rules.diagram import CompiledRule
from softpnet.targets.source import Info, State


class Method(softpnet.Method):
    """Andolfi and Giunchiglia, Right for the Right Reasons (NeurIPS 2025), with the exact semantic loss.

    L = L_proto + lambda * -log P(y|x), where P(y|x) is the sum of p(c|x) over S(y), exact.
    """

    columns = ("loss_proto", "loss_semantic", "rule_weight")
    rule: CompiledRule

    def start(self, labels: Tensor, streams: Streams) -> State:
        found = compilation(self.task)
        if found.rule is None:
            raise TaskError(
                f"P(y|x) cannot be summed exactly: the rule of task {self.task.name!r} is {found}; choose another "
                "method"
            )
        check_known(self.task, labels)
        self.rule = found.rule
        return State()

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, Info]:
        weight = self.rule_weight(clock)
        anchors = self.augmented_anchors(streams("augment"))
        reading = module(self.training_inputs(batch, clock, streams), anchors)
        proto = self.anchor_loss(reading, streams)
        semantic = -self.rule.log_prob(reading.log_p, batch.labels).mean()
        info = {"loss_proto": proto.item(), "loss_semantic": semantic.item(), "rule_weight": weight}
        return proto + weight * semantic, info
