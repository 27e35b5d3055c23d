"""What is done on a node of a cluster: a look at it, and a run in a process of its own.

It is sent to the node as it is, which may lack softpnet or have another one: all of that is imported inside functions.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softpnet.experiments.cluster.parcel import Parcel

Exchange = Callable[["Parcel | None"], tuple[bool, bool]]
"""Hands a parcel over; whether to stop, and whether there is room for a next one."""
LOOK_S = 1.0
"""Between two looks at what the run has written."""
WITH_ITS_PARENT = (
    "import ctypes, os, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 9)\n"  # PR_SET_PDEATHSIG, SIGKILL
    "if os.getppid() != int(sys.argv[1]): sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""A program that becomes another one, which ends when the process that started it does, however that ends."""


@dataclass(frozen=True)
class Order:
    """A run, as a node gets it."""

    command: list[str]
    folder: str | None
    """Where it lies at home; None where it writes below the records by itself."""
    token: tuple[str, str]
    """A file in the folder of all records at home, and what is in it: who reads the same sees the same disk."""
    home: str
    """The working folder."""
    files: dict[str, dict[str, bytes]]
    """For each own file that the command names: the Python files of its folder."""
    versions: dict[str, str]
    variables: dict[str, str]
    parcel: Parcel | None
    """The run as far as it has come, where a node may need it."""


@dataclass(frozen=True)
class Outcome:
    node: str
    """Its name in the cluster."""
    code: int = 0
    said: str = ""
    unfit: str = ""
    """Why no run can be made on this node, where that is so; another one may do."""
    parcel: Parcel | None = None
    """What home has not yet of the run, where that does not see the folder."""


def versions() -> dict[str, str]:
    """What a run's bits depend on, by this node's own softpnet; the kernel does not count."""
    try:
        from softpnet.training import environment
    except ImportError:
        return {"softpnet": "not installed"}
    return {name: value for name, value in environment.versions().items() if name != "platform"}


def shares(token: tuple[str, str]) -> bool:
    """Whether this node sees the disk of home."""
    try:
        return Path(token[0]).read_text() == token[1]
    except (OSError, ValueError):
        return False


def look(token: tuple[str, str]) -> dict[str, Any]:
    """What home must know of a node before it has anything run there."""
    return {"host": identity()[1], "versions": versions(), "shares": shares(token)}


def identity() -> tuple[str, str]:
    """This node's name in the cluster, and what people call it."""
    ray = importlib.import_module("ray")
    return ray.get_runtime_context().get_node_id(), f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"


def differing(host: str, there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """In one sentence how the versions of a node differ; empty where they do not."""
    unlike = [f"{name} {there.get(name)!r}, here {here[name]!r}" for name in here if there.get(name) != here[name]]
    return f"node {host} has {'; '.join(unlike)}; install the same versions on both" if unlike else ""


class Mailbox:
    """An actor beside the head that runs and home talk through; of each run it holds one parcel at most."""

    def __init__(self) -> None:
        self.parcels: dict[str, Parcel] = {}
        self.begun: set[str] = set()
        self.stopping = False

    def exchange(self, run: str, parcel: Parcel | None) -> tuple[bool, bool]:
        """For a run: leave a parcel; whether to stop, and whether there is room for a next one."""
        self.begun.add(run)
        if parcel is not None:
            self.parcels[run] = parcel
        return self.stopping, run not in self.parcels

    def take(self, stop: bool) -> tuple[dict[str, Parcel], set[str]]:
        """For home: all parcels, and the runs that have begun."""
        self.stopping = stop
        taken, self.parcels = self.parcels, {}
        return taken, self.begun


def task(order: Order, mailbox: Any, run: str) -> Outcome:
    """`work`, as Ray calls it."""
    ray = importlib.import_module("ray")
    return work(order, lambda parcel: ray.get(mailbox.exchange.remote(run, parcel)))


def work(order: Order, exchange: Exchange) -> Outcome:
    """Make the run, from where it is, and send home what it writes if home cannot see it."""
    name, host = identity()
    differs = differing(host, versions(), order.versions)
    if differs:
        return Outcome(name, unfit=differs)
    full = os.strerror(errno.ENOSPC)
    shared = shares(order.token)
    if order.folder is None and not shared:
        where = Path(order.token[0]).parent
        return Outcome(name, unfit=f"node {host} does not see {where}, which it needs; put it on a disk that all share")
    try:
        with tempfile.TemporaryDirectory(prefix="softpnet-", ignore_cleanup_errors=True) as scratch:
            place, unread = _place(order, Path(scratch, "code"))
            if unread:
                return Outcome(name, unfit=f"node {host} cannot read {unread}")
            folder = Path(order.folder) if shared and order.folder is not None else Path(scratch, "run")
            code, said, parcel = _make(order, place, folder, None if shared else order.parcel, shared, exchange)
    except OSError as error:
        return Outcome(name, unfit=f"node {host} cannot run anything: {error.strerror or error}")
    if code != 0 and not shared and full in said:
        return Outcome(name, unfit=f"node {host} cannot run anything: {full}")
    return Outcome(name, code, said, parcel=parcel)


def _place(order: Order, code: Path) -> tuple[Path, str]:
    """A folder in which the files that the command names are what they are at home, and what cannot be had there."""
    home = Path(order.home)
    unlike = [
        file
        for file, beside in order.files.items()
        if not all(_same((home / file).with_name(name), content) for name, content in beside.items())
    ]
    if home.is_dir() and not unlike:
        return home, ""
    code.mkdir(parents=True)
    for file, beside in order.files.items():
        relative = Path(os.path.normpath(file))
        if relative.is_absolute() or relative.parts[0] == os.pardir:
            if file in unlike:
                return code, f"{file}; put it on a disk that all nodes see, or below the folder you start in"
            continue
        (code / relative).parent.mkdir(parents=True, exist_ok=True)
        for name, content in beside.items():
            (code / relative).with_name(name).write_bytes(content)
    return code, ""


def _same(path: Path, content: bytes) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(content).digest()
    except OSError:
        return False


def _make(
    order: Order, place: Path, folder: Path, begun: Parcel | None, shared: bool, exchange: Exchange
) -> tuple[int, str, Parcel | None]:
    """The run's exit code and errors, and all of it where home cannot see it."""
    from softpnet.errors import InputError
    from softpnet.experiments.cluster.parcel import pack, unpack

    sent: dict[str, str] = {}
    if begun is not None:
        unpack(begun, folder)
        sent = begun.listed
    seen, free, stopped = _manifest(folder), True, False
    with _started(order, place, folder) as (process, said):
        while process.poll() is None:
            now, parcel = _manifest(folder), None
            if not shared and free and now != seen:
                with contextlib.suppress(InputError):  # a file is being replaced: next time
                    parcel = pack(folder, sent)
                    seen, sent = now, parcel.listed
            stop, free = exchange(parcel)
            if stop and not stopped:
                stopped = True
                process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
        said.seek(0)
        error = said.read()
    # Whole: what was sent last may still be on its way, and the end may overtake it.
    return process.returncode, error, pack(folder) if not shared and folder.is_dir() else None


@contextlib.contextmanager
def _started(order: Order, place: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """The process of the run, and the file that it writes its errors to; it does not outlive this."""
    run = [sys.executable, "-m", "softpnet", *order.command]
    run += [] if order.folder is None else ["--out", str(folder)]
    from softpnet.training.launcher import without_launcher

    variables = without_launcher(os.environ) | order.variables | {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", WITH_ITS_PARENT, str(os.getpid()), *run],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=True,
            env=variables,
        )
        try:
            yield process, said
        finally:
            process.kill()
            process.wait()


def _manifest(folder: Path) -> str:
    """What changes whenever a file of the run does."""
    try:
        return (folder / "manifest.sha256").read_text()
    except OSError:
        return ""
