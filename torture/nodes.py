"""Two hosts on this machine, each a network namespace with an address of its own, and a Ray cluster over them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torture.namespaces import inside, two_hosts

HEAD, NODE = "nsb1", "nsb2"
ADDRESS = {HEAD: "10.82.0.1", NODE: "10.82.0.2"}
PORT, CLIENT = 6379, 10001
HOME = "TORTURE_HOME"
"""Set for the command that is tried, and no process of Ray's."""
JOINED_S = 300.0
SMALL_DISK = "64k"
CORES = 2


@dataclass(frozen=True)
class Nodes:
    scratch: Path

    def start(self, name: str, apart: Path | None = None, full: bool = False) -> None:
        """Begin Ray on a host; `apart` is a folder in whose place it sees an empty one, `full` leaves it no space for
        files of its own."""
        temporary = self.scratch / f"{name}-tmp"
        temporary.mkdir(exist_ok=True)
        mounts = [f"mount -t tmpfs -o size={SMALL_DISK} none {temporary}"] if full else []
        mounts += [f"mount -t tmpfs none {apart}"] if apart else []
        head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        join = head if name == HEAD else [f"--address={ADDRESS[HEAD]}:{PORT}"]
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", *join, f"--node-ip-address={ADDRESS[name]}"]
        start += [f"--num-cpus={CORES}", "--object-store-memory=80000000", "--disable-usage-stats"]
        script = " && ".join([*mounts, 'exec "$@"'])
        done = subprocess.run(
            inside(name, "sh", "-c", script, "sh", *start),
            env=environment(RAY_TMPDIR=str(self.scratch), TMPDIR=str(temporary)),
            capture_output=True,
            text=True,
            timeout=JOINED_S,
            cwd=self.scratch,
        )
        if done.returncode != 0:
            raise RuntimeError(f"Ray did not start on {name}: {done.stdout[-500:]} {done.stderr[-500:]}")

    def kill(self, name: str) -> None:
        """kill -9 of all that is Ray's there, until nothing of it is left."""
        while pids := rays(name):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def again(self, apart: Path | None = None, full: bool = False, head: bool = False) -> None:
        """A whole cluster, whatever is left of it; the head is begun again if asked for, or if it is gone."""
        self.kill(NODE)
        if head or not rays(HEAD):
            self.kill(HEAD)
            self.start(HEAD)
        self.start(NODE, apart, full)


def environment(**more: str) -> dict[str, str]:
    """Of a process that must find this package, wherever it is started."""
    paths = [str(Path(__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    open_to_all = {"RAY_AUTH_MODE": "disabled"}  # nobody else reaches these hosts
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | open_to_all | more


def rays(name: str) -> list[int]:
    """Processes of a host, but for those of the command that is tried and of the runs' own."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid in listed.split() if not _is_home(pid)]


def workers(name: str) -> list[int]:
    """Ray's processes that are at work on a run there."""
    return [pid for pid in rays(name) if "ray::task" in _read(str(pid), "cmdline")]


def _is_home(pid: str) -> bool:
    environment = _read(pid, "environ")
    return not environment or f"{HOME}=" in environment  # one that is ending has none


def _read(pid: str, what: str) -> str:
    try:
        return Path("/proc", pid, what).read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@contextlib.contextmanager
def two() -> Iterator[Nodes]:
    """The hosts, without Ray yet; nothing of them is left at the end."""
    with two_hosts(ADDRESS), tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        nodes = Nodes(Path(scratch))
        try:
            yield nodes
        finally:
            for name in (NODE, HEAD):
                nodes.kill(name)
