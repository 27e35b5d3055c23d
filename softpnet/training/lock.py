"""One writer per run folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from softpnet.errors import InputError, StorageError

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
    handle = _locked(path, wait)
    try:
        _sign(handle, path)
        yield
    finally:
        # Only our own: someone may have removed it by hand, and another process made a new one.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                path.unlink()
        os.close(handle)


def holder(folder: Path) -> str | None:
    """Who owns the folder at the moment, in words; None if nobody does. Nothing is made or changed by asking."""
    import fcntl

    path = folder / LOCK
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _signature(path)
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
            if (folder / LOCK).read_bytes() == by:
                return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


def _sign(handle: int, path: Path) -> None:
    """Write our name into the lock."""
    try:
        os.truncate(handle, 0)
        os.pwrite(handle, signature(), 0)
        os.fsync(handle)  # processes on other hosts look at it
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror}") from error


def _locked(path: Path, wait: bool) -> int:
    """A handle of the lock file at `path`, locked by this process."""
    import fcntl

    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise InputError(f"{path} cannot be made: {error.strerror}; name another folder") from error
        taken = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.pread(handle, len(SIGNED), 0) not in (SIGNED, b""):
                raise InputError(f"{path} is not the lock of a run; move it, or name another folder")
            taken = os.path.samestat(os.fstat(handle), os.stat(path))
            if taken:
                return handle
        except BlockingIOError:
            raise InUseError(path.parent, _signature(path)) from None
        except FileNotFoundError:
            taken = False  # its last holder removed it in between, as where it is another file by now
        except OSError as error:
            raise InputError(
                f"{path.parent} cannot be locked: {error.strerror}; name a folder on another disk"
            ) from error
        finally:
            if not taken:
                os.close(handle)


def _signature(path: Path) -> str:
    """Who holds the lock, by its own words, which it writes right after taking it."""
    until = time.monotonic() + NAMED_WITHIN_S
    while time.monotonic() < until:
        try:
            holder = json.loads(path.read_text())
            return f"process {int(holder['process'])} on {holder['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            time.sleep(0.02)
    return "another process"
