"""`softpnet suggest RUN`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from softpnet.terminal import say


@dataclass(frozen=True)
class Suggest:
    """Name training slots of a run's task to label next: uncertain ones that are typical of others."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    count: int = 5
    """How many slots."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""

    def run(self) -> int:
        from softpnet.learner import Learner
        from softpnet.task.data import make_data
        from softpnet.training.streams import Streams

        model = Learner.load(self.folder, origin=self.task, method=self.method)
        train = make_data(model.task, Streams(model.seed)).train
        for example, slot in model.suggest_anchors(train.inputs, train.labels, self.count).tolist():
            say(f"label next: example {example}, slot {slot}")
        return 0
