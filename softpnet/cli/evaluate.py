"""`softpnet evaluate RUN`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Evaluate:
    """Judge a trained run on its task's test sets again."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""

    def run(self) -> int:
        from softpnet.cli.display import show_metrics
        from softpnet.learner import Learner
        from softpnet.report.judge import scores
        from softpnet.report.remarks import remarks
        from softpnet.task.data import make_data
        from softpnet.training.streams import Streams

        model = Learner.load(self.folder, origin=self.task, method=self.method)
        data = make_data(model.task, Streams(model.seed))
        metrics = scores(model, data)
        show_metrics(model.task, metrics, self.folder, remarks(model, data, metrics))
        return 0
