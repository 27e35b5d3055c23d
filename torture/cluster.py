"""`compare` on a Ray cluster of two hosts, one of which is killed, cut off or full; then the records are compared."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from softpnet.experiments.sealed import read_lines, unseal
from torture import nodes, tiny
from torture.namespaces import inside, link
from torture.nodes import ADDRESS, HEAD, HOME, NODE, PORT, Nodes
from torture.subject import Result

TINY = ("--epochs", "3", "--warmup-steps", "2", "--batch-size", "8", "--episodes", "2")
COMMAND = ("compare", "tiny.py", "--methods", "softpnet", "pnet_sl", *TINY)
SEEDS, FEW = 4, 2
"""Of two methods: 8 runs where nodes are killed, 4 elsewhere."""
BOUND_S = 3600.0
"""No command may take longer, on however busy a machine."""
ATTEMPTS = 5
CUT_S = 60.0
LOST = "is lost: "
DIFFERS = ("seconds", "seconds_per_epoch", "machine")
"""Entries of a record that two equal runs do not share."""


def start(folder: Path, records: str, seeds: int, *more: str) -> subprocess.Popen[str]:
    """`compare` at home, which is the host of the head."""
    return subprocess.Popen(
        inside(HEAD, sys.executable, "-m", "softpnet", *COMMAND, "--seeds", str(seeds), "--records", records, *more),
        cwd=folder,
        env=nodes.environment(RAY_ADDRESS=f"{ADDRESS[HEAD]}:{PORT}", **{HOME: "1"}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, records: str, seeds: int, *more: str) -> str:
    """Run it to its end; what it said where it failed."""
    process = start(folder, records, seeds, *more)
    _, said = process.communicate(timeout=BOUND_S)
    return "" if process.returncode == 0 else f"exit code {process.returncode}: {said[-500:]}"


def found(folder: Path) -> dict[tuple[str, int], Any]:
    """What the records say, but for times and machine, by row and seed."""
    every: dict[tuple[str, int], Any] = {}
    for path in sorted(folder.glob("tiny/*.jsonl")):
        for line in read_lines(path):
            record = json.loads(unseal(line))
            record["curve"] = [_steady(epoch) for epoch in record["curve"]]
            every[record["row"], record["seed"]] = _steady(record)
    return every


def _steady(entries: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name not in DIFFERS}


@contextlib.contextmanager
def site(seeds: int = FEW) -> Iterator[tuple[Nodes, Path, dict[tuple[str, int], Any]]]:
    """Two hosts, a folder with the task and what `--on local` finds."""
    with tempfile.TemporaryDirectory() as scratch, nodes.two() as both:
        folder = Path(scratch)
        (folder / "tiny.py").write_text(tiny.FILE)
        chosen = sorted({seed for _, seed in _expected()})[:seeds]
        yield both, folder, {name: record for name, record in _expected().items() if name[1] in chosen}


@functools.cache
def _expected() -> dict[tuple[str, int], Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "tiny.py").write_text(tiny.FILE)
        command = [
            sys.executable,
            "-m",
            "softpnet",
            *COMMAND,
            "--seeds",
            str(SEEDS),
            "--records",
            "local",
            "--jobs",
            "4",
        ]
        here = nodes.environment()
        subprocess.run(command, cwd=folder, env=here, check=True, capture_output=True, timeout=BOUND_S)
        made = found(folder / "local")
        assert len(made) == 2 * SEEDS
        return made


def _tried(
    folder: Path, records: str, expected: Any, hurt: Callable[[subprocess.Popen[str]], bool]
) -> list[str] | None:
    """`compare` on the cluster, hurt while it runs, must end with the records of `--on local`; None where it had ended
    before it was hurt."""
    began, in_time = time.monotonic(), list[bool]()
    process = start(folder, records, len(expected) // 2, "--on", "ray")
    hand = threading.Thread(target=lambda: in_time.append(hurt(process)))
    hand.start()
    try:
        _, said = process.communicate(timeout=BOUND_S)
    finally:
        process.kill()
        hand.join()
    if in_time == [False] and process.returncode == 0:
        return None
    print(f"  {records}: {time.monotonic() - began:.0f} s, exit code {process.returncode}", flush=True)
    complaints = [] if process.returncode == 0 else [f"{records}: exit code {process.returncode}: {said[-500:]}"]
    complaints += [] if in_time else [f"{records}: what was to hurt it failed"]
    unlike = [name for name, record in expected.items() if found(folder / records).get(name) != record]
    return complaints + [f"{records}: the record of {name} differs or is missing" for name in unlike]


def _each(result: Result, count: int, once: Callable[[int, str, float], list[str] | None]) -> Result:
    """So many cases, each tried again, and hurt earlier, where it had ended before."""
    for at in range(count):
        tries = (once(at, f"case{at}-{attempt}", 0.5**attempt) for attempt in range(ATTEMPTS))
        too_late = [f"case {at}: {ATTEMPTS} times it ended before it could be hurt"]
        result.add(next((complaints for complaints in tries if complaints is not None), too_late))
    return result


def _once_begun(folder: Path, records: str, process: subprocess.Popen[str]) -> bool:
    """Wait until the first run is under way."""
    until = time.monotonic() + BOUND_S
    while process.poll() is None and time.monotonic() < until:
        if any((folder / records).glob("tiny/unfinished/*")):
            return True
        time.sleep(0.05)
    return False


def node_kills(count: int = 10, seed: int = 3) -> Result:
    """kill -9 of a whole node; every second time it does not see the records, and runs there are sent home."""
    result = Result(
        "`compare`, 8 runs, 2-node Ray cluster, kill -9 of a node at random moments",
        "all complete, the records of `--on local`",
    )
    dice, took = random.Random(seed), [100.0]
    with site(SEEDS) as (both, folder, expected):

        def once(at: int, records: str, share: float) -> list[str] | None:
            # Runs take about so much of the whole; the rest is around them.
            moment = dice.uniform(0, 0.5) * took[-1] * share
            (folder / records).mkdir()
            both.again(apart=folder if at % 2 else None)

            def hurt(process: subprocess.Popen[str]) -> bool:
                _once_begun(folder, records, process)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(moment)
                in_time = process.poll() is None
                both.kill(NODE)
                return in_time

            began = time.monotonic()
            complaints = _tried(folder, records, expected, hurt)
            took.append(time.monotonic() - began)
            return complaints

        _each(result, count, once)
    result.notes = {"without a shared disk": count // 2}
    return result


def worker_kills(count: int = 2, seed: int = 4) -> Result:
    """kill -9 of Ray's process that a run is a child of."""
    result = Result("the same with 4 runs, kill -9 of a worker", "all complete, the records of `--on local`")
    dice = random.Random(seed)
    with site() as (both, folder, expected):
        both.again()

        def once(at: int, records: str, share: float) -> list[str] | None:
            moment = dice.uniform(0, 10) * share

            def hurt(process: subprocess.Popen[str]) -> bool:
                _once_begun(folder, records, process)
                time.sleep(moment)
                there = list[int]()
                while process.poll() is None and not there:
                    there = nodes.workers(NODE)
                    time.sleep(0.05)
                for pid in there:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return bool(there)

            return _tried(folder, records, expected, hurt)

        return _each(result, count, once)


def head_kills(count: int = 2, seed: int = 5) -> Result:
    """kill -9 of the head: a sentence in bounded time, and then the command goes on, locally or on a new cluster."""
    result = Result(
        "the same with 4 runs, kill -9 of the head", "one sentence within 2 minutes, then `--on local` or a new one"
    )
    dice, slowest = random.Random(seed), 0.0
    with site() as (both, folder, expected):
        for at in range(count):
            records = f"head{at}"
            both.again(head=True)
            process = start(folder, records, FEW, "--on", "ray")
            _once_begun(folder, records, process)
            time.sleep(dice.uniform(5, 30))
            both.kill(HEAD)
            both.kill(NODE)
            killed = time.monotonic()
            _, said = process.communicate(timeout=BOUND_S)
            slowest = max(slowest, time.monotonic() - killed)
            lines = [line for line in said.splitlines() if LOST in line]
            fine = process.returncode == 2 and len(lines) == 1 and "Traceback" not in said
            complaints = [] if fine else [f"{records}: exit code {process.returncode}: {said[-500:]}"]
            if at % 2:
                both.again(head=True)
            failed = finish(folder, records, FEW, "--on", "ray" if at % 2 else "local")
            complaints += [f"{records}, again: {failed}"] if failed else []
            made = found(folder / records)
            complaints += [
                f"{records}: the record of {name} differs" for name in expected if made.get(name) != expected[name]
            ]
            result.add(complaints)
    result.notes = {"longest until the sentence, s": round(slowest)}
    return result


def cut_link(count: int = 2) -> Result:
    """The line to the node is down for a minute; every second time it does not see the records."""
    result = Result(
        "the same with 4 runs, the link to a node down for a minute", "all complete, the records of `--on local`"
    )
    with site() as (both, folder, expected):

        def once(at: int, records: str, share: float) -> list[str] | None:
            (folder / records).mkdir()
            both.again(apart=folder if at % 2 else None)

            def hurt(process: subprocess.Popen[str]) -> bool:
                _once_begun(folder, records, process)
                time.sleep(4 * share)
                in_time = process.poll() is None
                link(NODE, up=False)
                time.sleep(CUT_S)
                link(NODE, up=True)
                return in_time

            return _tried(folder, records, expected, hurt)

        return _each(result, count, once)


def full_node(count: int = 1) -> Result:
    """A node without space for a run: its runs are made on the other one."""
    result = Result("the same with 4 runs, the disk of a node is full", "all complete, the records of `--on local`")
    with site() as (both, folder, expected):

        def once(at: int, records: str, share: float) -> list[str] | None:
            (folder / records).mkdir()
            both.again(apart=folder, full=True)
            return _tried(folder, records, expected, lambda process: True)

        return _each(result, count, once)
