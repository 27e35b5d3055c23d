"""9x9 Sudoku boards of handwritten digits, labelled valid (1) or not (0); the rule is a CPMpy model.

There are 6.7e21 valid boards, so CP-SAT looks for the most probable one of each example, in place of all of them.

pip install "softpnet[solvers]"
softpnet train examples/sudoku9.py
"""

from typing import Literal

import cpmpy
import torch

import softpnet as sp
from softpnet.data.digits import pools

CELLS = torch.arange(81).view(9, 9)
UNITS = torch.cat([CELLS, CELLS.T, CELLS.view(3, 3, 3, 3).transpose(1, 2).reshape(9, 9)])  # [27, 9], blocks last
BOARD = (3 * (CELLS // 9) + CELLS // 27 + CELLS % 9) % 9  # a valid one


def valid(c):
    """Cells [..., 81] -> 1 where every row, column and block holds nine different digits [...]."""
    return (c[..., UNITS].sort(-1).values == torch.arange(9)).all(-1).all(-1).long()


def model():
    """The same as constraints."""
    x = cpmpy.intvar(1, 9, shape=81, name="x")
    return sp.ConstraintModel(x, constraints=[cpmpy.AllDifferent(x[u]) for u in UNITS.numpy()], offset=1, rule=valid)


def boards(count, generator):
    """Valid boards [N, 81]: one, with its digits, rows, columns, bands and stacks exchanged, and perhaps transposed."""

    def exchanged(*shape):
        return torch.rand(count, *shape, generator=generator).argsort(-1)

    rows, columns = ((3 * exchanged(3)[:, :, None] + exchanged(3, 3)).flatten(1) for _ in range(2))  # [N, 9] each
    made = BOARD[rows[:, :, None], columns[:, None]]  # [N, 9, 9]
    made = torch.where(exchanged(2)[:, :1, None] == 0, made, made.mT)
    return exchanged(9).gather(1, made.flatten(1))


def corrupt(cells, generator):
    """Put a digit of a row, column or block into another cell of it, too: [N, 81] -> [N, 81]."""
    unit = UNITS[torch.randint(27, (len(cells),), generator=generator)]  # [N, 9]
    two = torch.rand(len(cells), 9, generator=generator).argsort(-1)[:, :2]  # [N, 2], different cells of it
    one, other = unit.gather(1, two).split(1, dim=1)
    return cells.scatter(1, one, cells.gather(1, other))


def task(train: int = 300, test: int = 300, split: Literal["test", "validation"] = "test") -> sp.Task:
    """The task; "validation" judges on held-out training images, for choosing settings."""

    def examples(count, digits, generator):
        cells = boards(count, generator)
        cells[: count // 2] = corrupt(cells[: count // 2], generator)
        return sp.Examples(digits.draw(cells + 1, generator), valid(cells), cells)

    def data(streams):
        seen, unseen = pools(split)
        anchors = sp.Anchors(seen.draw(torch.arange(1, 10), streams("anchors")), torch.arange(9))
        tests = {"test": examples(test, unseen, streams("test data"))}
        return sp.Data(examples(train, seen, streams("train data")), anchors, tests)

    space = sp.ConceptSpace(slots=81, values=9, value_names=["123456789"])
    settings = dict(targets="solver", working_set=1, epochs=8, batch_size=8)
    return sp.Task(space, model(), name="sudoku9", data=data, settings=settings)
