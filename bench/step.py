"""Step overhead: a whole training step over the encoder's own, on each task; and what cache and k-best cost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from lightning_fabric import Fabric

from bench.encoder import training_step
from bench.timing import in_turns, threads
from softpnet import methods, tasks
from softpnet.networks.encoders import Conv4
from softpnet.rules.rows import Cache
from softpnet.targets import kbest
from softpnet.targets.source import Query, State
from softpnet.task.anchors import arrange_anchors
from softpnet.task.settings import Settings
from softpnet.training.loop import Progress, Training
from softpnet.training.streams import Streams

SMALL = {"mnist_evenodd": {"train": 128}, "visual_sudoku": {"train": 128}, "kand_logic": {"train": 128, "test": 2}}
"""Two full batches per epoch, so that steps with walks come soon."""


def steps(name: str) -> tuple[Iterator[Progress], int, int]:
    """An endless training of a task; images that its encoder sees per step, and their channels."""
    task = tasks.load(name, SMALL[name])
    streams = Streams(0)
    data = task.data(streams)  # type: ignore[misc]
    settings = Settings().override(**{**task.settings_in("paper"), "epochs": 10**6, "warmup_steps": 0})
    anchors = arrange_anchors(task.space, data.anchors, data.train.inputs.shape[2:])
    method = methods.find("softpnet")(task, settings, anchors)
    channels = data.train.inputs.shape[2]
    module = method.module({"concept": Conv4(channels)})
    fabric = Fabric(accelerator="cpu", devices=1)
    images = settings.batch_size * task.space.slots + (settings.copies + 1) * len(anchors[0].inputs)
    training = Training(method, module, data.train.inputs, data.train.labels, settings, streams, fabric)
    return training.steps(), images, channels


def measure(count: int = 1, repeats: int = 7) -> list[dict]:
    rows: list[dict] = []
    with threads(count):
        for name in SMALL:
            training, images, channels = steps(name)
            for _ in range(4):  # first draws are over; walks and all else go on
                next(training)
            alone = training_step(Conv4(channels), images, channels)
            pair = {"whole": lambda t=training: (next(t), next(t)), "encoder": lambda a=alone: (a(), a())}
            seconds = in_turns(pair, repeats)
            rows.append(
                {
                    "name": f"whole step / encoder step, {name}",
                    "threads": count,
                    "ratio": seconds["whole"] / seconds["encoder"],
                    "target": 1.15,
                    "better": "lower",
                    "seconds": seconds["whole"] / 2,
                    "encoder_images_per_step": images,
                }
            )
        rows += _kand_parts(count, rows[-1]["seconds"], repeats)
    images_per_epoch = 6720 // 64 * next(row for row in rows if "evenodd" in row["name"])["encoder_images_per_step"]
    rows.append(
        {
            "name": "encoder images per EvenOdd epoch",
            "threads": count,
            "ratio": images_per_epoch,
            "target": 17_640,
            "better": "lower",
        }
    )
    return rows


def _kand_parts(count: int, step: float, repeats: int) -> list[dict]:
    """The parts of a Kand-Logic step that grow with the rule: cache and k-best, over the whole step."""
    task = tasks.load("kand_logic")
    generator = torch.Generator().manual_seed(0)
    began = time.perf_counter()
    cache = Cache(task, task.rows(generator), generator)  # type: ignore[misc]
    build = time.perf_counter() - began
    log_p = torch.randn(64, task.space.k, task.space.h, generator=generator).log_softmax(-1)
    labels = torch.arange(64) % 2
    best = kbest.Source(task, Settings().override(**task.settings_in("paper")), generator)
    query = Query(torch.arange(64), labels, log_p, 0, 1.0)
    seconds = in_turns(
        {
            "cache": lambda: cache.draw(torch.ones_like(labels), log_p, 200_000, 20, generator),
            "kbest": lambda: best.candidates(State(), query, generator),
        },
        repeats,
    )
    common = {"threads": count, "better": "lower"}
    return [
        {
            "name": "64 examples x 200,000 rows, top 20 / Kand-Logic step",
            "ratio": seconds["cache"] / step,
            "target": 0.10,
            "seconds": seconds["cache"],
            **common,
        },
        {
            "name": "k-best, K = 20 / Kand-Logic step",
            "ratio": seconds["kbest"] / step,
            "target": 0.05,
            "seconds": seconds["kbest"],
            **common,
        },
        {"name": "400,000 Kand-Logic rows built and indexed, s", "ratio": build, "target": 2.0, **common},
    ]
