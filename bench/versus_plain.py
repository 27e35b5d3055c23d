"""Versus the plain reading: a training step on EvenOdd, ours against `bench/plain.py`, each in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

import torch

from bench import plain
from bench.timing import threads
from softpnet import tasks
from softpnet.networks.augmentation import affine
from softpnet.training.streams import Streams


def plain_steps(count: int, warm_up: int = 1) -> float:
    """Median seconds of a plain training step on EvenOdd."""
    task = tasks.load("mnist_evenodd", {"train": 128})
    data = task.data(Streams(0))  # type: ignore[misc]
    encoder = plain.PlainConv4(1).train()
    optimiser = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    images, labels, rows = data.train.inputs[:64], data.train.labels[:64], task.space.all()
    seconds = []
    for _ in range(warm_up + count):
        began = time.perf_counter()
        originals = data.anchors.inputs  # type: ignore[union-attr]
        anchors = torch.stack([originals, *(affine()(originals, generator) for _ in range(3))])
        chosen = torch.randint(4, (50, 10), generator=generator)
        log_p = plain.concept_log_p(encoder, images, anchors)
        loss = plain.prototypical_loss(encoder, anchors, chosen)
        loss = loss + 5.0 * plain.kl_loss(log_p, labels, rows, task.rule, 1.0, best=True)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[warm_up:])


def our_steps(count: int, warm_up: int = 4) -> float:
    from bench.step import steps
    from softpnet.training.allocator import keep_large_blocks

    keep_large_blocks()
    training, _, _ = steps("mnist_evenodd")
    seconds = []
    for _ in range(warm_up + count):
        began = time.perf_counter()
        next(training)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[warm_up:])


def measure(count: int = 1, rounds: int = 2) -> list[dict]:
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(rounds):
        for who in times:
            command = [sys.executable, "-m", "bench.versus_plain", who, str(count)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            times[who].append(json.loads(done.stdout.splitlines()[-1]))
    plain_seconds, ours = (statistics.median(times[who]) for who in ("plain", "ours"))
    return [
        {
            "name": "plain reading / ours, EvenOdd step",
            "threads": count,
            "ratio": plain_seconds / ours,
            "target": 10.0,
            "better": "higher",
            "seconds": ours,
            "plain_seconds": plain_seconds,
        }
    ]


if __name__ == "__main__":
    who, count = sys.argv[1:]
    with threads(int(count)):
        print(json.dumps(plain_steps(2) if who == "plain" else our_steps(10)))
