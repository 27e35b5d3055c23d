"""What two processes do that train together, and one alone with the same batches; test_hosts.py starts the two.

`torchrun --max-restarts 1 --nproc-per-node 2 -m tests.training.pair FOLDER` runs all of it: the second process kills
itself in the last run, and what torchrun starts again ends that one.
"""

import contextlib
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import ClassVar

import torch
from torch import distributed, nn

from softpnet import Anchors, ConceptSpace, InputError, Learner, Task
from softpnet.methods import softpnet
from softpnet.networks.encoders import Conv4
from softpnet.task.task import Corruption
from softpnet.training import processes
from softpnet.training.launcher import is_restarted
from tests.training.test_checkpoint import Crash, corrupted, crash_at

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.rand(21, 3, 1, 16, 16, generator=GENERATOR)
LABELS = torch.randint(2, (21,), generator=GENERATOR)
ANCHORS = Anchors(torch.rand(3, 1, 16, 16, generator=GENERATOR), torch.arange(3))
SHORT = {"epochs": 2, "batch_size": 8, "warmup_steps": 2, "warmup_examples": 2, "episodes": 3, "working_set": 4}


CUT = 7
"""The step in which a run is cut off, the second of its second epoch."""


def flat(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 6), nn.BatchNorm1d(6))


def task():
    rule = lambda c: c.sum(-1) % 2  # noqa: E731
    return Task(ConceptSpace(slots=3, values=3), rule, name="parity", corrupt=Corruption(1, 0, corrupted))


CASES = {
    "recipe": {"encoder": lambda channels: Conv4(channels, width=4)},  # exact targets, balance, augmented inputs
    "walk": {"encoder": flat, "preset": "paper", "targets": "cache", "views": True, "rule_weight": 5.0},
    "even": {"encoder": flat, "balanced_labels": True},
}


LOCAL = CASES["recipe"] | {"batch_norm": "local"}
"""Each process normalises by its own share."""


class Recorded(softpnet.Method):
    """Notes the loss and, once its step is made, the gradient of every step."""

    made: ClassVar[list] = []

    def warm_up(self, module, inputs, streams):
        return self._noted(module, super().warm_up(module, inputs, streams))

    def loss(self, module, state, batch, clock, streams):
        loss, info = super().loss(module, state, batch, clock, streams)
        return self._noted(module, loss), info

    def _noted(self, module, loss):
        self.made.append([module, loss.detach()])
        return loss


def steps(case, precision):
    """Loss and gradient of every step `[S, 1 + weights]`, and the history."""
    Recorded.made = []
    found = []

    def note(step):
        module, loss = Recorded.made[-1]
        gradients = [weight.grad.flatten() for weight in module.parameters()]
        found.append(torch.cat([loss.reshape(1).to(gradients[0]), *gradients]))

    chosen = {**CASES, "local": LOCAL}[case]
    model = Learner(task(), method=Recorded, precision=precision, threads=1, **SHORT, **chosen)
    model.fit(IMAGES, LABELS, ANCHORS, progress=note)
    return torch.stack(found), [{k: v for k, v in each.items() if k != "seconds"} for each in model.history]


def fit(run, progress=None, resume=False, labels=LABELS, **settings):
    chosen = SHORT | CASES["walk"] | {"epochs": 3} | settings
    model = Learner(task(), threads=1, **chosen)
    steps = None if run is None else 1
    return model.fit(IMAGES, labels, ANCHORS, run=run, resume=resume, checkpoint_steps=steps, progress=progress)


def refused(**settings):
    """The sentence with which a training does not begin."""
    try:
        fit(**settings)
    except InputError as error:
        return f"{type(error).__name__}: {error}"
    return "it began"


def main(folder):
    os.chdir(folder)
    if is_restarted():
        fit("cut")
        return
    rank, said = int(os.environ["RANK"]), {}
    for case in (*CASES, "local"):
        for precision in ("64-true", "32-true") if case == "even" else ("64-true",):
            found = steps(case, precision)
            torch.save(found, f"{case}-{precision}-{rank}.pt")
    said["batch"] = refused(run="batch", batch_size=9)
    said["many"] = refused(run="many", batch_size=64, validation=20 / 21)
    said["disk"] = refused(run=f"disk-{rank}")
    said["seed"] = refused(run="seed", seed=rank)
    said["data"] = refused(run="data", labels=(LABELS + rank) % 2)
    versions, processes.versions = processes.versions, lambda: versions() | {"torch": f"2.{rank}"}
    said["versions"] = refused(run="versions")
    processes.versions = versions
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit("of-one", resume=True)
    said["of-one"] = [str(each.message) for each in caught]
    with contextlib.suppress(Crash):
        fit("of-two", crash_at(CUT))
    fit("whole")
    torch.save(said, f"said-{rank}.pt")

    def die(step):
        if rank == 1 and (step.epoch, step.step) == (1, 1):
            os.kill(os.getpid(), signal.SIGKILL)

    distributed.barrier()
    fit("cut", die)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
