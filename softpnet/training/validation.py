"""After an epoch: the model as it would be if training ended there is judged by labels alone, and looked at."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from softpnet.errors import InputError
from softpnet.metrics import label_metrics
from softpnet.networks.finite import check_read
from softpnet.networks.reader import Reader, read_readable
from softpnet.rules.confidence import asked, compiled_rule
from softpnet.rules.labels import unknown_in
from softpnet.task.data import Examples
from softpnet.task.lazy import LazyInputs, readable
from softpnet.task.task import Task
from softpnet.training.loop import Training

LABEL_ACCURACY, RULE_AGREEMENT = "validation_label_accuracy", "validation_rule_agreement"
METRICS = LABEL_ACCURACY, RULE_AGREEMENT
"""Of the validation examples: in an epoch's record, best by the first, and by the second where that is the same."""

Watch = Callable[[Reader], Mapping[str, float] | None]


class AfterEpoch:
    """Called after every epoch: what joins its record. The best weights are kept, and an idle training is ended."""

    def __init__(self, task: Task, training: Training, validation: Examples | None, watch: Watch | None) -> None:
        self.task, self.training, self.validation, self.watch = task, training, validation, watch

    def __call__(self) -> None:
        training = self.training
        if self.validation is None and self.watch is None:
            return
        device = training.fabric.device
        # A copy, so that modes, statistics and random numbers stay as they are.
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            module = training.method.ready(copy.deepcopy(training.module))
            if self.validation is not None:
                # All processes go by what the first one reads: statistics of batch norm are each one's own.
                self._join(training.fabric.broadcast(judged(self.task, module, self.validation)))
                self._keep_best()
            if self.watch is not None:
                self._join(self.watch(module))

    def _join(self, found: Any) -> None:
        self.training.records[-1] = _joined(self.training.records[-1], found)

    def _keep_best(self) -> None:
        training = self.training
        if training.settings.keep == "best" and best_epoch(training.records) == len(training.records):
            training.best = {name: value.detach().clone() for name, value in training.held().items()}
        training.ended = is_exhausted(training.records, training.settings.patience)


@torch.no_grad()
def judged(task: Task, module: Reader, examples: Examples) -> dict[str, float]:
    """Label accuracy of what is read, and rule agreement, the mean P(y|x) of the given labels, where the rule is
    compiled."""
    ids, log_p = read_readable(module, examples.inputs)  # [M, k, h]
    if isinstance(examples.inputs, LazyInputs) and len(ids) < len(examples.inputs):
        lost = examples.inputs.lost(set(range(len(examples.inputs))) - set(ids.tolist()))
        warnings.warn(f"of the validation examples, {lost}, and are skipped", stacklevel=2)
    if not torch.isfinite(log_p.amax(-1)).all():
        check_read(log_p.amax(-1), readable(examples.inputs, ids)[1])
    labels = examples.labels[ids].long().cpu()
    accuracy = label_metrics(task.rule(log_p.argmax(-1).cpu()), labels, unknown_in(task, labels))["label_accuracy"]
    rule = compiled_rule(task)
    found = None if rule is None else asked(rule.log_prob, log_p, labels)
    agreement = {} if found is None else {RULE_AGREEMENT: float(found.exp().clamp_max(1).double().mean())}
    return {LABEL_ACCURACY: accuracy, **agreement}


def best_epoch(records: Sequence[Mapping[str, float]]) -> int:
    """The number of the best epoch, 1, 2, ...; the first of equals, and 0 where none was judged."""
    scores = [tuple(record.get(name) or 0.0 for name in METRICS) for record in records]
    known = [i for i, record in enumerate(records) if LABEL_ACCURACY in record]
    return 1 + max(known, key=lambda i: (scores[i], -i)) if known else 0


def is_exhausted(records: Sequence[Mapping[str, float]], patience: int) -> bool:
    """Whether the last `patience` epochs were no better than one before them."""
    return patience > 0 and len(records) - best_epoch(records) >= patience


def _joined(record: dict[str, float], found: Any) -> dict[str, float]:
    """An epoch's record with what `watch` returned: numbers by name, or None where it only looked."""
    found = {} if found is None else found
    if not isinstance(found, Mapping):
        raise InputError(f"watch returned {found!r:.100}, expected numbers by name, {{'accuracy': 0.9}}, or None")
    numbers = {}
    for name, value in found.items():
        if name in record:
            raise InputError(f"watch returned {name!r}, which every epoch's record already has; name it otherwise")
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"watch returned {value!r:.100} as {name!r}, expected a number") from None
    return record | numbers
