"""What `--on ray` costs over `--on local`: the same runs with both engines, in turns; a cluster of this machine."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from softpnet.experiments import engines
from softpnet.experiments.engines.base import Engine
from softpnet.experiments.engines.ray import Engine as RayEngine
from torture import tiny

RUNS, TURNS, EPOCHS = 20, 4, 2700
"""As many epochs of the tiny task take about a minute of one core."""
BAR = 1.05


def measure(runs: int = RUNS, turns: int = TURNS, epochs: int = EPOCHS) -> list[dict[str, Any]]:
    """Ratios of wall clock and of processor time, start of the cluster included; as many runs side by side as there
    are cores."""
    cores = len(os.sched_getaffinity(0))
    with _task() as folder, engines.opened("local", folder) as local:
        at = time.perf_counter()
        with engines.opened("ray", folder) as ray:
            assert isinstance(ray, RayEngine)
            start = time.perf_counter() - at, used(ray.process.pid)
            wall, processor = {"local": 0.0, "ray": 0.0}, {"local": 0.0, "ray": 0.0}
            for turn in range(turns):
                both = [("local", local), ("ray", ray)]
                for name, engine in both if turn % 2 == 0 else reversed(both):  # what else slows the machine hits both
                    at, before = time.perf_counter(), _used(engine)
                    batch(engine, folder, f"{name}{turn}", runs // turns, epochs, cores)
                    wall[name] += time.perf_counter() - at
                    processor[name] += _used(engine) - before
            at = time.perf_counter()
        end = time.perf_counter() - at
    made = turns * (runs // turns)
    what = f"{made} runs of {processor['local'] / made:.0f} s, {cores} side by side, --on ray / --on local"
    clock = (start[0] + wall["ray"] + end) / wall["local"]
    time_used = (start[1] + processor["ray"]) / processor["local"]
    common = {"threads": 1, "target": BAR, "better": "lower"}
    return [
        {"name": f"{what}, wall clock", "ratio": clock, "seconds": wall["local"], "start": start[0], **common},
        {"name": f"{what}, processor", "ratio": time_used, "seconds": processor["local"], "start": start[1], **common},
    ]


def batch(engine: Engine, folder: Path, name: str, runs: int, epochs: int, jobs: int) -> None:
    """So many runs, `jobs` side by side."""
    tiny = ["--epochs", str(epochs), "--batch-size", "8", "--warmup-steps", "2", "--episodes", "2"]
    command = ["train", "tiny.py", *tiny, "--threads", "1", "--no-pictures"]
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(engine.run, command, folder / f"{name}-{at}") for at in range(runs)]
        for future in futures:
            code, said = future.result()
            if code != 0:
                raise RuntimeError(said)


@contextlib.contextmanager
def _task() -> Iterator[Path]:
    """A folder with the task, which runs are started in."""
    before, paths = Path.cwd(), os.environ.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "tiny.py").write_text(tiny.FILE)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), paths]))
        os.chdir(scratch)
        try:
            yield Path(scratch)
        finally:
            os.chdir(before)
            os.environ["PYTHONPATH"] = paths


def _used(engine: Engine) -> float:
    """Seconds of processor time that its runs have taken, and all that is around them."""
    if isinstance(engine, RayEngine):
        return used(engine.process.pid)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def used(process: int) -> float:
    """Seconds of processor time of a process and all below it, those that have ended too."""
    parents, ticks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    below, seen = {process}, 0
    while len(below) > seen:
        seen = len(below)
        below |= {each for each, parent in parents.items() if parent in below}
    return sum(ticks.get(each, 0) for each in below) / os.sysconf("SC_CLK_TCK")
