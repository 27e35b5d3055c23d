"""4x4 boards of handwritten digits, labelled valid (1) or not (0)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor

from softpnet.data.digits import Digits, pools
from softpnet.rules.moves import drop_and_complete
from softpnet.task.concepts import ConceptSpace
from softpnet.task.data import Anchors, Data, Examples
from softpnet.task.options import check_count
from softpnet.task.task import Corruption, Rows, Task

SPACE = ConceptSpace(slots=16, values=4, value_names=["1234"])  # cell value v shows the digit v + 1
CELLS = torch.arange(16).view(4, 4)
BLOCKS = [CELLS[r : r + 2, c : c + 2].flatten() for r, c in itertools.product((0, 2), (0, 2))]
UNITS = torch.stack([*CELLS, *CELLS.T, *BLOCKS])  # [12, 4]: rows, columns, blocks

# The walk keeps the two diagonal blocks and swaps two cells inside one of them: top, left, bottom and right pair, and
# the main diagonal. The other diagonal is left out; the ten swaps connect all 288 boards.
DIAGONAL_BLOCKS = (BLOCKS[0].tolist(), BLOCKS[3].tolist())
KEPT = [cell for block in DIAGONAL_BLOCKS for cell in block]
SWAPS = [(block[i], block[j]) for block in DIAGONAL_BLOCKS for i, j in ((0, 1), (0, 2), (2, 3), (1, 3), (0, 3))]

PAPER = dict(
    epochs=20,
    batch_size=64,
    targets="cache",
    copies=9,
    working_set=100,
    draw_factor=10,
    walk_every=2,
    target="soft",
    rule_weight=10.0,
    # One anchor per digit can favour two digits in each other's place; these keep that from locking in at the start,
    # see docs/choices.md.
    views_delay=5,
    rule_ramp=5,
    warmup_steps=200,
    warmup_examples=8,
)


def label(c: Tensor) -> Tensor:
    """1 where every row, column and block holds four different values."""
    ordered = c[..., UNITS].sort(-1).values  # [..., 12, 4]
    return (ordered == torch.arange(4, device=c.device)).all(-1).all(-1).long()


@functools.cache
def boards() -> Tensor:
    """The 288 valid boards, `[288, 16]`: four permutations as rows, kept where the rule holds."""
    lines = torch.tensor(list(itertools.permutations(range(4))))  # [24, 4]
    every = lines[torch.cartesian_prod(*[torch.arange(24)] * 4)].flatten(1)  # [24^4, 16]
    return every[label(every) == 1]


def corrupt(rows: Tensor, generator: Generator) -> Tensor:
    """phi: overwrite one cell of a random row, column or block with another value of it; valid -> invalid."""
    shape = rows.shape[:-1]
    unit = UNITS[torch.randint(len(UNITS), shape, generator=generator)]  # [..., 4]
    cell = torch.randint(4, shape, generator=generator)
    other = (cell + torch.randint(1, 4, shape, generator=generator)) % 4
    cell, other = (unit.gather(-1, which[..., None]).to(rows.device) for which in (cell, other))  # [..., 1]
    return rows.scatter(-1, cell, rows.gather(-1, other))


def task(
    valid_only: bool = False,
    split: Literal["test", "validation"] = "test",
    train: int = 300,
    anchors: int = 1,
    mnist: str | None = None,
) -> Task:
    """The task.

    Args:
        valid_only: train on the valid boards alone.
        split: "validation" judges on held-out training images, for choosing settings.
        train: training boards, half of them valid.
        anchors: images of each digit; the rule cannot tell digits apart, so each needs one.
        mnist: a folder with MNIST's four files.
    """
    check_count("train", train, least=2)  # a valid board and one that is not
    check_count("anchors", anchors)

    def rows(generator: Generator) -> Rows:
        return Rows(boards(), complete=torch.tensor([1]))

    def data(streams: Callable[[str], Generator]) -> Data:
        digits = pools(split, mnist)
        values = torch.arange(4)
        cells = _cells(train, streams("train data"))
        if valid_only:
            cells = cells[label(cells) == 1]
        return Data(
            _examples(cells, digits.train, streams("train data")),
            Anchors(
                torch.cat([digits.train.draw(values + 1, streams("anchors")) for _ in range(anchors)]),
                values.repeat(anchors),
            ),
            {"test": _examples(_cells(1000, streams("test data")), digits.test, streams("test data"))},
        )

    return Task(
        space=SPACE,
        rule=label,
        name="visual_sudoku",
        rows=rows,
        move=drop_and_complete(boards(), KEPT, SWAPS, SPACE.sizes),
        corrupt=Corruption(label=0, source=1, apply=corrupt),
        data=data,
        settings=dict(epochs=20, batch_size=8),
        presets={"paper": PAPER},
    )


def _cells(count: int, generator: Generator) -> Tensor:
    """Valid boards, then as many invalid ones, `[count, 16]`."""
    valid = boards()[torch.randint(len(boards()), (count,), generator=generator)]
    return torch.cat([valid[: count // 2], corrupt(valid[count // 2 :], generator)])


def _examples(cells: Tensor, digits: Digits, generator: Generator) -> Examples:
    return Examples(digits.draw(cells + 1, generator), label(cells), cells)
