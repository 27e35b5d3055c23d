"""Ways to train on a task: one file each, found by listing this folder and its ablations. A file defines `Method`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from softpnet import catalogue
from softpnet.errors import InputError

if TYPE_CHECKING:
    from softpnet.methods.base import Method

SHARED = ("ablations", "base", "losses", "schedules")
"""What holds parts of several methods."""

ABLATIONS = Path(__path__[0], "ablations")


def names() -> list[str]:
    return sorted([*catalogue.names(__path__[0], without=SHARED), *catalogue.names(ABLATIONS)])


def summary(name: str) -> str:
    return catalogue.summary(_folder(name), name)


def find(name: str | type[Method]) -> type[Method]:
    """A method of this folder, of a user's file, or a class as it is."""
    if isinstance(name, str) and name in names():
        package = f"{__name__}.ablations" if _folder(name) == ABLATIONS else __name__
        return importlib.import_module(f"{package}.{name}").Method
    from softpnet.methods.base import Method

    return catalogue.own_class("method", name, "Method", Method, names())


def of_run(name: str, folder: Path, given: str | type[Method] | None) -> str | type[Method]:
    """The method that the run in a folder was made with: a built-in one, or what is given."""
    if given is None and name not in names():
        raise InputError(
            f"the run in {folder} was made with a method of your own ({name!r}); name it again, since code is never "
            "taken from a run folder: --method FILE, or Learner.load(folder, method=...)"
        )
    return given or name


def _folder(name: str) -> Path:
    return ABLATIONS if name in catalogue.names(ABLATIONS) else Path(__path__[0])
