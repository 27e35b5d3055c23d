"""One run over two hosts, which are network namespaces of this machine with an address each: killed, cut off, full."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from softpnet.training.folder import CONFIG, MODEL
from torture.namespaces import LINE, inside, link, two_hosts
from torture.subject import PATIENCE_S, SUBJECTS, Result, Subject, outcome, strays, training, wait_for
from torture.together import STEPS, WARM_UP

SPACES = ("nsa1", "nsa2")
ADDRESSES, PORT = ("10.81.0.1", "10.81.0.2"), 29500
ENDS_WITHIN_S = 30.0
"""A process whose partner has ended must end by then."""
LOST_SAID = "processes that train together has ended"
CUT_S = 60.0
"""For so long the line between the hosts is down."""


def hosts() -> contextlib.AbstractContextManager[None]:
    return two_hosts(dict(zip(SPACES, ADDRESSES, strict=True)))


@dataclass
class Agents:
    """torchrun on each host, and what they say."""

    started: list[subprocess.Popen[str]]

    @classmethod
    def start(cls, words: Sequence[str], restarts: int = 0) -> Agents:
        """`torchrun ... -m WORDS` on both hosts, one process each."""
        return cls([_torchrun(host, words, restarts) for host in range(2)])

    def worker(self, host: int) -> int | None:
        """The id of the process that trains on that host, if it runs."""
        agent = self.started[host].pid
        with contextlib.suppress(OSError):
            found = [path.read_text().split() for path in Path(f"/proc/{agent}/task").glob("*/children")]
            return next((int(each) for ids in found for each in ids if _trains(int(each))), None)
        return None

    def ended(self) -> tuple[list[int], list[str]]:
        """Exit codes and what was said on stderr, once both have ended."""
        try:
            said = [each.communicate(timeout=PATIENCE_S)[1] for each in self.started]
        except subprocess.TimeoutExpired:
            self.kill()
            said = [each.communicate()[1] for each in self.started]
        return [each.returncode for each in self.started], said

    def kill(self) -> None:
        for host, each in enumerate(self.started):
            worker = self.worker(host)
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker or each.pid, signal.SIGKILL)
            each.kill()


def _torchrun(host: int, words: Sequence[str], restarts: int) -> subprocess.Popen[str]:
    launch = ["--nnodes", "2", "--node-rank", str(host), "--nproc-per-node", "1", "--max-restarts", str(restarts)]
    launch += ["--master-addr", ADDRESSES[0], "--master-port", str(PORT)]
    return subprocess.Popen(
        inside(SPACES[host], sys.executable, "-m", "torch.distributed.run", *launch, "-m", *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": LINE},
    )


def _trains(process: int) -> bool:
    return b"softpnet" in Path(f"/proc/{process}/cmdline").read_bytes()


def _alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _words(subject: Subject, folder: Path, *more: str) -> list[str]:
    return subject.command(folder, *more)[2:]


def same_losses(bar: float = 1e-9) -> Result:
    """EvenOdd in double precision: two processes on two hosts against one."""
    result = Result(
        f"EvenOdd on two hosts, one process each, against one process, {WARM_UP} + {STEPS} steps, double precision",
        f"the same losses to {bar:g}",
    )
    with tempfile.TemporaryDirectory() as scratch, hosts():
        codes, said = Agents.start(["torture.together", scratch]).ended()
        alone = [sys.executable, "-m", "torture.together", scratch, "alone"]
        done = subprocess.run(alone, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=PATIENCE_S)
        if any([*codes, done.returncode]):
            result.add([f"ended with {codes} and {done.returncode}: {said}"])
            return result
        one, two, whole = (json.loads(Path(scratch, f"{name}.json").read_text()) for name in ("0", "1", "alone"))
    for preset in whole:
        pairs = zip(one[preset], two[preset], whole[preset], strict=True)
        off = max(abs((a + b) / 2 - c) for a, b, c in pairs)
        fine = off <= bar and len(whole[preset]) == WARM_UP + STEPS
        result.notes[f"largest difference, preset {preset}"] = f"{off:.1e}"
        result.add([] if fine else [f"{preset}: losses differ by {off}"])
    return result


def _undisturbed(subject: Subject, scratch: str) -> tuple[float, dict[str, Any]]:
    """How long two hosts train, and what comes of it."""
    whole = Path(scratch, "whole")
    codes, said = Agents.start(_words(subject, whole)).ended()
    if any(codes):
        raise RuntimeError(f"the undisturbed run on two hosts failed: {said}")
    return time.time() - (whole / CONFIG).stat().st_mtime, outcome(whole)


def _differs(folder: Path, expected: dict[str, Any], what: str) -> list[str]:
    found = outcome(folder)
    wrong = [f"{what}: {name} differs" for name in expected if found[name] != expected[name]]
    return wrong + [f"{what}: {name} is left over" for name in strays(folder)]


def kills(count: int = 20, subject: Subject = SUBJECTS[0], seed: int = 4) -> Result:
    """kill -9 of one of two processes; torchrun starts both again."""
    result = Result(
        "two hosts, kill -9 of one process at random moments, torchrun --max-restarts",
        f"the other ends within {ENDS_WITHIN_S:.0f} s with a sentence, both start again, the same bits as undisturbed",
    )
    slowest, without, dice = 0.0, Counter[str](), random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch, hosts():
        seconds, expected = _undisturbed(subject, scratch)
        while result.cases < count:
            folder, victim = Path(scratch, f"run-{result.cases}"), dice.randrange(2)
            agents = Agents.start(_words(subject, folder), restarts=3)
            wait_for(training(folder), agents.started[0])
            time.sleep(moment := dice.uniform(0, 0.8 * seconds))
            workers = [found for host in range(2) if (found := agents.worker(host)) is not None]
            if len(workers) < 2 and seconds > 1e-3:  # it had ended before
                agents.ended()
                shutil.rmtree(folder)
                seconds /= 2
                continue
            os.kill(workers[victim], signal.SIGKILL)
            trained = (folder / MODEL).exists()
            began, other = time.monotonic(), workers[1 - victim]
            while _alive(other) and time.monotonic() - began < 2 * ENDS_WITHIN_S:
                time.sleep(0.02)
            # Once it is trained, the first process judges the model, and needs the other no more.
            took = 0.0 if trained else time.monotonic() - began
            slowest = max(slowest, took)
            codes, said = agents.ended()
            what = f"process {victim} killed after {moment:.2f} s"
            complaints = [f"{what}: the other ended after {took:.1f} s"] if took > ENDS_WITHIN_S else []
            complaints += [f"{what}: ended with {codes}: {said[0][-400:]} {said[1][-400:]}"] if any(codes) else []
            # Trained, the first one judges and needs none; and the other may have ended, well, by itself.
            reason = "killed once it was trained" if trained else ""
            if LOST_SAID not in said[1 - victim]:
                without[reason] += 1
                complaints += [] if reason else [f"{what}: the other said {said[1 - victim][-400:]!r}"]
            result.add(complaints or _differs(folder, expected, what))
            shutil.rmtree(folder, ignore_errors=True)
    result.notes = {"the other ended after, at most": f"{slowest:.1f} s"}
    result.notes |= {f"without a sentence, {reason}": count for reason, count in without.items() if reason}
    return result


def cut_line(subject: Subject = SUBJECTS[0]) -> Result:
    """The line between the hosts is down for a minute: shorter than processes wait, and longer."""
    result = Result(
        f"two hosts, the line between them down for {CUT_S:.0f} s",
        "goes on by itself to the same bits; or, if they are told to wait shorter, ends with a sentence and resumes",
    )
    with tempfile.TemporaryDirectory() as scratch, hosts():
        _, expected = _undisturbed(subject, scratch)
        for wait, name in ((300, "patient"), (15, "impatient")):
            folder = Path(scratch, name)
            agents = Agents.start(_words(subject, folder, "--wait-seconds", str(wait)))
            wait_for(partial(_has_checkpoint, folder), agents.started[0])
            link(SPACES[1], up=False)
            began = time.monotonic()
            while time.monotonic() - began < CUT_S and any(each.poll() is None for each in agents.started):
                time.sleep(0.1)
            time.sleep(max(0.0, CUT_S - (time.monotonic() - began)))
            link(SPACES[1], up=True)
            codes, said = agents.ended()
            took = time.monotonic() - began
            result.notes[f"ended, told to wait {wait} s"] = f"{took:.0f} s after the cut"
            what, fine = f"told to wait {wait} s", any(codes) == (wait < CUT_S)
            complaints = [] if fine else [f"{what}: ended with {codes}: {said[0][-600:]} {said[1][-600:]}"]
            if any(codes):
                silent = [each for each in said if "softpnet: one of the 2 processes that train together" not in each]
                complaints += [f"{what}: said {each[-600:]!r}" for each in silent]
                codes, said = Agents.start(_words(subject, folder, "--resume")).ended()
                complaints += [f"{what}: resuming ended with {codes}: {said}"] if any(codes) else []
            result.add(complaints or _differs(folder, expected, what))
    return result


def full_disk(count: int = 3, subject: Subject = SUBJECTS[0], seed: int = 5, size: int = 16) -> Result:
    """The disk of the run, of so many megabytes, is full from a random moment on."""
    result = Result(
        "two hosts, the disk full from random moments on",
        f"both end within {ENDS_WITHIN_S:.0f} s with a sentence, and resume to the same bits once there is room",
    )
    dice, slowest = random.Random(seed), 0.0
    with tempfile.TemporaryDirectory() as scratch, hosts():
        seconds, expected = _undisturbed(subject, scratch)
        while result.cases < count:
            disk = Path(scratch, f"disk-{result.cases}")
            disk.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(disk)], check=True)
            try:
                agents = Agents.start(_words(subject, disk / "run"))
                wait_for(training(disk / "run"), agents.started[0])
                time.sleep(dice.uniform(0, seconds / 2))
                _fill(disk / "filler")
                began = time.monotonic()
                codes, said = agents.ended()
                took = time.monotonic() - began
                if not any(codes) and seconds > 1e-3:  # the run was over before
                    seconds /= 2
                    continue
                slowest = max(slowest, took)
                told = any("softpnet: " in each and "could not be written" in each for each in said)
                complaints = [] if all(codes) and told and took <= ENDS_WITHIN_S else [f"{codes}, {took:.0f} s: {said}"]
                (disk / "filler").unlink()
                codes, said = Agents.start(_words(subject, disk / "run", "--resume")).ended()
                complaints += [f"resuming ended with {codes}: {said}"] if any(codes) else []
                result.add(complaints or _differs(disk / "run", expected, f"case {result.cases}"))
            finally:
                subprocess.run(["umount", "-l", str(disk)])
    result.notes = {"ended after, at most": f"{slowest:.1f} s"}
    return result


def _has_checkpoint(folder: Path) -> bool:
    return any(folder.glob("checkpoint-*"))


def _fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(2**12))
