"""`softpnet tasks` and `softpnet methods`"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from softpnet import methods, tasks
from softpnet.terminal import say


@dataclass(frozen=True)
class Tasks:
    """List the built-in tasks."""

    def run(self) -> int:
        _show(tasks)
        say("\nYour own: a Python file that defines `task`, as in `softpnet train my_rule.py`.")
        return 0


@dataclass(frozen=True)
class Methods:
    """List the ways to train."""

    def run(self) -> int:
        _show(methods)
        return 0


def _show(folder: ModuleType) -> None:
    width = max(map(len, folder.names()))
    for name in folder.names():
        say(f"{name:{width}}  {folder.summary(name)}")
