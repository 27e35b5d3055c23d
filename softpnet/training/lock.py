"""One writer per run folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout, has_fcntl, lock_descriptor

from softpnet.errors import InputError, SoftPNetError, StorageError
from softpnet.storage import NO_FOLLOW

LOCK = "lock"
SIGNED = b'{"process": '
NAMED_WITHIN_S = 2.0  # from taking the lock to having written one's name into it
SEEN_WITHIN_S = 10.0  # from then on to other hosts seeing it


@contextmanager
def hold(folder: Path, name: str = LOCK, wait: bool = False) -> Iterator[None]:
    """Own the folder, or what the name stands for in it, while inside; whoever else asks is told process id and host,
    or waits for its turn, as is right where it takes moments.

    The system gives the lock up when its holder ends, however it ends, so a crash leaves nothing to clear by hand.
    """
    path = folder / name
    # Where a system has no locks of its own, filelock writes a file of its own kind, which names no holder to others.
    signed: dict[str, Any] = {"on_acquired": partial(_sign, path)} if has_fcntl or os.name == "nt" else {}
    lock = FileLock(path, timeout=-1 if wait else 0, thread_local=False, **signed)
    try:
        lock.acquire()
    except Timeout:
        raise InUseError(folder, _signature(path)) from None
    except SoftPNetError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be locked: {error.strerror or error}; name another folder") from error
    try:
        yield
    finally:
        # Only our own: someone may have removed it by hand, and another process made a new one.
        with contextlib.suppress(OSError):
            if _written(path) == signature():
                path.unlink()
        lock.release()


def holder(folder: Path) -> str | None:
    """Who owns the folder at the moment, in words; None if nobody does. Nothing is made or changed by asking."""
    path = folder / LOCK
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | NO_FOLLOW)
        try:
            return None if lock_descriptor(handle, blocking=False) else _signature(path)
        finally:
            os.close(handle)
    return None


class InUseError(InputError):
    """Another process owns the folder."""

    def __init__(self, folder: Path, holder: str) -> None:
        super().__init__(f"{folder} is in use by {holder}; wait for it or name another folder")
        self.holder = holder


def signature() -> bytes:
    """What this process writes into a lock that it holds."""
    return json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode()


def is_signed(folder: Path, by: bytes, within: float = SEEN_WITHIN_S) -> bool:
    """Whether the folder is owned by that process, as its signature says; a disk of another host may take a while to
    show it."""
    until = time.monotonic() + within
    while True:
        with contextlib.suppress(OSError):
            if _written(folder / LOCK) == by:
                return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


def _sign(path: Path, handle: int) -> None:
    """Write our name into the lock."""
    if os.read(handle, len(SIGNED)) not in (SIGNED, b""):
        raise InputError(f"{path} is not the lock of a run; move it, or name another folder")
    try:
        os.truncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, signature())
        os.fsync(handle)  # processes on other hosts look at it
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror}") from error


def _written(path: Path) -> bytes:
    """The signature in a lock. Its first byte is always the same: Windows locks that, and lets nobody else read it."""
    with path.open("rb", buffering=0) as file:
        file.seek(1)
        return SIGNED[:1] + file.read()


def _signature(path: Path) -> str:
    """Who holds the lock, by its own words, which it writes right after taking it."""
    until = time.monotonic() + NAMED_WITHIN_S
    while time.monotonic() < until:
        try:
            holder = json.loads(_written(path))
            return f"process {int(holder['process'])} on {holder['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            time.sleep(0.02)
    return "another process"
