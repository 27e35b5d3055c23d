"""The training loop, top to bottom."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from softpnet.errors import TrainingError
from softpnet.methods.base import Batch, Clock, Method
from softpnet.schedules import halving
from softpnet.settings import Settings
from softpnet.training.streams import Streams

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Progress:
    """Where training stands after a step."""

    epoch: int
    epochs: int
    step: int
    steps: int
    means: dict[str, float]  # of this epoch's diagnostics so far
    seconds: float  # since the epoch began
    warming_up: bool = False  # before the first epoch, on anchors alone

    @property
    def epoch_done(self) -> bool:
        return not self.warming_up and self.step + 1 == self.steps

    def record(self) -> dict[str, float]:
        return {"epoch": self.epoch + 1, **self.means, "seconds": self.seconds}


def train(
    method: Method,
    module: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: Settings,
    streams: Streams,
    fabric: Fabric,
) -> Iterator[Progress]:
    """Train the module in place on images `[N, n, C, H, W]` and labels; one item per step.

    Labels that cannot be trained on raise at once, before the first item is asked for.

    With several processes each owns the examples whose id is its rank modulo their number, and so their state.
    """
    optimiser = torch.optim.Adam(
        module.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, foreach=True
    )
    model, optimiser = fabric.setup(module, optimiser)
    state = method.start(labels, streams)
    return _steps(method, model, optimiser, state, images, labels, settings, streams, fabric)


def _steps(
    method: Method,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    state: dict[str, Tensor],
    images: Tensor,
    labels: Tensor,
    settings: Settings,
    streams: Streams,
    fabric: Fabric,
) -> Iterator[Progress]:
    learning_rate = halving(settings.learning_rate, settings.halve_every)
    own = torch.arange(fabric.global_rank, len(labels), fabric.world_size)
    own = own[: len(labels) // fabric.world_size]  # every process makes the same number of steps
    model.train()

    def update(loss: Tensor, where: str) -> None:
        if any_process(fabric, not torch.isfinite(loss)):
            raise TrainingError(
                f"the loss is {loss.item()} in {where}; lower learning_rate or weight, or look at these examples"
            )
        optimiser.zero_grad()
        fabric.backward(loss)
        optimiser.step()

    began = time.perf_counter()
    for step in range(settings.warmup_steps):
        ids = own[torch.randint(len(own), (settings.warmup_examples,), generator=streams("warm-up"))]
        loss = method.warm_up(model, images[ids].to(fabric.device), streams)
        if loss is None:
            break
        update(loss, f"warm-up step {step + 1}, on the anchors alone")
        seconds = time.perf_counter() - began
        yield Progress(0, settings.epochs, step, settings.warmup_steps, {}, seconds, warming_up=True)

    for epoch in range(settings.epochs):
        began = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(epoch)
        batches = own[torch.randperm(len(own), generator=streams("batches"))].split(settings.batch_size)
        sums: dict[str, float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        for step, ids in enumerate(batches):
            batch = Batch(images[ids].to(fabric.device), labels[ids].to(fabric.device), ids)
            loss, info = method.loss(model, state, batch, Clock(epoch, step), streams)
            update(loss, f"epoch {epoch + 1}, step {step + 1}, on the batch of examples {ids.tolist()}")
            for name, value in info.items():
                sums[name] += value
                counts[name] += 1
            means = {name: sums[name] / counts[name] for name in sums}
            yield Progress(epoch, settings.epochs, step, len(batches), means, time.perf_counter() - began)


def any_process(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is up in any of the processes that train together: all must stop at the same step."""
    if fabric.world_size == 1:
        return bool(flag)
    total = fabric.all_reduce(torch.tensor(float(flag)), reduce_op="sum")
    assert isinstance(total, Tensor)
    return bool(total > 0)
