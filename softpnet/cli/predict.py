"""`softpnet predict RUN INPUTS...`"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from softpnet.cli.options import Several, flat
from softpnet.errors import InputError
from softpnet.terminal import complain, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from softpnet.networks.reader import Prediction


@dataclass(frozen=True)
class Predict:
    """Read the concepts and the label of images, or of other inputs in a .npy array."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    images: tyro.conf.Positional[tuple[Path, ...]]
    """Image files, as many per example as the task has slots, example after example; or one table,
    CSV or Parquet, that names them; or one .npy array [N, n, *shape] of inputs as the model was trained on, such as
    vectors [N, n, D], or images [N, n, C, H, W] of 0 to 1."""
    columns: Several = ()
    """Columns of the table that name image files, one per slot; with --boxes, one for all slots is enough."""
    boxes: Several = ()
    """Boxes of the table, one per slot, that are cut out of the images and scaled; "left" has the columns left_x0,
    left_y0, left_x1 and left_y1."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""
    resize: bool = False
    """Scale image files to the size that the model was trained on."""
    reject: float | None = None
    """Abstain ("?") from concepts of which it is not sure: in those that are told it expects, all together, an error
    of at most this, such as 0.05; a single one may be less sure. The label is told where all of its concepts are."""
    json: bool = False
    """One JSON object per example, with every concept's probabilities."""

    def run(self) -> int:
        from softpnet.cli.tables import TableInputs, slot_images
        from softpnet.data.files import read_images
        from softpnet.data.tables import Table
        from softpnet.learner import Learner

        model = Learner.load(self.folder, origin=self.task, method=self.method)
        assert model.input_shape is not None
        if self._names_table():
            read = slot_images(model, flat(self.columns), flat(self.boxes), self.resize)
            inputs: Any = TableInputs(Table(self.images[0]), read)
        else:
            inputs = read_images(self.images, model.task.space.slots, model.input_shape, self.resize)
        told = concepts = examples = 0
        for part in model.stream(inputs, self.reject):
            self._tell(part, model.task.space.value_names(), told)
            told += len(part.concepts)
            left_out = part.concepts < 0  # [N, k]
            concepts, examples = concepts + int(left_out.sum()), examples + int(left_out.any(1).sum())
        if self.reject is not None:
            complain(
                f"--reject {self.reject:g} left out {concepts:,} of {told * model.task.space.k:,} concepts, and so the "
                f"label of {examples:,} of {told:,} examples"
            )
        return 0

    def _tell(self, found: Prediction, names: Sequence[Sequence[str]], first: int) -> None:
        """A line per example, the first of which has this number."""
        for at, (concepts, label) in enumerate(zip(found.concepts.tolist(), found.labels.tolist(), strict=True)):
            words = [names[i][value] if value >= 0 else None for i, value in enumerate(concepts)]
            label = None if None in words else label
            if self.json:
                sure = [
                    {name: round(float(p), 6) for name, p in zip(names[i], row, strict=False)}
                    for i, row in enumerate(found.probabilities[at].tolist())
                ]
                say(json.dumps({"example": first + at, "label": label, "concepts": words, "probabilities": sure}))
            else:
                least = float(found.probabilities[at].amax(-1).min())
                told, of = " ".join(word or "?" for word in words), "?" if label is None else label
                say(f"{first + at}: label {of}, concepts {told} (least certain concept {least:.3f})")

    def _names_table(self) -> bool:
        """Whether the images are named in a table; raises where a table lacks columns, or columns their table."""
        from softpnet.data.tables import ENDINGS

        table = [path.suffix.lower() in ENDINGS for path in self.images] == [True]
        if table != bool(flat(self.columns)) or (self.boxes and not table):
            usage = "expected RUN new.csv --columns left right, in this order"
            if table:
                raise InputError(f"{self.images[0]} is a table, whose columns of images are not named; {usage}")
            given = f"{len(self.images)} files, {self.images[0]} first," if self.images else "no file"
            option = "--columns" if self.columns else "--boxes"
            raise InputError(
                f"{option} names columns of one .csv or .parquet table, but {given} came before it; {usage}"
            )
        return table
