"""A run: training in a folder, with checkpoints, that can be stopped at any time and gone on with."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import Generator, Tensor

from softpnet.errors import InputError, SoftPNetError
from softpnet.rules.labels import unique_labels
from softpnet.rules.rows import verified_rows
from softpnet.storage import refuse_code
from softpnet.task.task import Task
from softpnet.training.checkpoint import Checkpoints
from softpnet.training.config import Config, parse_config, read_config
from softpnet.training.environment import differences
from softpnet.training.folder import CONFIG, EPOCHS, RunFolder
from softpnet.training.history import write_epochs
from softpnet.training.interrupt import Stop
from softpnet.training.loop import Progress, Training, any_process
from softpnet.training.model_file import holds_finished_model

if TYPE_CHECKING:
    from lightning_fabric import Fabric

SAME = ("task", "rule", "method", "seed", "settings", "input_shape", "data")
"""Entries of the configuration that a run keeps for all its life."""

TRIED = 10_000
"""Random assignments on which two rules are compared."""


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


def begin(folder: RunFolder, config: Config, resume: bool, fabric: Fabric) -> bool:
    """Write the configuration of a new run, or hold it against the one that is there; True if that run is finished."""
    there = CONFIG in folder
    fabric.barrier()  # all have looked before the first one writes
    if not there:
        if fabric.is_global_zero:
            folder.write(CONFIG, config.to_bytes())
        return False
    if not resume:
        raise InputError(f"{folder.path} already holds a run; resume it, name another folder or remove it")
    folder.verify()
    _same_run(folder, config)
    finished = holds_finished_model(folder)
    # The epochs of a finished run stay listed: they are never made again, but a copy of them can be put back.
    removed = [name for name in folder.removed() if not (finished and name == EPOCHS)]
    fabric.barrier()  # all have looked before the list is changed
    if removed and fabric.is_global_zero:
        folder.remove(removed)
        warnings.warn(f"{', '.join(removed)} was removed from {folder.path}; the run goes on without", stacklevel=2)
    fabric.barrier()
    return finished


def _same_run(folder: RunFolder, config: Config) -> None:
    """Raise where the run in the folder is another one; warn where it was begun elsewhere."""
    then = read_config(folder)
    now = parse_config(config.to_bytes(), folder.path / CONFIG)  # as it would be read back
    changed = [word for name in SAME for word in _changes(name, getattr(then, name), getattr(now, name))]
    changed += _changes("options", *(entry.origin and entry.origin.options for entry in (then, now)))
    changed += _changes("processes", then.hardware.processes, now.hardware.processes)
    if changed:
        raise InputError(
            f"{folder.path} holds another run: {'; '.join(changed)}; resume it as it was begun, or name another folder"
        )
    sources = [entry.origin and entry.origin.sha256 for entry in (then, now)]
    elsewhere = [] if sources[0] == sources[1] else ["the task's file has changed"]
    for name in ("hardware", "machine", "versions"):
        elsewhere += _changes(name, getattr(then, name), getattr(now, name))
    if elsewhere:
        warnings.warn(
            f"the run in {folder.path} goes on under other conditions, so its bits may differ from those of a run that "
            f"was never stopped: {'; '.join(elsewhere)}",
            stacklevel=2,
        )


def _changes(name: str, then: Any, now: Any) -> list[str]:
    then, now = (msgspec.to_builtins(value) for value in (then, now))
    if isinstance(then, dict) and isinstance(now, dict):
        return differences(then, now)
    return differences({name: then}, {name: now})


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
    if checkpoints is not None and training.records and EPOCHS not in checkpoints.folder and fabric.is_global_zero:
        write_epochs(checkpoints.folder, training.records)  # someone has removed it, but the checkpoint knows
    for step in training.steps():
        if watch is not None and step.epoch_done:
            training.records[-1] = _joined(training.records[-1], watch())
        if checkpoints is not None and step.epoch_done and fabric.is_global_zero:
            write_epochs(checkpoints.folder, training.records)
        progress(step)
        stopping = any_process(fabric, stop.requested)
        if checkpoints is not None and (any_process(fabric, checkpoints.due()) or stopping):
            training.check_finite()
            checkpoints.save()
        if stopping:
            return training.at.epoch == training.settings.epochs
    return True


def check_same_rule(config: Config, task: Task, path: Path) -> None:
    """Raise where the model in a folder was trained with another rule than the task has."""
    if rule_fingerprint(task) != config.rule:
        raise InputError(
            f"the model in {path} does not fit this task: it was trained with another rule or concept space than "
            f"{task.name!r} has now; pass the task that it was trained with, or apply another rule to what "
            "predict(...).concepts reads"
        )
    sources = [(task.origin or {}).get("sha256"), config.origin and config.origin.sha256]
    if all(sources) and sources[0] != sources[1]:
        warnings.warn(
            f"the task's file has changed since the model in {path} was trained; on {TRIED:,} random assignments its "
            "rule is still the same",
            stacklevel=2,
        )


def rule_fingerprint(task: Task) -> str:
    """One sha256 for the concept space and what the rule makes of many of its assignments."""
    sizes = torch.tensor(task.space.sizes)
    rows = (torch.rand(TRIED, task.space.k, generator=Generator().manual_seed(0)) * sizes).long()
    labels = task.rule(rows)
    if task.rows is None or len(unique_labels(labels)[0]) > 1:
        return fingerprint([sizes, labels])
    # The other labels are too rare to be met by chance, as that of a valid Sudoku: the task's own rows have them.
    with torch.random.fork_rng(devices=[]):
        given = verified_rows(task, task.rows(Generator().manual_seed(0)))
    return fingerprint([sizes, labels, given, task.rule(given)])


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
