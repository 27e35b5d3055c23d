"""Photographs of traffic signs, augmented by affine maps alone: brightness, contrast and sharpness stay."""

from __future__ import annotations

import dataclasses
from typing import Literal

from softpnet import tasks
from softpnet.networks import augmentation
from softpnet.task.task import Task


def task(split: Literal["test", "validation"] = "test") -> Task:
    """The task, on one of its splits."""
    return dataclasses.replace(
        tasks.load("examples/traffic_signs.py", {"split": split}), augment=augmentation.affine(background=0.2)
    )
