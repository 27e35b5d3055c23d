"""Two handwritten numbers of N digits and their sum. Ten images are labelled; of all others only the sums are known.

softpnet train examples/addition.py --option digits=4
softpnet rule examples/addition.py      # how the rule is compiled
"""

from typing import Literal

import torch

import softpnet as sp
from softpnet.data.digits import pools
from softpnet.task.options import check_count


def add(c):
    """The rule: digits of two numbers [..., 2N], highest first -> digits of their sum [..., N + 1]."""
    carry, digits = torch.zeros_like(c[..., 0]), []
    for column in reversed(c.unflatten(-1, (2, -1)).sum(-2).unbind(-1)):
        digits.append((column + carry) % 10)
        carry = (column + carry) // 10
    return torch.stack([carry, *reversed(digits)], -1)


def machine(n):
    """The same as a machine that adds as on paper, column by column from the last. Its state is what is carried."""

    def step(states, concept, values, sums):
        so_far = states + values
        if concept < n:  # a digit of the first number; that of the second one comes next
            return so_far
        return torch.where(so_far % 10 == sums[:, 1 + concept - n], so_far // 10, -1)  # -1: not this sum

    columns = [(place, n + place) for place in reversed(range(n))]
    return sp.Machine(0, step, accept=lambda states, sums: states == sums[:, 0], rule=add, order=sum(columns, ()))


def task(digits: int = 2, limit: int = 30_000, split: Literal["test", "validation"] = "test") -> sp.Task:
    """The task: `digits` of each number, `limit` examples at most; "validation" judges on held-out training images."""
    check_count("digits", digits)

    def numbers(pool, kept, generator):
        """Each kept image once, in a random place."""
        shuffled = kept[torch.randperm(len(kept), generator=generator)]
        rows = shuffled[: len(kept) // (2 * digits) * 2 * digits].view(-1, 2 * digits)[:limit]
        return sp.Examples(pool.images[rows], add(pool.labels[rows]), pool.labels[rows])

    def data(streams):
        seen, unseen = pools(split)
        anchors = torch.stack([(seen.labels == digit).nonzero()[0, 0] for digit in range(10)])
        others = torch.ones(len(seen.labels), dtype=torch.bool).index_fill(0, anchors, False).nonzero().squeeze(1)
        return sp.Data(
            numbers(seen, others, streams("train data")),
            sp.Anchors(seen.images[anchors], torch.arange(10)),
            {"test": numbers(unseen, torch.arange(len(unseen.labels)), streams("test data"))},
        )

    settings = dict(epochs=4, batch_size=round(32 / digits**0.5))
    space = sp.ConceptSpace(slots=2 * digits, values=10)
    return sp.Task(space, machine(digits), name="addition", data=data, settings=settings)
