"""One of several processes that train EvenOdd together: the messages of a step, and bytes at the interface.

`torchrun ... -m bench.steps_together FILE CASE`; the first process writes the file. `bench/communication.py` starts it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from softpnet import Learner, tasks
from softpnet.errors import StopTraining
from softpnet.task.data import make_data
from softpnet.training.loop import Progress
from softpnet.training.streams import Streams

SKIPPED, COUNTED, BATCH = 3, 10, 64
"""DDP rearranges its parts of the gradients after the first step."""
CASES: dict[str, dict[str, Any]] = {
    "recipe": {"preset": "best"},
    "recipe, --batch-norm local": {"preset": "best", "batch_norm": "local"},
    "--preset paper": {"preset": "paper"},
}
MESSAGE = "c10d::"
"""How torch calls the operations in which processes talk, those of DDP included."""


def sent() -> int:
    """Bytes that have left by the line of this machine to itself."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


class Counted:
    """Looks at training between steps: from one step to another all messages are noted."""

    def __init__(self) -> None:
        self.noted = profile(activities=[ProfilerActivity.CPU])
        self.before = self.after = 0

    def __call__(self, step: Progress) -> None:
        if step.warming_up:
            return
        if step.step + 1 == SKIPPED:
            self.noted.start()
            self.before = sent()
        if step.step + 1 == SKIPPED + COUNTED:
            self.after = sent()
            self.noted.stop()
            raise StopTraining

    def found(self) -> dict[str, Any]:
        names = [each.name for each in self.noted.events() or ()]
        kinds = Counter(name.removeprefix(MESSAGE).strip("_") for name in names if name.startswith(MESSAGE))
        return {
            "messages": {kind: count / COUNTED for kind, count in sorted(kinds.items())},
            "bytes": (self.after - self.before) / COUNTED,
        }


def main(file: Path, case: str) -> None:
    torch.set_num_threads(1)
    task = tasks.load("mnist_evenodd", {"train": BATCH * 2 * (SKIPPED + COUNTED)})
    data = make_data(task, Streams(0))
    count = Counted()
    model = Learner(task, threads=1, batch_size=BATCH, warmup_steps=2, **CASES[case])
    model.fit(data.train.inputs, data.train.labels, data.anchors, progress=count)
    if model.is_main_process and model.module is not None:
        weights = sum(weight.numel() for weight in model.module.parameters())
        file.write_text(json.dumps(count.found() | {"weights": weights}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
