"""A task with a few more anchors: training slots that a first model suggests, or as many random ones.

The first model is trained when the data is made, with one anchor a value; then the slots' true concepts are looked up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor

from softpnet import tasks
from softpnet.errors import InputError
from softpnet.learner import Learner
from softpnet.task.data import Anchors, Data
from softpnet.task.options import check_count
from softpnet.task.task import Task


def task(
    base: str = "examples/parity_xor.py",
    choice: Literal["suggested", "random"] = "suggested",
    count: int = 10,
    split: Literal["test", "validation"] = "test",
) -> Task:
    """The task.

    Args:
        base: a task of one group whose training examples have true concepts.
        choice: which slots are labelled, beside the base's anchors.
        count: how many.
        split: of the base.
    """
    check_count("count", count)
    plain = tasks.load(base, {"split": split})
    if len(plain.space.groups) > 1:
        raise InputError(f"option base is {base}, which has {len(plain.space.groups)} groups, expected one")

    def data(streams: Callable[[str], Generator]) -> Data:
        assert plain.data is not None
        made = plain.data(streams)
        choose = _suggested if choice == "suggested" else _random
        slots = choose(plain, made, count, streams(choice))
        assert made.train.concepts is not None and isinstance(made.anchors, Anchors)
        shown = plain.space.primitives(made.train.concepts)[0][slots[:, 0], slots[:, 1]]
        more = Anchors.at(plain.space, made.train.inputs, slots, shown)
        return made._replace(anchors=made.anchors.joined(more))

    return dataclasses.replace(plain, name=f"{plain.name}_{choice}", data=data)


def _suggested(plain: Task, made: Data, count: int, generator: Generator) -> Tensor:
    """Slots `[count, 2]` that a first model names; its seed is drawn."""
    seed = int(torch.randint(2**31, (), generator=generator))
    model = Learner(plain, seed=seed, threads=1).fit(made.train.inputs, made.train.labels, made.anchors)
    if model.interrupted:
        raise KeyboardInterrupt
    return model.suggest_anchors(made.train.inputs, made.train.labels, count)


def _random(plain: Task, made: Data, count: int, generator: Generator) -> Tensor:
    """Distinct slots `[count, 2]`, each as likely."""
    slots = torch.tensor(plain.space.groups[0].slots)
    drawn = torch.randperm(len(made.train.inputs) * len(slots), generator=generator)[:count]
    return torch.stack([drawn // len(slots), slots[drawn % len(slots)]], dim=1)
