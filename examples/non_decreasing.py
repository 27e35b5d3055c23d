"""Six handwritten digits; the label is 1 if none is smaller than the one before it.

softpnet train examples/non_decreasing.py
softpnet rule examples/non_decreasing.py      # 5,005 of the 1,000,000 sequences are non-decreasing
"""

from typing import Literal

import torch

import softpnet as sp
from softpnet.data.digits import pools


def rule(c):
    """Six digits [..., 6] -> whether they are in order, 1 or 0 [...]."""
    return (c[..., :-1] <= c[..., 1:]).all(-1).long()


def task(train: int = 2000, test: int = 2000, split: Literal["test", "validation"] = "test") -> sp.Task:
    """The task; "validation" judges on held-out training images, for choosing settings."""

    def examples(count, digits, generator):
        concepts = torch.randint(10, (count, 6), generator=generator)
        concepts[: count // 2] = concepts[: count // 2].sort(-1).values  # half of them are put in order
        return sp.Examples(digits.draw(concepts, generator), rule(concepts), concepts)

    def data(streams):
        seen, unseen = pools(split)
        anchors = sp.Anchors(seen.first(torch.arange(10)), torch.arange(10))  # one labelled image per digit
        tests = {"test": examples(test, unseen, streams("test data"))}
        return sp.Data(examples(train, seen, streams("train data")), anchors, tests)

    space = sp.ConceptSpace(slots=6, values=10)
    return sp.Task(space, rule, name="non_decreasing", data=data, settings=dict(epochs=6))
