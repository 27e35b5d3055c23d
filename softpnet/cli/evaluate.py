"""`softpnet evaluate RUN`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from softpnet.errors import InputError
from softpnet.terminal import say


@dataclass(frozen=True)
class Evaluate:
    """Judge a trained run on its task's test sets again."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""
    other_data: bool = False
    """Judge on what the task makes now, although the run was made with other data."""

    def run(self) -> int:
        from softpnet.cli.display import show_metrics
        from softpnet.learner import Learner
        from softpnet.report.judge import is_other_data, scores
        from softpnet.report.remarks import remarks
        from softpnet.task.data import make_data
        from softpnet.training.streams import Streams

        model = Learner.load(self.folder, origin=self.task, method=self.method)
        data = make_data(model.task, Streams(model.seed))
        other = is_other_data(model, data, self.folder)
        if other and not self.other_data:
            raise InputError(
                f"the run in {self.folder} was made with other data than task {model.task.name!r} makes now: restore "
                "what was changed since, or judge on this with --other-data"
            )
        metrics = scores(model, data)
        show_metrics(model.task, metrics, self.folder, remarks(model, data, metrics))
        if other:
            say("judged on other data than the run was made with (--other-data)")
        return 0
