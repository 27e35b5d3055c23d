"""State: what a run remembers of a million examples, and whether a step or a checkpoint pays for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from bench.timing import in_turns, threads
from softpnet.methods.softpnet import Method
from softpnet.storage import to_safetensors
from softpnet.targets import cache
from softpnet.targets.source import Query, State
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import ConceptSpace
from softpnet.task.hardware import Hardware
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.training import checkpoint
from softpnet.training.checkpoint import Checkpoints
from softpnet.training.folder import RunFolder
from softpnet.training.loop import Training
from softpnet.training.processes import launched
from softpnet.training.streams import Streams

FEW, MANY = 2_000, 1_000_000
SETTINGS = Settings(targets="cache", working_set=20, draw_factor=1, warmup_steps=0, episodes=5, copies=1)


def _sum(c: Tensor) -> Tensor:
    return c.sum(-1)


TASK = Task(ConceptSpace(slots=2, values=10), _sum)


def _encoder(channels: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4 * channels, 16))


def _training(count: int) -> Training:
    """A training on so many small examples."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(count, 2, 1, 2, 2, generator=generator)
    labels = torch.randint(19, (count,), generator=generator)
    method = Method(TASK, SETTINGS, [AnchorSet(torch.rand(10, 1, 2, 2, generator=generator), torch.arange(10))])
    module = method.module({"concept": _encoder(1)})
    return Training(method, module, inputs, labels, SETTINGS, Streams(0), launched(Hardware()))


def _candidates(count: int) -> Callable[[], object]:
    """One query of the cache for a batch among so many examples."""
    generator = torch.Generator().manual_seed(0)
    source = cache.Source(TASK, SETTINGS, generator)
    labels = torch.randint(19, (count,), generator=generator)
    state = source.start(labels)
    ids = torch.randint(count, (64,), generator=generator)
    log_p = torch.randn(64, 2, 10, generator=generator).log_softmax(-1)
    return lambda: source.candidates(state, Query(ids, labels[ids], log_p, 1, 1.0), generator)


def _bytes(state: State) -> int:
    tensors = [value for value in vars(state).values() if isinstance(value, Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@contextmanager
def _written(training: Training) -> Iterator[dict[str, Callable[[], object]]]:
    """A checkpoint, and a plain write of as many bytes that waits for the disk as well."""
    size = len(to_safetensors(checkpoint.tensors(training), {}))
    with tempfile.TemporaryDirectory(dir=".") as scratch, RunFolder.to_write(Path(scratch, "run")) as folder:
        checkpoints, data = Checkpoints(folder, training, None, None), os.urandom(size)

        def plain() -> None:
            with open(Path(scratch, "plain"), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

        yield {"checkpoint": checkpoints.save, "plain": plain}


def measure(repeats: int = 9) -> list[dict]:
    with threads(1):
        trainings = {count: _training(count) for count in (FEW, MANY)}
        steps = {count: training.steps() for count, training in trainings.items()}
        for step in steps.values():
            next(step)  # the first one of an epoch also shuffles it
        stepped = in_turns({str(count): step.__next__ for count, step in steps.items()}, repeats)
        asked = in_turns({str(count): _candidates(count) for count in (FEW, MANY)}, 10 * repeats)
        with _written(trainings[MANY]) as writes:
            wrote = in_turns(writes, repeats, warm_up=1)
    ratios = {
        "step, 10^6 / 2,000 examples": (stepped[str(MANY)] / stepped[str(FEW)], 1.15),
        "candidates(), 10^6 / 2,000 examples": (asked[str(MANY)] / asked[str(FEW)], 1.15),
        "state of 10^6 examples, MB": (_bytes(trainings[MANY].state) / 1e6, 45.0),
        "checkpoint of 10^6 examples / plain write": (wrote["checkpoint"] / wrote["plain"], 2.0),
    }
    return [
        {"name": name, "threads": 1, "ratio": ratio, "target": target, "better": "lower"}
        for name, (ratio, target) in ratios.items()
    ]
