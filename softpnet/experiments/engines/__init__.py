"""Where runs are run: one file each, found by listing this folder. A file defines `Engine`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from softpnet import catalogue
from softpnet.errors import InputError

if TYPE_CHECKING:
    from softpnet.experiments.engines.base import Engine

SHARED = ("base",)
LOCAL = "local"


def names() -> list[str]:
    return catalogue.names(__path__[0], without=SHARED)


def find(on: str) -> tuple[type[Engine], str]:
    """The engine that `NAME` or `NAME://ADDRESS` stands for, and the address; nothing is started."""
    name, slashes, address = on.partition("://")
    if name not in names() or (slashes and not address):
        raise InputError(f"--on is {on!r}, expected {' or '.join(names())}, or ray://HOST:PORT")
    return importlib.import_module(f"{__name__}.{name}").Engine, address


@contextmanager
def opened(on: str, records: Path, device: str = "cpu") -> Iterator[Engine]:
    """The engine, ready to run; at the end, what still runs is asked to stop, and waited for."""
    kind, address = find(on)
    engine = kind(address, records, device)
    try:
        yield engine
    finally:
        engine.stop()
        engine.close()
