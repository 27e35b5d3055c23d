"""Handwritten formulas such as 3 + 4 * 2 - 7. The label is the value; one image of each digit and sign is labelled.

softpnet train examples/formula.py
softpnet rule examples/formula.py
"""

from typing import Literal

import torch

import softpnet as sp
from softpnet.data.digits import pools

SIGNS = ["+", "-", "*"]  # of which * binds tighter
STROKES = torch.tensor([[0.0, 90.0], [0.0, 0.0], [45.0, 135.0]])  # angles of the two strokes of each sign
SHIFT = 10_000  # states are 0 or more, the numbers in them need not be


def step(states, concept, values):
    """States [S, 2]: the finished terms' sum, and the term at hand. Concepts 0 to 3 are digits, 4 to 6 operators."""
    total, term = (states - SHIFT).unbind(-1)
    if concept < 4:
        term = term * values
    else:  # + and - finish the term, and the next one begins with 1 or -1; * goes on with it
        total = torch.where(values < 2, total + term, total)
        term = torch.where(values < 2, 1 - 2 * values, term)
    return torch.stack([total, term], -1) + SHIFT


value = sp.Machine((SHIFT, SHIFT + 1), step, lambda last: (last - SHIFT).sum(-1), order=[0, 4, 1, 5, 2, 6, 3])


def draw(signs, generator):
    """Two strokes of an unsteady pen per sign: [...] -> [..., 1, 28, 28]."""

    def noise(spread):
        return spread * torch.randn(*signs.shape, 2, 1, 1, generator=generator)

    angle = (STROKES[signs][..., None, None] + noise(5.0)).deg2rad()
    pixel = torch.arange(28) - 13.5
    x, y = pixel + noise(1.0), pixel[:, None] + noise(1.0)
    along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    distance = torch.hypot(across, (along.abs() - 8 + noise(1.0)).clamp_min(0))
    return (1.8 + noise(0.2) - distance).clamp(0, 1).amax(-3)[..., None, :, :]


def task(train: int = 6000, test: int = 2000, split: Literal["test", "validation"] = "test") -> sp.Task:
    """The task; "validation" judges on held-out training images, for choosing settings."""

    def examples(count, digits, generator):
        numbers = torch.randint(10, (count, 4), generator=generator)
        signs = torch.randint(3, (count, 3), generator=generator)
        images = torch.cat([digits.draw(numbers, generator), draw(signs, generator)], 1)[:, list(value.order)]
        return sp.Examples(images, value(torch.cat([numbers, signs], 1)), torch.cat([numbers, signs], 1))

    def data(streams):
        seen, unseen = pools(split)
        ten, three = torch.arange(10), torch.arange(3)
        anchors = {"digit": sp.Anchors(seen.first(ten), ten), "sign": sp.Anchors(draw(three, streams("signs")), three)}
        tests = {"test": examples(test, unseen, streams("test data"))}
        return sp.Data(examples(train, seen, streams("train data")), anchors, tests)

    signs = sp.Group(slots=[1, 3, 5], values=3, name="sign", value_names=[SIGNS])
    space = sp.ConceptSpace(sp.Group(slots=[0, 2, 4, 6], values=10, name="digit"), signs)
    settings = dict(epochs=3, batch_size=16)
    return sp.Task(space, value, name="formula", data=data, settings=settings)
