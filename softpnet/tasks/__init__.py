"""Tasks: one file each, found by listing this folder, or a user's own file. A file defines `task`."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from softpnet import catalogue
from softpnet.errors import InputError, SoftPNetError, TaskError
from softpnet.task.options import typed_options

if TYPE_CHECKING:
    from softpnet.task.task import Task


def names() -> list[str]:
    return catalogue.names(__path__[0])


def summary(name: str) -> str:
    return catalogue.summary(__path__[0], name)


def load(name: str, options: Mapping[str, Any] | None = None) -> Task:
    """A built-in task by name, or the `task` of a Python file; `task` is a Task or a function that makes one."""
    from softpnet.task.task import Task

    given = dict(options or {})
    module = _module(name)
    if not hasattr(module, "task"):
        raise TaskError(f"{name} does not define `task`; write `task = softpnet.Task(space=..., rule=...)` in it")
    made = module.task
    if callable(made) and not isinstance(made, Task):
        made = _make(name, made, typed_options(name, made, given))
    elif given:
        raise InputError(f"task {name} takes no options, but {', '.join(given)} was given")
    if not isinstance(made, Task):
        raise TaskError(
            f"`task` in {name} is {type(made).__name__}, expected a softpnet.Task or a function that makes one"
        )
    return dataclasses.replace(made, origin={**_source(name), "options": given})


def of_run(name: str, found: Mapping[str, Any] | None, folder: Path, origin: str | None) -> Task:
    """The task that the run in a folder was made with: a built-in one, or that of the file `origin`.

    `name` is the task's and `found` its origin, as the run's configuration has them.
    """
    known = found or {"task": None, "options": {}}
    if origin is None and known["task"] not in names():
        raise InputError(
            f"the run in {folder} was made with a task of your own ({name!r}); name it again, since "
            "code is never taken from a run folder: --task FILE, or Learner.load(folder, task=task)"
        )
    return load(origin or known["task"], known["options"])


def _source(name: str) -> dict[str, str]:
    """Where a task comes from: its name, or its file and what that held."""
    if name in names():
        return {"task": name}
    path = Path(name).resolve()  # a run is read from other folders too
    return {"task": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _make(name: str, make: Any, options: Mapping[str, Any]) -> Any:
    try:
        return make(**options)
    except SoftPNetError:
        raise
    except Exception as error:
        raise TaskError(f"`task` in {name} failed: {type(error).__name__}: {error}") from error


def _module(name: str) -> ModuleType:
    if name in names():
        return importlib.import_module(f"{__name__}.{name}")
    return catalogue.own_file("task", name, names())
