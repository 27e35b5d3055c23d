"""Checkpoints: all of a training that its next step depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.storage import from_safetensors, to_safetensors, write_whole
from softpnet.training.folder import CHECKPOINT, RunFolder
from softpnet.training.loop import Position, Training

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
        data = to_safetensors(tensors(self.training), {"numbers": json.dumps(numbers(self.training))})
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

    def _paths(self, number: str) -> list[Path]:
        """The files of a checkpoint, by process."""
        count = self.training.fabric.world_size
        return [self.folder.path / f"{number}-process{rank}.safetensors" for rank in range(count)]

    def _listed(self) -> list[str]:
        """The numbers of the checkpoints in the manifest, oldest first."""
        numbers = {_number(name) for name in self.folder.names(CHECKPOINT)}
        return sorted(numbers, key=lambda number: [int(part) for part in re.findall(r"\d+", number)])

    def restore(self) -> bool:
        """Put the training where the last checkpoint was; False if there is none."""
        fabric = self.training.fabric
        there = [number for number in self._listed() if all(path.exists() for path in self._paths(number))]
        if not there:
            return False
        path = self._paths(there[-1])[fabric.global_rank]
        stored, notes = from_safetensors(self.folder.read(path.name), path)
        try:
            put_back(self.training, stored, json.loads(notes["numbers"]))
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, RecursionError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path} does not fit this run: {first}") from error
        return True


def _number(name: str) -> str:
    return re.sub(r"-process\d+\.safetensors", "", name)


def tensors(training: Training) -> dict[str, Tensor]:
    """Weights, statistics, the optimiser's moments, the method's state, random streams, the epoch's order."""
    found = {f"module.{name}": value for name, value in training.module.state_dict().items()}
    found |= {f"buffer.{name}": value for name, value in _passing_buffers(training).items()}
    for i, parameter in enumerate(training.module.parameters()):
        for name, value in training.adam.state.get(parameter, {}).items():
            found[f"optimiser.{i}.{name}"] = value
    found |= {f"state.{name}": value for name, value in training.state.tensors().items()}
    found |= {f"stream.{name}": value for name, value in training.streams.state().items()}
    found["global_generator"] = torch.get_rng_state()
    if training.fabric.device.type == "cuda":
        found["cuda_generator"] = torch.cuda.get_rng_state(training.fabric.device)
    found["order"] = training.order
    return found


def _passing_buffers(training: Training) -> dict[str, Tensor]:
    """Buffers that a module does not save, but that its next step may depend on."""
    saved = training.module.state_dict()
    return {name: value for name, value in training.module.named_buffers() if name not in saved}


def numbers(training: Training) -> dict[str, Any]:
    """Position, the records of finished epochs, and the loss scale of 16-bit training."""
    scale = training.fabric.strategy.precision.state_dict()
    return {"at": dataclasses.asdict(training.at), "records": training.records, "scale": scale}


def put_back(training: Training, stored: Mapping[str, Tensor], given: Mapping[str, Any]) -> None:
    """The reverse of `tensors` and `numbers`; raises what the parts raise if they do not fit."""

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}

    position = Position(**given["at"])
    _check_position(training, position)
    state, order = part("state."), stored["order"]
    if not torch.equal(order.sort().values, training.own):
        raise ValueError("its order of the examples is not one of theirs")
    for name, fresh in training.state.tensors().items():
        found = state.get(name)
        if found is None or found.shape != fresh.shape or found.dtype != fresh.dtype:
            raise ValueError(f"{name} is {None if found is None else list(found.shape)}, expected {list(fresh.shape)}")
    training.module.load_state_dict(part("module."))
    for name, value in part("buffer.").items():
        training.module.get_buffer(name).copy_(value)
    moments = part("optimiser.")
    for i, parameter in enumerate(training.module.parameters()):
        mine = {name.partition(".")[2]: value for name, value in moments.items() if name.partition(".")[0] == str(i)}
        if mine:
            # In the parameter's own memory layout, so that the same instructions run on them as before.
            training.adam.state[parameter] = {
                name: value.clone() if name == "step" else torch.empty_like(parameter).detach().copy_(value)
                for name, value in mine.items()
            }
    for name, place in training.state.tensors().items():
        place.copy_(state[name])
    training.order = order
    training.streams.restore(part("stream."))
    torch.set_rng_state(stored["global_generator"])
    if "cuda_generator" in stored:
        torch.cuda.set_rng_state(stored["cuda_generator"], training.fabric.device)
    training.fabric.strategy.precision.load_state_dict(given["scale"])
    training.at, training.records = position, list(given["records"])


def _check_position(training: Training, at: Position) -> None:
    """Raise for a position that no run of these settings and examples can be at."""
    settings = training.settings
    steps = math.ceil(len(training.own) / settings.batch_size)
    limits = {"warmup": settings.warmup_steps, "epoch": settings.epochs, "step": steps - 1}
    for name, limit in limits.items():
        value = getattr(at, name)
        if type(value) is not int or not 0 <= value <= limit:
            raise ValueError(f"its {name} is {value!r}, expected 0 to {limit}")
    if type(at.seconds) is not float:
        raise ValueError(f"its seconds are {at.seconds!r}, expected a number")
    if not (isinstance(at.untaught, list) and at.untaught and all(type(n) is int and n >= 0 for n in at.untaught)):
        raise ValueError(f"its counts of examples without a candidate are {at.untaught!r}, expected one per epoch")


def check_checkpoint_times(steps: int | None, seconds: float | None) -> None:
    """Checkpoints are made every so many steps, every so many seconds, both, or (both None) only when stopped."""
    if steps is not None and steps < 1:
        raise InputError(f"checkpoint_steps is {steps}, expected at least 1, or none")
    if seconds is not None and not seconds >= 0:
        raise InputError(f"checkpoint_seconds is {seconds}, expected 0 or more, or none")
