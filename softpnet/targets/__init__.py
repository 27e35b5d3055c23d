"""From log p and labels to the soft target: one file per source, found by listing this folder; it defines `Source`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from softpnet import catalogue

if TYPE_CHECKING:
    from torch import Generator

    from softpnet.targets.source import TargetSource
    from softpnet.task.settings import Settings
    from softpnet.task.task import Task

SHARED = ("source", "walk", "weights")
"""Files that hold parts of several sources."""


def names() -> list[str]:
    return catalogue.names(__path__[0], without=SHARED)


def summary(name: str) -> str:
    return catalogue.summary(__path__[0], name)


def find(name: str | type[TargetSource]) -> type[TargetSource]:
    """A source of this folder, of a user's file, or a class as it is."""
    if isinstance(name, str) and name in names():
        return importlib.import_module(f"{__name__}.{name}").Source
    from softpnet.targets.source import TargetSource

    return catalogue.own_class("target source", name, "Source", TargetSource, names())


def make(task: Task, settings: Settings, generator: Generator) -> TargetSource:
    """The source that the settings name."""
    return find(settings.targets)(task, settings, generator)
