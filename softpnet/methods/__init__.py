"""Ways to train on a task: one file each, found by listing this folder. A file defines `Method`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from softpnet import listing
from softpnet.errors import InputError

if TYPE_CHECKING:
    from softpnet.methods.base import Method

SHARED = ("base", "classified", "grounded", "prototypical")
"""Files that hold parts of several methods."""


def names() -> list[str]:
    return listing.names(__path__[0], without=SHARED)


def summary(name: str) -> str:
    return listing.summary(__path__[0], name)


def find(name: str) -> type[Method]:
    if name not in names():
        raise InputError(f"unknown method {name!r}; the methods are {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}").Method
