"""Small real runs of `softpnet train`, each a process that can be hurt, and what is compared afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softpnet.storage import digest
from softpnet.training.folder import CONFIG, EPOCHS, METRICS, MODEL, RunFolder

PATIENCE_S = 600.0
"""A process that has not answered by then, on however slow a machine, never will."""
SMALL = ("--warmup-steps", "4", "--batch-size", "16", "--epochs", "3", "--episodes", "5", "--checkpoint-steps", "1")


@dataclass(frozen=True)
class Subject:
    """A task and options that make its training short."""

    task: str
    options: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def command(self, folder: Path, *more: str) -> list[str]:
        given = [part for option in self.options for part in ("--option", option)]
        train = [sys.executable, "-m", "softpnet", "train", self.task, "--out", str(folder), *given, *SMALL]
        return [*train, *self.settings, "--threads", "1", "--no-pictures", *more]

    def start(self, folder: Path, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(folder, *more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def finish(self, folder: Path, *more: str) -> tuple[int, str]:
        """Run to the end: exit code and what it said on stderr."""
        process = self.start(folder, *more)
        _, error = process.communicate(timeout=PATIENCE_S)
        return process.returncode, error


SUBJECTS = (
    Subject("mnist_evenodd", ("train=128",)),
    Subject("visual_sudoku", ("train=64",)),
    Subject("kand_logic", ("train=128", "test=50", "cached=2000")),
)


@dataclass
class Result:
    """How often a promise was kept."""

    test: str
    promise: str
    cases: int = 0
    kept: int = 0
    failures: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, complaints: list[str]) -> None:
        self.cases += 1
        self.kept += not complaints
        self.failures += complaints


def outcome(folder: Path) -> dict[str, Any]:
    """What two equal runs share: every bit of the model, the epochs but for their seconds, the scores."""
    run = RunFolder(folder)
    epochs = [json.loads(line) for line in run.read(EPOCHS).splitlines()]
    return {
        "model": digest(run.read(MODEL)),
        "epochs": [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in epochs],
        "scores": json.loads(run.read(METRICS))["tests"],
    }


def wait_for(
    condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = PATIENCE_S, every: float = 0.01
) -> bool:
    """Whether the condition came true before the process ended or the time was over; looked at every so many seconds,
    since who looks all the time takes the processor from what is waited for."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        if condition():
            return True
        time.sleep(every)
    return condition()


def training(folder: Path) -> Callable[[], bool]:
    """Whether the run in the folder has begun to train."""
    return lambda: (folder / CONFIG).exists()


def strays(folder: Path) -> list[str]:
    """Files that belong to no finished write: half-written ones, and a lock that nobody holds."""
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".part" or path.name == "lock")


def one_line(error: str) -> bool:
    """One sentence for a person, and no traceback."""
    lines = [line for line in error.strip().splitlines() if not line.startswith("softpnet: warning:")]
    return len(lines) == 1 and lines[0].startswith("softpnet: ")
