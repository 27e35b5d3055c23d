"""What is handed to a training, checked; and the training, built of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor, nn

from softpnet.methods.base import Method
from softpnet.networks.make_encoders import check_trainable
from softpnet.rules.function import check_rule
from softpnet.task.data import Anchors
from softpnet.task.inputs import arrange_anchors, check_inputs, check_labels, needed_concepts
from softpnet.task.settings import Hardware, Settings
from softpnet.task.task import Task
from softpnet.training.identity import fingerprint
from softpnet.training.loop import Training
from softpnet.training.processes import launched, to_run
from softpnet.training.streams import Streams, borrowed_global_generator


class Given(NamedTuple):
    """Examples and anchors that training may start with."""

    inputs: Tensor  # [N, n, C, H, W]
    labels: Tensor  # [N] or [N, m], int64
    anchors: list[Tensor]  # per group [P, C, H, W]
    concepts: Tensor | None  # [N, k], for a method that needs them

    def fingerprint(self) -> str:
        """One sha256 for all of it."""
        truth = [] if self.concepts is None else [self.concepts]
        return fingerprint([self.inputs, self.labels, *truth, *self.anchors])


def accept(
    task: Task,
    method: type[Method],
    name: str,
    inputs: Tensor,
    labels: Tensor,
    anchors: Anchors | Mapping[str, Anchors],
    concepts: Tensor | None,
) -> Given:
    """Raise where the rule or what is given cannot be trained on; nothing is built yet."""
    check_rule(task)
    check_inputs(inputs, task.space)
    whole = check_labels(labels, len(inputs), task)
    truth = needed_concepts(concepts, len(inputs), task.space, name) if method.needs_concepts else None
    return Given(inputs, whole, arrange_anchors(task.space, anchors, inputs.shape[2:]), truth)


def build(
    task: Task,
    kind: type[Method],
    name: str,
    settings: Settings,
    hardware: Hardware,
    encoders: Mapping[str, nn.Module],
    given: Given,
    streams: Streams,
) -> Training:
    """A training before its first step; raises where it could not make one."""
    fabric = launched(hardware, kind.idle_parts)
    method = kind(task, settings, [to_run(fabric, anchors) for anchors in given.anchors])
    with borrowed_global_generator(streams("init")):
        module = method.module(encoders)
    check_trainable(module, name)
    return Training(method, module, given.inputs, given.labels, settings, streams, fabric, given.concepts)
