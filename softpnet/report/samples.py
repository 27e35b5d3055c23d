"""A few examples of a task: their images, the true concept of each, and the label."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from softpnet.errors import InputError
from softpnet.report.canvas import MARGIN, WIDTH, columns_of, page, show

if TYPE_CHECKING:
    from torch import Tensor

    from softpnet.task.concepts import ConceptSpace
    from softpnet.task.data import Examples

MOST = 6
BETWEEN = 0.3  # inches between two examples


def samples(path: Path, space: ConceptSpace, examples: Examples, title: str = "") -> None:
    """Draw as many examples as fit side by side, at most six, their labels taken in turn."""
    if examples.concepts is None:
        raise InputError("the examples have no true concepts, and a sample shows them: give Examples(..., concepts)")
    names = [slot_names(space, row) for row in examples.concepts[in_turn(examples.labels, MOST)]]
    lines = max(name.count("\n") + 1 for row in names for name in row)
    longest = max(len(line) for row in names for name in row for line in name.split("\n"))
    columns = columns_of(space.slots)
    rows = math.ceil(space.slots / columns)
    cell = max(0.375, 0.056 * longest + 0.08) if space.slots > 2 else 0.56
    picture = min(cell - 0.06, 0.5)
    step = picture + 0.07 + 0.115 * lines
    wide = columns * cell + BETWEEN
    count = min(len(names), max(1, int((WIDTH - 2 * MARGIN + BETWEEN) / wide)))
    head = 0.5 if title else 0.24
    height = head + rows * step + 0.06
    with page(path, height, max(2.4, count * wide - BETWEEN + 2 * MARGIN)) as (figure, place):
        width = figure.get_figwidth()
        figure.text(MARGIN / width, 1 - 0.1 / height, title, size=9, weight="bold", va="top")
        chosen = in_turn(examples.labels, count)
        for e, index in enumerate(chosen):
            left = MARGIN + e * wide
            said = f"label {label_text(examples.labels[index])}"
            figure.text(left / width, 1 - (head - 0.06) / height, said, size=8, va="bottom")
            for slot in range(space.slots):
                x = left + slot % columns * cell
                y = height - head - slot // columns * step - picture
                axes = place(x, y, picture, picture)
                show(axes, examples.inputs[index, slot])
                for line, name in enumerate(names[e][slot].split("\n")):
                    figure.text((x + picture / 2) / width, (y - 0.115 * (line + 1)) / height, name, ha="center")


def slot_names(space: ConceptSpace, row: Tensor) -> list[str]:
    """What each slot of an assignment `[k]` shows, a line per attribute of every group that reads it."""
    lines: list[list[str]] = [[] for _ in range(space.slots)]
    for group, values in zip(space.groups, space.split(row), strict=True):
        for slot, attributes in zip(group.slots, values.tolist(), strict=True):
            lines[slot] += [names[v] for names, v in zip(group.value_names, attributes, strict=True)]
    return ["\n".join(each) for each in lines]


def label_text(label: Tensor) -> str:
    return str(label.tolist())


def in_turn(labels: Tensor, count: int) -> list[int]:
    """Places of some examples: the first of every label, then the second of every label, and so on."""
    seen: dict[str, int] = {}
    ranks = []
    for index, label in enumerate(labels):
        name = label_text(label)
        ranks.append((seen.setdefault(name, 0), index))
        seen[name] += 1
    return [index for _, index in sorted(ranks)[:count]]
