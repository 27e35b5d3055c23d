"""A run: training in a folder, with checkpoints, that can be stopped at any time and gone on with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError, SoftPNetError
from softpnet.storage import from_json, refuse_code, to_json
from softpnet.task.task import Task
from softpnet.training.checkpoint import Checkpoints
from softpnet.training.environment import differences
from softpnet.training.folder import CONFIG, EPOCHS, RunFolder
from softpnet.training.interrupt import Stop
from softpnet.training.loop import Progress, Training, any_process
from softpnet.training.model_file import holds_finished_model

if TYPE_CHECKING:
    from lightning_fabric import Fabric

SAME = ("task", "rule", "method", "seed", "settings", "input_shape", "data")
"""Entries of the configuration that a run keeps for all its life."""


@contextlib.contextmanager
def opened(path: Path, fabric: Fabric) -> Iterator[RunFolder]:
    """The run's folder; of several processes only the first one owns it, and the others see it once that is so."""
    refuse_code(path)
    with contextlib.ExitStack() as stack:
        folder, failed = None, None
        if fabric.is_global_zero:
            try:
                folder = stack.enter_context(RunFolder.to_write(path))
            except SoftPNetError as error:
                failed = error
        if any_process(fabric, failed is not None):  # or the others would wait for ever
            raise failed or InputError(f"{path} could not be opened by the first process")
        yield folder or RunFolder(path)
        fabric.barrier()


def begin(folder: RunFolder, config: dict[str, Any], resume: bool, fabric: Fabric) -> bool:
    """Write the configuration of a new run, or hold it against the one that is there; True if that run is finished."""
    there = CONFIG in folder
    fabric.barrier()  # all have looked before the first one writes
    if not there:
        if fabric.is_global_zero:
            folder.write(CONFIG, to_json(config))
        return False
    if not resume:
        raise InputError(f"{folder.path} already holds a run; resume it, name another folder or remove it")
    removed = folder.forget_removed() if fabric.is_global_zero else []
    if removed:
        warnings.warn(f"{', '.join(removed)} was removed from {folder.path}; the run goes on without", stacklevel=2)
    fabric.barrier()
    folder = folder if fabric.is_global_zero else RunFolder(folder.path)
    folder.verify()
    _same_run(folder, config)
    return holds_finished_model(folder)


def _same_run(folder: RunFolder, config: Mapping[str, Any]) -> None:
    """Raise where the run in the folder is another one; warn where it was begun elsewhere."""
    then = read_config(folder)
    now = from_json(to_json(config), folder.path)  # as it would be read back
    changed = [word for name in SAME for word in _changes(name, then.get(name), now[name])]
    changed += _changes("options", *((entry["origin"] or {}).get("options") for entry in (then, now)))
    changed += _changes("processes", *(entry["hardware"].get("processes") for entry in (then, now)))
    if changed:
        raise InputError(
            f"{folder.path} holds another run: {'; '.join(changed)}; resume it as it was begun, or name another folder"
        )
    sources = [(entry["origin"] or {}).get("sha256") for entry in (then, now)]
    elsewhere = [] if sources[0] == sources[1] else ["the task's file has changed"]
    for name in ("hardware", "machine", "versions"):
        elsewhere += differences(then.get(name, {}), now[name])
    if elsewhere:
        warnings.warn(
            f"the run in {folder.path} goes on under other conditions, so its bits may differ from those of a run that "
            f"was never stopped: {'; '.join(elsewhere)}",
            stacklevel=2,
        )


def _changes(name: str, then: Any, now: Any) -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        return differences(then, now)
    return differences({name: then}, {name: now})


def read_config(folder: RunFolder) -> dict[str, Any]:
    config = from_json(folder.read(CONFIG), folder.path / CONFIG)
    for entry in ("task", "origin", "method", "seed", "settings", "hardware", "input_shape"):
        if not isinstance(config, dict) or entry not in config:
            raise InputError(f"{folder.path / CONFIG} is damaged: it has no entry {entry!r}")
    origin, shape = config["origin"], config["input_shape"]
    right = {
        "origin": origin is None or (isinstance(origin, dict) and {"task", "options"} <= set(origin)),
        "settings": isinstance(config["settings"], dict),
        "hardware": isinstance(config["hardware"], dict),
        "input_shape": isinstance(shape, list) and len(shape) == 3 and all(type(n) is int and n > 0 for n in shape),
    }
    for entry, fine in right.items():
        if not fine:
            raise InputError(f"{folder.path / CONFIG} is damaged: its entry {entry!r} is {config[entry]!r}")
    return config


def read_epochs(folder: RunFolder) -> list[dict[str, float]]:
    """The records of the epochs that are done."""
    lines = folder.read(EPOCHS).splitlines() if EPOCHS in folder else []
    records = [from_json(line, folder.path / EPOCHS) for line in lines]
    if not all(isinstance(record, dict) and isinstance(record.get("seconds"), float) for record in records):
        raise InputError(f"{folder.path / EPOCHS} is damaged: its lines are not the records of epochs")
    return records


def _lines(records: list[dict[str, float]]) -> bytes:
    """One line of JSON each; a number that is none becomes null, since JSON has no NaN."""
    plain = [{name: value if math.isfinite(value) else None for name, value in each.items()} for each in records]
    return "".join(json.dumps(each) + "\n" for each in plain).encode()


def check_callbacks(**given: Any) -> None:
    """What is called between steps must be callable, or None."""
    for name, function in given.items():
        if function is not None and not callable(function):
            raise InputError(f"{name} is {function!r:.100}, expected a function, or None")


def follow(
    training: Training,
    progress: Callable[[Progress], None],
    checkpoints: Checkpoints | None,
    stop: Stop,
    watch: Callable[[], Mapping[str, float] | None] | None = None,
) -> bool:
    """Train to the end, or until a stop is asked for; then a checkpoint is made, and the answer is False.

    What `watch` finds after an epoch joins that epoch's record, before anything is written.
    """
    fabric = training.fabric
    for step in training.steps():
        if watch is not None and step.epoch_done:
            training.records[-1] = _joined(training.records[-1], watch())
        if checkpoints is not None and step.epoch_done and fabric.is_global_zero:
            checkpoints.folder.write(EPOCHS, _lines(training.records))
        progress(step)
        stopping = any_process(fabric, stop.requested)
        if checkpoints is not None and (any_process(fabric, checkpoints.due()) or stopping):
            training.check_finite()
            checkpoints.save()
        if stopping:
            return training.at.epoch == training.settings.epochs
    return True


def rule_fingerprint(task: Task) -> str:
    """One sha256 for the concept space and what the rule makes of many of its assignments."""
    sizes = torch.tensor(task.space.sizes)
    rows = (torch.rand(10_000, task.space.k, generator=Generator().manual_seed(0)) * sizes).long()
    return fingerprint([sizes, task.rule(rows)])


def _joined(record: dict[str, float], found: Any) -> dict[str, float]:
    """An epoch's record with what `watch` returned: numbers by name, or None where it only looked."""
    found = {} if found is None else found
    if not isinstance(found, Mapping):
        raise InputError(f"watch returned {found!r:.100}, expected numbers by name, {{'accuracy': 0.9}}, or None")
    numbers = {}
    for name, value in found.items():
        if name in record:
            raise InputError(f"watch returned {name!r}, which every epoch's record already has; name it otherwise")
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"watch returned {value!r:.100} as {name!r}, expected a number") from None
    return record | numbers


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """One sha256 for the shapes, types and bytes of tensors."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.detach().contiguous().cpu().numpy().data)
    return found.hexdigest()
