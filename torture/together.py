"""Losses of two processes that train together on EvenOdd, and of one alone on the same batches.

`python -m torture.together FOLDER` by each of the two, and `python -m torture.together FOLDER alone`: a file of losses
each, by preset, of every step of the warm-up and of the first epoch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from softpnet import Learner, tasks
from softpnet.errors import StopTraining
from softpnet.methods import softpnet
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.networks.frozen import Features
from softpnet.targets.source import Info, State
from softpnet.task.data import make_data
from softpnet.training import loop, order
from softpnet.training.launcher import launcher
from softpnet.training.loop import Progress
from softpnet.training.streams import Streams as Named

WARM_UP, STEPS, BATCH = 5, 20, 64


def as_two(put: Callable[[Any, str, Any], None], share: int) -> None:
    """One process alone takes the batches that two would share, so many examples each; `put` replaces functions."""
    own_order, warm_up_ids = order.own_order, order.warm_up_ids

    def both(draw: Callable[[int], Tensor], generator: Generator) -> list[Tensor]:
        """What each of two processes draws, from the same place of a stream."""
        state, found = generator.get_state(), []
        for rank in range(2):
            generator.set_state(state)
            found.append(draw(rank))
        return found

    def order_of_two(labels: Tensor, rank: int, processes: int, even: bool, generator: Generator) -> Tensor:
        found = both(lambda one: own_order(labels, one, 2, even, generator), generator)
        pairs = zip(*(each.split(share) for each in found), strict=True)
        return torch.cat([part for pair in pairs for part in pair])

    def ids_of_two(count: int, examples: int, rank: int, processes: int, generator: Generator) -> Tensor:
        return torch.cat(both(lambda one: warm_up_ids(count, examples, one, 2, generator), generator))

    put(loop, "own_order", order_of_two)
    put(loop, "warm_up_ids", ids_of_two)


class Told(softpnet.Method):
    """Soft-PNet that tells the loss of every step."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.task.memo["losses"] = []

    def warm_up(self, module: nn.Module, inputs: Tensor | Features, streams: Streams) -> Tensor:
        return self._told(super().warm_up(module, inputs, streams))

    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, Info]:
        loss, info = super().loss(module, state, batch, clock, streams)
        return self._told(loss), info

    def _told(self, loss: Tensor) -> Tensor:
        self.task.memo["losses"].append(loss.item())
        return loss


def losses(preset: Any) -> list[float]:
    """Of the first steps, in double precision."""
    task = tasks.load("mnist_evenodd", {"train": 1280})
    data = make_data(task, Named(0))

    def stop(step: Progress) -> None:
        if not step.warming_up and step.step + 1 == STEPS:
            raise StopTraining

    model = Learner(
        task, method=Told, preset=preset, precision="64-true", threads=1, batch_size=BATCH, warmup_steps=WARM_UP
    )
    model.fit(data.train.inputs, data.train.labels, data.anchors, progress=stop)
    return task.memo["losses"]


if __name__ == "__main__":
    folder, *alone = sys.argv[1:]
    started = launcher()
    if alone:
        as_two(setattr, BATCH // 2)
    name = "alone" if started is None else str(started.rank)
    Path(folder, f"{name}.json").write_text(json.dumps({preset: losses(preset) for preset in ("best", "paper")}))
