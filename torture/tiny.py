"""A task so small that a thousand runs of it take a minute."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from softpnet import Anchors, ConceptSpace, Data, Examples, Learner, Task
from softpnet.report.judge import judge
from softpnet.training.loop import Progress


def encoder(channels: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, 8), nn.BatchNorm1d(8))


def _sum(c: Tensor) -> Tensor:
    return c.sum(-1)


TASK = Task(ConceptSpace(slots=2, values=3), _sum, name="tiny", encoder=encoder, settings={"targets": "cache"})


FILE = """
import dataclasses
from torture.tiny import TASK, data
task = dataclasses.replace(TASK, data=lambda streams: data())
"""
"""The task as a user's file, which a process that finds this package can train."""


def data() -> Data:
    generator = torch.Generator().manual_seed(0)
    concepts = torch.randint(3, (24, 2), generator=generator)
    images = torch.rand(24, 2, 1, 8, 8, generator=generator)
    anchors = Anchors(torch.rand(3, 1, 8, 8, generator=generator), torch.arange(3))
    examples = Examples(images, _sum(concepts), concepts)
    return Data(examples, anchors, {"test": examples})


def fit(run: Path, resume: bool = False, progress: Callable[[Progress], None] | None = None) -> Learner:
    model = Learner(TASK, epochs=3, batch_size=8, warmup_steps=2, episodes=2, threads=1)
    given = data()
    return model.fit(
        given.train.inputs,
        given.train.labels,
        given.anchors,
        run=run,
        resume=resume,
        checkpoint_steps=1,
        progress=progress,
    )


def interrupted(run: Path, pictures: bool) -> None:
    """A run that Ctrl-C stopped in its second epoch: every kind of file is there, and it can be resumed."""

    def press(step: Progress) -> None:
        if (step.epoch, step.step) == (1, 1):
            signal.raise_signal(signal.SIGINT)

    judge(fit(run, progress=press), data(), run, pictures)
