"""Shared by all tests: one thread, so that timings and bits do not depend on the machine's load."""

import contextlib
import dataclasses
import fcntl
import functools
import importlib.metadata
import io
import os
import signal
import socket
import struct
import sys
import threading

import pytest
import torch
from PIL import Image

from softpnet.cli.main import main
from softpnet.experiments.engines import local
from softpnet.rules.compile import Compilation
from softpnet.storage import digest
from softpnet.training.folder import RunFolder

os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# lightning-fabric looks through all installed packages for each training; it takes this name when it is first imported
once = functools.cache(importlib.metadata.entry_points)
pytest.MonkeyPatch().setattr(importlib.metadata, "entry_points", once)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def signals_work():
    """A shell has what it starts in the background ignore SIGINT, and nohup SIGHUP; so would what tests start."""
    found = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in found.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def processes_can_talk():
    """`unshare --net` leaves a machine's line to itself down, which processes that train together talk over."""
    get_flags, set_flags, up, request = 0x8913, 0x8914, 1, "16sh22x"  # of Linux' ioctls for network interfaces
    with contextlib.suppress(OSError), socket.socket() as line:
        _, flags = struct.unpack(request, fcntl.ioctl(line, get_flags, struct.pack(request, b"lo", 0)))
        if not flags & up:
            fcntl.ioctl(line, set_flags, struct.pack(request, b"lo", flags | up))


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def write_signs():
    """Write stand-ins for GTSRB's files: of each class so many tracks of two frames, 9x9, in a colour of their own."""

    def write(folder, tracks):
        for number, count in tracks.items():
            home = folder / "Final_Training" / "Images" / f"{number:05}"
            home.mkdir(parents=True)
            lines = ["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"]
            for name, colour in (
                (f"{track:05}_{frame:05}.ppm", (6 * number, 10 * track, 100 * frame))
                for track in range(count)
                for frame in range(2)
            ):
                Image.new("RGB", (9, 9), colour).save(home / name)
                lines.append(f"{name};9;9;1;1;8;8;{number}")
            (home / f"GT-{number:05}.csv").write_text("\n".join(lines))

    return write


@pytest.fixture(scope="session")
def uncompiled():
    """A copy of a task whose rule counts as one that cannot be compiled, however small it is."""

    def copy(task):
        made = dataclasses.replace(task)
        made.memo["compilation"] = Compilation(None, "not compiled", "it is too large, says the test", 0.0)
        return made

    return copy


@pytest.fixture
def list_again():
    """Make the manifest of a run folder fit whatever its files hold now, as someone who forges them would."""

    def forge(folder):
        run = RunFolder(folder)
        for name, known in list(run.listed.items()):
            data = (folder / name).read_bytes()
            if digest(data) not in known:
                run.write(name, data)

    return forge


@contextlib.contextmanager
def signals_as_before():
    """What the command line does with them must reach neither the next test nor a process that is started later."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def signals_are_then_as_before():
    with signals_as_before():
        yield


@pytest.fixture
def softpnet_here(monkeypatch, capfd):
    """Run `softpnet ...` in this process, which has torch already: exit code, stdout, stderr.

    An exception that the command line does not turn into an exit fails the test.
    """

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["softpnet", *map(str, arguments)])
        capfd.readouterr()
        try:
            with signals_as_before(), pytest.raises(SystemExit) as left:
                main()
        except KeyboardInterrupt:
            # Let through, it would end the whole test run.
            pytest.fail("KeyboardInterrupt left the command line")
        return (left.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def runs_here(monkeypatch):
    """The runs that `reproduce` and `compare` start, one after the other in this process, which has torch already."""
    one_at_a_time = threading.Lock()

    def run(self, command, folder=None):
        said = io.StringIO()
        with one_at_a_time, monkeypatch.context() as patch, contextlib.redirect_stderr(said):
            patch.setattr(sys, "argv", ["softpnet", *command, *([] if folder is None else ["--out", str(folder)])])
            patch.setattr(signal, "signal", lambda *given: None)  # which only the main thread may set
            with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as left:
                main()
        return left.value.code or 0, said.getvalue()

    monkeypatch.setattr(local.Engine, "run", run)
