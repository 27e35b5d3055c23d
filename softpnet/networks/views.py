"""Random views of inputs, by the augmentation that the task says."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError, user_code
from softpnet.networks.augmentation import affine, noise
from softpnet.task.task import AUTO, Augment, Task


def augmentation(task: Task, like: Tensor) -> Augment | None:
    """How inputs like that, `[*shape]`, are augmented, if at all."""
    augment = task.augment
    if augment == AUTO:
        if not like.is_floating_point() or like.dim() not in (1, 3):
            return None
        return affine(task.background) if like.dim() == 3 else noise()
    if augment is not None and not callable(augment):
        raise TaskError(
            f"augment of task {task.name!r} is {augment!r}, expected a function of inputs and a generator, "
            f"{AUTO!r}, or None for no augmentation"
        )
    return augment


def random_views(task: Task, inputs: Tensor, generator: Generator) -> Tensor:
    """Inputs `[B, n, *shape]`, augmented; the inputs themselves where there is no augmentation for them."""
    if not inputs.numel():
        return inputs
    augment = augmentation(task, inputs[0, 0])
    if augment is None:
        return inputs
    shape = list(inputs.shape)
    with user_code(f"augment of task {task.name!r} failed when called with inputs {shape} and a generator"):
        views = augment(inputs, generator)
    if not isinstance(views, Tensor) or views.shape != inputs.shape or views.dtype != inputs.dtype:
        found = f"{views.dtype} {list(views.shape)}" if isinstance(views, Tensor) else type(views).__name__
        raise TaskError(
            f"augment of task {task.name!r} maps inputs {inputs.dtype} {shape} to {found}, expected the same type and "
            "shape; count dimensions from the last one"
        )
    return views


def check_augment(task: Task, anchors: Sequence[Tensor]) -> None:
    """Raise where the task's augmentation cannot be used: it is tried on copies of the anchors `[P, *shape]`."""
    for originals in anchors:
        copies = originals.expand(2, *originals.shape)
        given = copies.clone()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            views = random_views(task, given, Generator().manual_seed(0))
        if not torch.equal(given, copies):
            raise TaskError(f"augment of task {task.name!r} writes into its inputs; begin it with inputs.clone()")
        if not torch.isfinite(views).all():
            raise TaskError(f"augment of task {task.name!r} gives NaN or infinite pixels for finite ones; correct it")
