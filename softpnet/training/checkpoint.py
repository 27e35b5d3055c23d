"""Checkpoints: all of a training that its next step depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from torch import Tensor

from softpnet.errors import InputError
from softpnet.storage import from_safetensors, safetensors_pieces, write_whole
from softpnet.training.folder import CHECKPOINT, RunFolder
from softpnet.training.loop import Training
from softpnet.training.reshard import dealt_anew
from softpnet.training.snapshot import numbers, put_back, tensors

KEPT = 2


class Checkpoints:
    """Those of one run, in its folder; each of several processes has files of its own."""

    def __init__(self, folder: RunFolder, training: Training, every_steps: int | None, every_seconds: float | None):
        self.folder, self.training = folder, training
        self.every_steps, self.every_seconds = every_steps, every_seconds
        self.steps, self.since = 0, time.monotonic()  # made since the last checkpoint, and when that was

    def due(self) -> bool:
        """Asked after every step: whether it is time for a checkpoint."""
        self.steps += 1
        by_steps = self.every_steps is not None and self.steps >= self.every_steps
        return by_steps or (self.every_seconds is not None and time.monotonic() - self.since >= self.every_seconds)

    def save(self) -> None:
        """Write a checkpoint of every process, list it, and remove all but the last two."""
        fabric, at = self.training.fabric, self.training.at
        number = f"checkpoint-{at.warmup:06d}-{at.epoch:04d}-{at.step:08d}"
        paths = self._paths(number)
        data = safetensors_pieces(tensors(self.training), {"numbers": json.dumps(numbers(self.training))})
        if fabric.world_size == 1:
            self.folder.write(paths[0].name, data)
        else:
            write_whole(paths[fabric.global_rank], data)
            fabric.barrier()
            if fabric.is_global_zero:
                self.folder.adopt([path.name for path in paths])
        if fabric.is_global_zero:
            outdated = self._listed()[:-KEPT]
            self.folder.remove([name for name in self.folder.names(CHECKPOINT) if _number(name) in outdated])
        self.steps, self.since = 0, time.monotonic()

    def _paths(self, number: str, count: int | None = None) -> list[Path]:
        """The files of a checkpoint of so many processes, or of as many as there are now."""
        count = self.training.fabric.world_size if count is None else count
        of = f"of{count}" if count > 1 else ""
        return [self.folder.path / f"{number}-process{rank}{of}.safetensors" for rank in range(count)]

    def _listed(self) -> list[str]:
        """The numbers of the checkpoints in the manifest, oldest first."""
        numbers = {_number(name) for name in self.folder.names(CHECKPOINT)}
        return sorted(numbers, key=lambda number: [int(part) for part in re.findall(r"\d+", number)])

    def _whole(self) -> list[tuple[str, int]]:
        """Those of which every process's file is there, oldest first: number, and of how many processes."""
        names = self.folder.names(CHECKPOINT)
        counts = {(_number(name), int((re.findall(r"of(\d+)", name) or ["1"])[0])) for name in names}
        there = [each for each in counts if all(path.exists() for path in self._paths(*each))]
        ages = {number: age for age, number in enumerate(self._listed())}
        return sorted(there, key=lambda each: (ages[each[0]], each[1]))

    def restore(self) -> bool:
        """Put the training where the last checkpoint was; False if there is none."""
        fabric, there = self.training.fabric, self._whole()
        if not there:
            return False
        number, count = there[-1]
        paths = self._paths(number, count)
        same = count == fabric.world_size
        read = [self._read(path) for path in ([paths[fabric.global_rank]] if same else paths)]
        path = paths[fabric.global_rank] if same else paths[0]
        try:
            stored, notes = read[0] if same else dealt_anew(self.training, read)
            put_back(self.training, stored, notes)
        except (KeyError, ValueError, RuntimeError, RecursionError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path} does not fit this run: {first}") from error
        return True

    def _read(self, path: Path) -> tuple[dict[str, Tensor], Any]:
        stored, notes = from_safetensors(self.folder.read(path.name), path)
        try:
            return stored, json.loads(notes["numbers"])
        except (KeyError, ValueError, RecursionError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path} does not fit this run: {first}") from error


def _number(name: str) -> str:
    return re.sub(r"-process\d+(of\d+)?\.safetensors", "", name)


def check_checkpoint_times(steps: int | None, seconds: float | None) -> None:
    """Checkpoints are made every so many steps, every so many seconds, both, or (both None) only when stopped."""
    if steps is not None and not (type(steps) is int and steps >= 1):
        raise InputError(f"checkpoint_steps is {steps!r}, expected a whole number of at least 1, or none")
    if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
        raise InputError(f"checkpoint_seconds is {seconds!r}, expected a number of 0 or more, or none")
