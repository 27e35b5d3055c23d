"""After training: the calibration of a model, from its training inputs and labels alone.

A network is too sure of the inputs that it was trained on, so it is asked about augmented views of them. Their target
is that of the clean input, as in training: what the network reads there, given the label. No true concept is needed.
"""

from __future__ import annotations

import functools

import torch
from torch import Generator, Tensor

from softpnet.networks.calibration import Calibration, fitted
from softpnet.networks.reader import Reader, read
from softpnet.networks.views import augmentation, random_views
from softpnet.rules.confidence import asked, compiled_rule
from softpnet.rules.noise import noisy_marginals
from softpnet.task.lazy import numbers, readable
from softpnet.task.task import Task
from softpnet.training.prepare import Given
from softpnet.training.streams import stream_seed

INPUTS = 4096
"""About so many inputs are looked at."""


@torch.no_grad()
def calibrated(task: Task, module: Reader, given: Given, seed: int, noise: float = 0.0) -> Calibration:
    """The calibration of a module that is ready for inference. No stream of the training is drawn from."""
    generator = Generator().manual_seed(stream_seed(seed, "calibration"))
    chosen = torch.randperm(len(given.inputs), generator=generator)[: max(1, INPUTS // task.space.slots)]
    chosen, found = readable(given.inputs, chosen)
    inputs = numbers(found.to(module.device))
    clean, seen = read(module, inputs), read(module, random_views(task, inputs, generator))  # [B, k, h]
    fine = torch.isfinite(clean.amax(-1) + seen.amax(-1)).all(1)  # what cannot be read teaches nothing
    # Without augmentation, the same inputs again would only make the model surer of itself.
    still = augmentation(task, inputs[0, 0]) is None
    target = exact_target(task, clean[fine], given.labels[chosen].to(fine.device)[fine], noise).cpu()
    return fitted(task.space, seen[fine].cpu(), torch.zeros_like(target) if still else target)


def exact_target(task: Task, log_p: Tensor, labels: Tensor, noise: float = 0.0) -> Tensor:
    """The soft target `[B, k, h]` of inputs that are read as log p `[B, k, h]`; a share `noise` of labels is wrong.

    It is zero, so that temperatures stay 1, where the rule is not compiled or too large to be asked.
    """
    rule = compiled_rule(task)
    if rule is None or not len(labels):
        return torch.zeros_like(log_p)
    doubting = functools.partial(noisy_marginals, rule, noise=noise)
    found = asked(doubting if noise else rule.marginals, log_p, labels)
    return torch.zeros_like(log_p) if found is None else found
