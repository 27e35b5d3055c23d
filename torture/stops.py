"""Runs that are killed, asked to stop, or cannot write, at random moments, and go on."""

from __future__ import annotations

import contextlib
import functools
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from softpnet.learner import Learner
from softpnet.training.folder import CHECKPOINT, CONFIG, MANIFEST, RunFolder
from torture.subject import SUBJECTS, Result, Subject, one_line, outcome, strays, training, wait_for

Case = Callable[[Subject, Path, float, dict[str, Any], random.Random], list[str] | None]
"""Complaints, or None where the run had ended before it could be hurt."""
ATTEMPTS = 12
"""So often a run may end too early; each time it is hurt earlier."""


def _each(result: Result, case: Case, subjects: Sequence[Subject], count: int, jobs: int, seed: int) -> Result:
    """Run the case `count` times per subject, `jobs` side by side, against an undisturbed run."""
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        for subject in subjects:
            seconds, expected = _undisturbed(subject)

            def one(at: int, subject: Subject = subject, seconds: float = seconds, expected: Any = expected) -> Any:
                folder = Path(scratch, f"{subject.task.replace('/', '_')}-{at}")
                dice = random.Random(f"{seed}/{subject.task}/{at}")
                for attempt in range(ATTEMPTS):
                    complaints = case(subject, folder, seconds / 2**attempt, expected, dice)
                    if complaints is not None:
                        return complaints
                    shutil.rmtree(folder)
                return [f"{subject.task}: {ATTEMPTS} times it ended as if nothing had been done to it"]

            for complaints in map(one, range(count)) if jobs == 1 else pool.map(one, range(count)):
                result.add(complaints)
    return result


@functools.cache
def _undisturbed(subject: Subject) -> tuple[float, dict[str, Any]]:
    """How long a run trains, and what comes of it."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch, "whole")
        code, error = subject.finish(whole)
        if code != 0:
            raise RuntimeError(f"the undisturbed run of {subject.task} failed: {error}")
        return time.time() - (whole / CONFIG).stat().st_mtime, outcome(whole)


def _resumed(subject: Subject, folder: Path, expected: dict[str, Any], what: str) -> list[str]:
    """Resume to the end, and compare with the undisturbed run."""
    code, error = subject.finish(folder, "--resume")
    if code != 0:
        return [f"{what}: resuming ended with {code}: {error[-300:]}"]
    found = outcome(folder)
    complaints = [f"{what}: {name} differs" for name in expected if found[name] != expected[name]]
    return complaints + [f"{what}: {name} is left over" for name in strays(folder)]


def kills(count: int = 20, subjects: Sequence[Subject] = SUBJECTS, jobs: int = 2, seed: int = 0) -> Result:
    """kill -9, every second time while a file is being written."""
    result = Result("kill -9 at random moments, mid-step and mid-checkpoint, resume", "the same bits as uninterrupted")
    result.notes = {"while a file was being written": 0}

    def case(subject: Subject, folder: Path, seconds: float, expected: Any, dice: random.Random) -> list[str] | None:
        moment, mid_write = dice.uniform(0, seconds), dice.random() < 0.5
        process = subject.start(folder)
        wait_for(training(folder), process)
        time.sleep(moment)
        if mid_write:
            wait_for(lambda: any(folder.glob("*.part")), process, seconds=5, every=0.001)
        process.kill()
        process.communicate()
        if process.returncode == 0:  # it had ended before
            return None
        result.notes["while a file was being written"] += any(folder.glob("*.part"))
        return _resumed(subject, folder, expected, f"{subject.task}, killed after {moment:.2f} s")

    return _each(result, case, subjects, count, jobs, seed)


def terms(count: int = 20, subjects: Sequence[Subject] = SUBJECTS[:1], jobs: int = 2, seed: int = 1) -> Result:
    """SIGTERM while training."""
    result = Result("SIGTERM at random moments", "exit 143, loadable, the same bits after resuming")

    def case(subject: Subject, folder: Path, seconds: float, expected: Any, dice: random.Random) -> list[str] | None:
        process = subject.start(folder)
        wait_for(training(folder), process)
        moment = dice.uniform(0, seconds)
        time.sleep(moment)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate()
        what = f"{subject.task}, SIGTERM after {moment:.2f} s"
        if process.returncode == 0:  # it had ended before
            return None
        if process.returncode != 143:
            return [f"{what}: exit code {process.returncode}: {error[-300:]}"]
        try:
            Learner.load(folder, origin=subject.task)
        except Exception as failed:
            return [f"{what}: not loadable: {failed}"]
        return _resumed(subject, folder, expected, what)

    return _each(result, case, subjects, count, jobs, seed)


def full_disk(count: int = 20, subjects: Sequence[Subject] = SUBJECTS[:1], jobs: int = 2, seed: int = 2) -> Result:
    """From a random moment on, no file can grow beyond a random size, as on a full disk."""
    promise = "previous checkpoint loads, non-zero exit, one sentence, no stray files after the next start, same bits"
    result = Result("writing fails at random points", promise)

    def case(subject: Subject, folder: Path, seconds: float, expected: Any, dice: random.Random) -> list[str] | None:
        process = subject.start(folder)
        wait_for(lambda: any(folder.glob("checkpoint-*.safetensors")) and (folder / MANIFEST).exists(), process)
        time.sleep(dice.uniform(0, seconds / 2))
        limit = int(2 ** dice.uniform(0, 20)) % _largest(folder)
        _limit_files(process, limit)
        _, error = process.communicate()
        what = f"{subject.task}, files cut off at {limit} bytes"
        if process.returncode == 0:  # it had ended before
            return None
        complaints = [] if process.returncode > 0 else [f"{what}: exit code {process.returncode}"]
        complaints += [] if one_line(error) else [f"{what}: said {error[-300:]!r}"]
        run = RunFolder(folder)
        checkpoints = run.names(CHECKPOINT)
        complaints += [] if checkpoints else [f"{what}: no checkpoint is left"]
        for name in checkpoints:
            run.read(name)
        return complaints + _resumed(subject, folder, expected, what)

    return _each(result, case, subjects, count, jobs, seed)


def _largest(folder: Path) -> int:
    """Bytes of the largest checkpoint; while we look, one may be replaced by the next."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return max((path.stat().st_size for path in folder.glob("checkpoint-*.safetensors")), default=1)


def _limit_files(process: subprocess.Popen[str], limit: int) -> None:
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
