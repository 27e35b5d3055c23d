"""Whether two runs are one: the same rule, data and choices; and whether they compute on the same machine."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import socket
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import Generator, Tensor

from softpnet.catalogue import name_of
from softpnet.errors import InputError
from softpnet.rules.labels import unique_labels
from softpnet.rules.rows import verified_rows
from softpnet.task.data import Inputs
from softpnet.task.lazy import LazyInputs
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.training import environment
from softpnet.training.config import Compiled, Config, Origin, parse_config, read_config
from softpnet.training.environment import differences
from softpnet.training.folder import CHECKPOINT, CONFIG, RunFolder
from softpnet.training.history import read_epochs
from softpnet.training.model_file import holds_finished_model
from softpnet.training.processes import agreed

if TYPE_CHECKING:
    from lightning_fabric import Fabric

SAME = ("task", "rule", "method", "seed", "encoder", "settings", "input_shape", "data")
"""Entries of the configuration that a run keeps for all its life."""

FREE = ("processes", "wait_seconds", "workers")
"""Entries of the hardware that may be others when a run goes on; of the first, the checkpoint itself warns."""

TRIED = 10_000
"""Random assignments on which two rules are compared."""


def described(task: Task, settings: Settings, **chosen: Any) -> Config:
    """The configuration of a run: what was chosen, and what else its bits depend on."""
    return Config(
        task=task.name,
        origin=None if task.origin is None else Origin(**task.origin),
        settings=dataclasses.replace(settings, targets=name_of(settings.targets)),
        versions=environment.versions(),
        machine=environment.machine(),
        rule=rule_fingerprint(task),
        compiled=Compiled.of(task),
        **chosen,
    )


def check_same_run(folder: RunFolder, config: Config) -> Config | None:
    """Raise where the run in the folder is another one; warn where it was begun elsewhere.

    The configuration that it has from now on, where all its epochs are done and it is to have more.
    """
    then = read_config(folder)
    now = parse_config(config.to_bytes(), folder.path / CONFIG)  # as it would be read back
    longer = None
    if now.settings.epochs > (done := then.settings.epochs):
        if holds_finished_model(folder) or len(read_epochs(folder)) == done:
            if not any(int(name.split("-")[2]) == done for name in folder.names(CHECKPOINT)):
                raise InputError(
                    f"the finished run in {folder.path} has no checkpoint of its end, from which it could go on to "
                    f"{now.settings.epochs:,} epochs: an earlier version made none, or it was removed; begin another "
                    f"run with init={str(folder.path)!r}"
                )
            settings = dataclasses.replace(then.settings, epochs=now.settings.epochs)
            given_by = then.given_by | {"epochs": now.given_by["epochs"]}
            longer = then = msgspec.structs.replace(then, settings=settings, given_by=given_by)
    named = (name for name in SAME if name != "data")  # whose fingerprints say nothing to a reader
    changed = [word for name in named for word in _changes(name, getattr(then, name), getattr(now, name))]
    if then.data != now.data:
        changed.append("inputs, labels or anchors were others")
    changed += _changes("options", *(entry.origin and entry.origin.options for entry in (then, now)))
    changed += _changes("weights of init", *(entry.init and entry.init.sha256 for entry in (then, now)))
    if then.compiled is not None and now.compiled is not None:
        changed += _changes("compiled rule", str(then.compiled), str(now.compiled))
    if changed:
        raise InputError(
            f"{folder.path} holds another run: {'; '.join(changed)}; resume it as it was begun, or name another folder"
        )
    sources = [entry.origin and entry.origin.sha256 for entry in (then, now)]
    elsewhere = [] if sources[0] == sources[1] else ["the task's file has changed"]
    for name in ("hardware", "machine", "versions"):
        entries = (msgspec.to_builtins(getattr(entry, name)) for entry in (then, now))
        kept = ({key: value for key, value in each.items() if key not in FREE} for each in entries)
        elsewhere += differences(*kept)
    if elsewhere:
        warnings.warn(
            f"the run in {folder.path} goes on under other conditions, so its bits may differ from those of a run that "
            f"was never stopped: {'; '.join(elsewhere)}",
            stacklevel=2,
        )
    if longer is not None:
        result = (
            "its learning rate rises again first, so the result differs from"
            if longer.settings.decay_to_zero
            else "the result is that of"
        )
        epochs = f"{longer.settings.epochs:,} epochs"
        warnings.warn(
            f"the finished run in {folder.path} goes on to {epochs}; {result} a run of {epochs} from the start",
            stacklevel=2,
        )
    return longer


def check_alike(fabric: Fabric, config: Config) -> None:
    """Raise where one of the processes that train together would train on something else than the first one."""
    if fabric.world_size == 1:
        return
    found = json.loads(config.to_bytes())
    origin = found.get("origin") or {}
    mine = {name: found.get(name) for name in SAME}
    mine |= {"options": origin.get("options"), "sha256 of the task's file": origin.get("sha256")}
    theirs = fabric.broadcast(mine)
    changed = [word for name in mine for word in _changes(name, theirs[name], mine[name])]
    other = InputError(
        f"process {fabric.global_rank} on {socket.gethostname()} would train on something else than process 0: "
        f"{'; '.join(changed)}; give all hosts the same files and options"
    )
    agreed(fabric, other if changed else None)


def _changes(name: str, then: Any, now: Any) -> list[str]:
    then, now = (msgspec.to_builtins(value) for value in (then, now))
    if isinstance(then, dict) and isinstance(now, dict):
        return differences(then, now)
    return differences({name: then}, {name: now})


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


def fingerprint(tensors: Iterable[Inputs]) -> str:
    """One sha256 for the shapes, types and bytes of tensors; of lazy inputs, for those of some of them."""
    found = hashlib.sha256()
    for given in tensors:
        tensor = given
        if isinstance(given, LazyInputs):
            found.update(f"{len(given)} of which ".encode())
            tensor = given.sample()
        assert isinstance(tensor, Tensor)
        found.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
        plain = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor  # which numpy does not have
        found.update(plain.detach().contiguous().cpu().numpy().data)
    return found.hexdigest()
