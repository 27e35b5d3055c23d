"""Training on 100,000 image files that are read when a batch asks for them: memory, and how busy the encoder stays.

python -m bench.reading FOLDER      in one process, on the files that `measure` put there; prints a line of JSON
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from softpnet.training.loop import Progress

IMAGES, SIDE, BATCH, STEPS = 100_000, 64, 32, 30


def path(folder: Path, number: int) -> Path:
    return folder / str(number % 1000) / f"{number}.png"


def make_files(folder: Path) -> None:
    """Grey pictures of noise, and one bright band in each at one of four heights: its number modulo 4."""
    import numpy
    from PIL import Image

    draws = numpy.random.default_rng(0)
    for part in range(1000):
        (folder / str(part)).mkdir()
    for number in range(IMAGES):
        picture = draws.integers(0, 100, size=(SIDE, SIDE), dtype=numpy.uint8)
        picture[16 * (number % 4) : 16 * (number % 4) + 16] += 150
        Image.fromarray(picture).save(path(folder, number), compress_level=1)


def train(folder: Path) -> dict[str, float]:
    """Seconds of steps from files and of as many from memory, in turns; and the memory of all processes, in GB."""
    import torch

    import softpnet as sp
    from softpnet.data.image_files import ImageFiles

    shape, pairs = (1, SIDE, SIDE), IMAGES // 2
    task = sp.Task(sp.ConceptSpace(slots=2, values=4), lambda c: c.sum(-1))
    files = ImageFiles([(path(folder, 2 * i), path(folder, 2 * i + 1)) for i in range(pairs)], shape)
    concepts = torch.arange(IMAGES).view(pairs, 2) % 4
    anchors = sp.Anchors(torch.stack([part for i in (0, 1) for part in files[i]]), torch.arange(4))  # type: ignore[union-attr]
    few = torch.stack([files[i] for i in range(BATCH * 4)])  # type: ignore[misc]

    def steps(inputs: Any, labels: Tensor) -> Iterator[Progress]:
        model = sp.Learner(task, batch_size=BATCH, epochs=10**6, warmup_steps=2, threads=1, workers=1)
        training = model.prepared(inputs, labels, anchors)
        return training.steps()

    runs = {"files": steps(files, concepts.sum(-1)), "memory": steps(few, concepts[: len(few)].sum(-1))}
    seconds = dict.fromkeys(runs, 0.0)
    for step, name in itertools.product(range(STEPS), runs):
        began = time.perf_counter()
        next(runs[name])
        if step >= 5:  # warm-up, and the first batches
            seconds[name] += time.perf_counter() - began
    readers = [process.pid for process in multiprocessing.active_children()]
    return seconds | {"gigabytes": sum(map(gigabytes, [os.getpid(), *readers]))}


def gigabytes(process: int | None) -> float:
    """Memory of a process on Linux; what several share is divided among them."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1e6


def measure() -> list[dict]:
    with tempfile.TemporaryDirectory() as scratch:
        make_files(Path(scratch))
        command = [sys.executable, "-m", "bench.reading", scratch]
        ask = {"cwd": Path(__file__).parents[1], "env": os.environ | {"OMP_NUM_THREADS": "1"}}
        done = subprocess.run(command, capture_output=True, text=True, check=True, **ask)  # type: ignore[call-overload]
    found = json.loads(done.stdout.splitlines()[-1])
    step = found["files"] / (STEPS - 5)
    return [
        {
            "name": f"step from memory / step from {IMAGES:,} image files, one reading process",
            "threads": 1,
            "ratio": found["memory"] / found["files"],
            "target": 0.9,
            "better": "higher",
            "seconds": step,
        },
        {
            "name": f"memory, {IMAGES:,} image files, GB",
            "threads": 1,
            "ratio": found["gigabytes"],
            "target": 1.0,
            "better": "lower",
        },
    ]


if __name__ == "__main__":
    print(json.dumps(train(Path(sys.argv[1]))))
