"""Ways to train on a task: one file each, found by listing this folder. A file defines `Method`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from softpnet.errors import InputError

if TYPE_CHECKING:
    from softpnet.methods.base import Method


def names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base")


def find(name: str) -> type[Method]:
    if name not in names():
        raise InputError(f"unknown method {name!r}; the methods are {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}").Method
