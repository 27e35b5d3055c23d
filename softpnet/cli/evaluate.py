"""`softpnet evaluate RUN`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from softpnet.cli.options import Several, flat
from softpnet.errors import InputError
from softpnet.terminal import say

if TYPE_CHECKING:
    from softpnet.learner import Learner


@dataclass(frozen=True)
class Evaluate:
    """Judge a trained run on its task's test sets again, or on a new table."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    table: Path | None = None
    """A labelled table, CSV or Parquet, to judge on in place of the task's test sets."""
    columns: Several = ()
    """Columns of the table that name image files, one per slot; with --boxes, one for all slots is enough."""
    boxes: Several = ()
    """Boxes of the table, one per slot, that are cut out of the images and scaled; "left" has the columns left_x0,
    left_y0, left_x1 and left_y1."""
    labels: Several = ()
    """The table's column of labels, or one per entry of a label vector; "label" unless given."""
    concepts: Several = ()
    """Columns of the table with true concepts, if it has them, one per concept: names of values, or their numbers."""
    resize: bool = False
    """Scale image files to the size that the model was trained on."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""
    other_data: bool = False
    """Judge on what the task makes now, although the run was made with other data."""

    def run(self) -> int:
        from softpnet.learner import Learner

        self._check()
        model = Learner.load(self.folder, origin=self.task, method=self.method)
        return self._on_task(model) if self.table is None else self._on_table(model, self.table)

    def _check(self) -> None:
        """Raise for options that go with a table only, or without one only."""
        given = {name: getattr(self, name) for name in ("columns", "boxes", "labels", "concepts", "resize")}
        used = [f"--{name}" for name, value in given.items() if value]
        usage = "expected RUN --table new.csv --columns left right --labels NAME"
        if self.table is None and used:
            raise InputError(f"{used[0]} is about a table, but none is named; {usage}")
        if self.table is not None and not flat(self.columns):
            raise InputError(f"--table is {self.table}, whose columns of images are not named; {usage}")
        if self.table is not None and self.other_data:
            raise InputError("--other-data is about the task's own test sets, but --table is given; leave one out")

    def _on_task(self, model: Learner) -> int:
        from softpnet.cli.display import show_metrics
        from softpnet.report.judge import data_of_run, is_other_data, scores
        from softpnet.report.remarks import remarks

        data = data_of_run(model, self.folder, self.other_data)
        metrics = scores(model, data.tests)
        show_metrics(model.task, metrics, self.folder, remarks(model, data.tests, metrics))
        if self.other_data and is_other_data(model, data, self.folder):
            say("judged on other data than the run was made with (--other-data)")
        return 0

    def _on_table(self, model: Learner, path: Path) -> int:
        from softpnet.cli.display import show_metrics
        from softpnet.cli.tables import contradictions, labels_and_concepts, slot_images
        from softpnet.data.tables import Table
        from softpnet.report.judge import scores
        from softpnet.report.remarks import remarks
        from softpnet.task.data import Examples

        table, task = Table(path), model.task
        # Images come last, since reading them takes longest.
        truth = labels_and_concepts(task, table, flat(self.labels) or ("label",), flat(self.concepts))
        inputs = slot_images(model, flat(self.columns), flat(self.boxes), self.resize)(table)
        examples = Examples(inputs, *truth)
        tests = {path.stem: examples}
        metrics = scores(model, tests)
        said = [*remarks(model, tests, metrics), *contradictions(task, table, examples)]
        show_metrics(task, metrics, self.folder, said)
        return 0
