"""EvenOdd, 1,600 pairs, with two labelled images: one 0 and one 1.

The rule could tell all other digits apart, but training goes astray: here it matters which images are labelled next.
"""

from __future__ import annotations

from typing import Literal

from softpnet import tasks
from softpnet.task.task import Task


def task(split: Literal["test", "validation"] = "test") -> Task:
    """The task, on one of its splits."""
    return tasks.load("mnist_evenodd", {"train": "1600", "anchors": "0", "split": split})
