"""Calibration: a temperature per group that makes probabilities honest, and how sure is sure enough."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.networks.reader import Prediction
from softpnet.task.concepts import ConceptSpace
from softpnet.task.task import Task

COOLEST, HOTTEST = 0.25, 16.0
"""No temperature is outside: where all is right, or all is wrong, the best one is at infinity."""
HALVINGS = 40
KEPT = 1001
"""So many confidences are kept with a model."""


class Calibration(NamedTuple):
    """What is kept with a model, found after its training without any true concept."""

    temperatures: Tensor  # [G]
    confidences: Tensor  # [Q], the probability of the value that was read, of views of training inputs; highest first

    def tempered(self, space: ConceptSpace, log_p: Tensor) -> Tensor:
        """log p `[B, k, h]` at the temperature of each concept's group: the order of the values stays."""
        return tempered(space, log_p, self.temperatures)

    def threshold(self, reject: float) -> float:
        """The lowest confidence at which the concepts that are at least so sure have, together, the expected error
        `reject` at most. It is the model's, so that what is told of an example does not depend on others."""
        errors = (1 - self.confidences.double()).cumsum(0) / torch.arange(1, len(self.confidences) + 1)  # [Q], rising
        if errors[-1] <= reject:
            return 0.0
        last_of_equals = self.confidences.diff() < 0  # [Q - 1]: what is equally sure is told together
        fine = self.confidences[:-1][last_of_equals & (errors[:-1] <= reject)]
        return float(fine[-1]) if len(fine) else torch.inf


def tempered(space: ConceptSpace, log_p: Tensor, temperatures: Tensor) -> Tensor:
    """log p `[B, k, h]` at temperatures `[G]`."""
    sizes = torch.tensor([group.size for group in space.groups])
    return torch.log_softmax(log_p / temperatures.repeat_interleave(sizes)[:, None].to(log_p), dim=-1)


def decided(task: Task, log_p: Tensor, calibration: Calibration | None, reject: float | None = None) -> Prediction:
    """What is told of examples that are read as log p `[N, k, h]`; -1 where they are not sure enough for `reject`.

    It is on the CPU, wherever log p is.
    """
    check_reject(reject, calibration)
    concepts = log_p.argmax(-1).cpu()
    labels = task.rule(concepts)
    probabilities = (log_p if calibration is None else calibration.tempered(task.space, log_p)).exp().cpu()
    if calibration is None or reject is None:
        return Prediction(concepts, labels, probabilities)
    told = probabilities.amax(-1) >= calibration.threshold(reject)  # [N, k]
    whole = told.all(1) if labels.dim() == 1 else told.all(1, keepdim=True)
    return Prediction(concepts.where(told, -1), labels.where(whole, -1), probabilities)


def check_reject(reject: Any, calibration: Calibration | None) -> None:
    """Raise for a share that is none, and where a model has no calibration to abstain by."""
    if reject is None:
        return
    if not isinstance(reject, (int, float)) or isinstance(reject, bool) or not 0 <= reject <= 1:
        raise InputError(f"reject is {reject!r:.100}, expected a share from 0 to 1, such as 0.05")
    if calibration is None:
        raise InputError(
            f"reject is {reject!r}, but this model was trained before calibration was kept with models, so how far its "
            "probabilities can be trusted is unknown; train it again, or leave reject out"
        )


def fitted(space: ConceptSpace, log_p: Tensor, target: Tensor) -> Calibration:
    """The calibration of what is read as log p `[B, k, h]` towards a target `[B, k, h]`, zero where there is none."""
    temperatures = best_temperatures(space, log_p, target)
    sure = tempered(space, log_p, temperatures).exp().amax(-1).flatten()
    ordered = sure.sort(descending=True).values if len(sure) else torch.zeros(1)
    chosen = torch.linspace(0, len(ordered) - 1, min(KEPT, len(ordered))).round().long()
    return Calibration(temperatures, ordered[chosen].clamp(0, 1).float())


def best_temperatures(space: ConceptSpace, log_p: Tensor, target: Tensor) -> Tensor:
    """The temperature of each group `[G]` with the lowest cross-entropy of the target to the tempered log p; 1 for a
    group without a target.

    The cross-entropy is convex in one over the temperature, so its slope is zero once: found by halving.
    """
    log_p, target = log_p.double(), target.double()
    finite = log_p.masked_fill(log_p.isinf(), 0.0)
    taught = target.sum(-1)  # [B, k], 1 or 0
    wanted = _by_group(space, (target * finite).sum((0, 2)))  # [G]

    def slope(inverse: Tensor) -> Tensor:
        each = inverse.repeat_interleave(sizes)[:, None]  # [k, 1]
        found = (log_p * each).softmax(-1)  # [B, k, h]
        return _by_group(space, ((found * finite).sum(-1) * taught).sum(0)) - wanted

    sizes = torch.tensor([group.size for group in space.groups])
    low = torch.full((len(sizes),), 1 / HOTTEST, dtype=torch.float64).log()
    high = torch.full((len(sizes),), 1 / COOLEST, dtype=torch.float64).log()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rising = slope(middle.exp()) > 0
        low, high = torch.where(rising, low, middle), torch.where(rising, middle, high)
    return torch.where(_by_group(space, taught.sum(0)) > 0, (-(low + high) / 2).exp(), 1.0).float()


def _by_group(space: ConceptSpace, values: Tensor) -> Tensor:
    """Sums over the concepts of each group: `[k]` -> `[G]`."""
    return torch.stack([part.sum() for part in values.split([group.size for group in space.groups])])
