"""Images of wanted digits, drawn from MNIST."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.data import mnist
from softpnet.errors import InputError

VALIDATION = 10_000
"""With split="validation", so many images at the end of MNIST's training set are held out in the test set's place."""


class Digits:
    """A set of images that can be drawn by digit, or by the number of whatever else they show."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels
        self.order = labels.sort(stable=True).indices
        self.counts = labels.bincount(minlength=10)
        self.starts = self.counts.cumsum(0) - self.counts

    def draw(self, digits: Tensor, generator: Generator) -> Tensor:
        """A uniformly drawn image of each digit `[...]` -> `[..., C, H, W]`."""
        count = self.counts[digits]
        nth = (torch.rand(digits.shape, generator=generator) * count).long().clamp_max(count - 1)
        return self.images[self.order[self.starts[digits] + nth]]

    def first(self, digits: Tensor, each: int = 1) -> Tensor:
        """The first images of each digit `[P]`, digit after digit -> `[P * each, C, H, W]`."""
        fewest = int(self.counts[digits].min())
        if fewest < each:
            raise InputError(f"{each} images are wanted of each digit, but of one there are {fewest}; take fewer")
        return self.images[self.order[self.starts[digits][:, None] + torch.arange(each)].flatten()]


class Pools(NamedTuple):
    train: Digits
    test: Digits


def pools(split: Literal["test", "validation"], folder: str | None = None) -> Pools:
    """Digits to train and to judge on; "validation" judges on held-out training images, for choosing settings.

    MNIST comes from the folder, or from where it is found.
    """
    train = mnist.load("train", folder)
    if split == "validation":
        kept = len(train.labels) - VALIDATION
        return Pools(Digits(train.images[:kept], train.labels[:kept]), Digits(train.images[kept:], train.labels[kept:]))
    return Pools(Digits(*train), Digits(*mnist.load("test", folder)))
