"""`softpnet export RUN --to onnx|torch`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from softpnet.terminal import say


@dataclass(frozen=True)
class Export:
    """Write a trained run as one file that runs elsewhere, and a model card beside it."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    to: Literal["onnx", "torch"] = "onnx"
    """onnx, for `softpnet.runtime` without torch; or torch, a program of torch.export."""
    out: Path | None = None
    """The file to write, ending in .onnx or .pt2; in the run's folder unless given."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""
    tolerance: float = 1e-5
    """No probability may differ by more from the trained model's."""

    def run(self) -> int:
        from softpnet.export.formats import named
        from softpnet.learner import Learner
        from softpnet.report.judge import read_metrics

        path = named(self.folder / "model" if self.out is None else self.out, self.to)
        model = Learner.load(self.folder, origin=self.task, method=self.method)
        written = model.export(path, tolerance=self.tolerance, metrics=read_metrics(self.folder))
        size = written.path.stat().st_size / 1e6
        say(f"{written.path}: {size:.1f} MB, largest difference to the trained model {written.difference:.1e}")
        say(f"{written.card}: the model card")
        for limit in written.limits:
            say(f"limit: {limit}")
        return 0
