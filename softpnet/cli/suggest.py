"""`softpnet suggest RUN`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from softpnet.terminal import say

if TYPE_CHECKING:
    from torch import Tensor

    from softpnet.task.concepts import ConceptSpace


@dataclass(frozen=True)
class Suggest:
    """Name training slots of a run's task to label next: uncertain ones that are typical of others."""

    folder: tyro.conf.Positional[Path]
    """The run's folder."""
    count: int = 5
    """How many slots."""
    into: Path | None = None
    """A new CSV table of these slots to fill in: `softpnet train TASK --anchors labels.csv` takes it then."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""

    def run(self) -> int:
        from softpnet.data.labelled_slots import cell_of, check_free, write_slots
        from softpnet.learner import Learner
        from softpnet.task.data import make_data
        from softpnet.training.streams import Streams

        if self.into is not None:
            check_free(self.into)
        model = Learner.load(self.folder, origin=self.task, method=self.method)
        train = make_data(model.task, Streams(model.seed)).train
        slots = model.suggest_anchors(train.inputs, train.labels, self.count)
        read = model.predict(train.inputs[slots[:, 0]]).concepts
        space = model.task.space
        shown = [_shown(space, slot, concepts) for slot, concepts in zip(slots[:, 1].tolist(), read, strict=True)]
        for (example, slot), value in zip(slots.tolist(), shown, strict=True):
            cell = cell_of(train.inputs, example, slot)
            place = f" ({', '.join(f'{name} {text}' for name, text in cell.items())})" if cell else ""
            say(f"label next: example {example}, slot {slot}{place}, now read as {value}")
        if self.into is not None:
            columns = write_slots(self.into, space, train.inputs, slots, shown)
            say(f"fill in {', '.join(map(repr, columns))} in {self.into}, and train again with --anchors {self.into}")
        return 0


def _shown(space: ConceptSpace, slot: int, concepts: Tensor) -> str:
    """What an assignment `[k]` says of a slot, a word for each attribute of each group that reads it."""
    words = []
    for group, part in zip(space.groups, space.split(concepts), strict=True):  # [n_g, a]
        if slot in group.slots:
            values = part[group.slots.index(slot)].tolist()
            told = " ".join(names[value] for names, value in zip(group.value_names, values, strict=True))
            words.append(f"{group.name} {told}" if len(space.groups) > 1 else told)
    return ", ".join(words)
