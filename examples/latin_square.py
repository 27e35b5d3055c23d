"""4x4 squares of handwritten digits, labelled Latin (1) or not (0); the rule is an answer-set program.

pip install "softpnet[solvers]"
softpnet rule examples/latin_square.py      # clingo lists the 576 Latin squares
softpnet train examples/latin_square.py
"""

from typing import Literal

import torch

import softpnet as sp
from softpnet.data.digits import pools

PROGRAM = """
1 { cell(R, C, 1..4) } 1 :- R = 0..3, C = 0..3.     % one digit in each cell
:- cell(R, C, V), cell(R, D, V), C < D.             % no digit twice in a row
:- cell(R, C, V), cell(S, C, V), R < S.             % no digit twice in a column
"""
CELLS = torch.arange(16).view(4, 4)
LINES = torch.cat([CELLS, CELLS.T])  # [8, 4]


def corrupt(squares, generator):
    """Put a digit of a row or column into another cell of it, too: [N, 16] -> [N, 16]."""
    line = LINES[torch.randint(8, (len(squares),), generator=generator)]  # [N, 4]
    two = torch.rand(len(squares), 4, generator=generator).argsort(-1)[:, :2]  # [N, 2], different cells of it
    one, other = line.gather(1, two).split(1, dim=1)
    return squares.scatter(1, one, squares.gather(1, other))


def task(train: int = 300, test: int = 1000, split: Literal["test", "validation"] = "test") -> sp.Task:
    """The task; "validation" judges on held-out training images, for choosing settings."""
    rule = sp.AnswerSets(PROGRAM, [f"cell({r},{c})" for r in range(4) for c in range(4)], offset=1)

    def examples(count, digits, generator):
        latin = rule.known_rows().rows  # [576, 16]
        squares = latin[torch.randint(len(latin), (count,), generator=generator)]
        squares[: count // 2] = corrupt(squares[: count // 2], generator)
        return sp.Examples(digits.draw(squares + 1, generator), rule(squares), squares)

    def data(streams):
        seen, unseen = pools(split)
        anchors = sp.Anchors(seen.draw(torch.arange(1, 5), streams("anchors")), torch.arange(4))
        tests = {"test": examples(test, unseen, streams("test data"))}
        return sp.Data(examples(train, seen, streams("train data")), anchors, tests)

    space = sp.ConceptSpace(slots=16, values=4, value_names=["1234"])
    settings = dict(epochs=12, batch_size=16)
    return sp.Task(space, rule, name="latin_square", data=data, settings=settings)
