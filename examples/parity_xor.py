"""Two handwritten digits; the label is 1 if one of them is odd and the other is not.

The rule cannot tell 2 from 4, nor 1 from 3: `softpnet check` names what only the anchors can tell apart.

softpnet check examples/parity_xor.py
softpnet train examples/parity_xor.py
"""

from typing import Literal

import torch

import softpnet as sp
from softpnet.data.digits import pools


def rule(c):
    """Two digits [..., 2] -> XOR of their parities [...]."""
    return (c[..., 0] + c[..., 1]) % 2


def task(train: int = 4000, test: int = 5000, split: Literal["test", "validation"] = "test") -> sp.Task:
    """The task; "validation" judges on held-out training images, for choosing settings."""

    def examples(count, digits, generator):
        concepts = torch.randint(10, (count, 2), generator=generator)
        return sp.Examples(digits.draw(concepts, generator), rule(concepts), concepts)

    def data(streams):
        seen, unseen = pools(split)
        anchors = sp.Anchors(seen.first(torch.arange(10)), torch.arange(10))  # one labelled image per digit
        tests = {"test": examples(test, unseen, streams("test data"))}
        return sp.Data(examples(train, seen, streams("train data")), anchors, tests)

    space = sp.ConceptSpace(slots=2, values=10)
    return sp.Task(space, rule, name="parity_xor", data=data, settings=dict(epochs=10))
