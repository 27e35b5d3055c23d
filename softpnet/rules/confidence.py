"""How sure the label is: P(y|x) of a label that was read, by the compiled rule."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from softpnet.errors import TaskError
from softpnet.rules.compile import compilation
from softpnet.rules.diagram import CompiledRule
from softpnet.rules.solvers import Listed
from softpnet.task.task import Task

AT_ONCE = 64
"""Examples of one sweep, as in a training step: a wide diagram takes memory for each."""


def compiled_rule(task: Task) -> CompiledRule | None:
    """The rule, if it is compiled and knows every label. A solver's is not asked for: listing its solutions may take
    minutes."""
    try:
        rule = None if isinstance(task.rule, Listed) else compilation(task).rule
    except TaskError:  # a method that needs no compiled rule trains all the same
        return None
    return rule if rule is not None and rule.is_total else None


def asked(question: Callable[..., Tensor], *given: Tensor) -> Tensor | None:
    """What a compiled rule answers to `[N, ...]`, some examples at a time; None where it is too large to be asked."""
    try:
        return torch.cat([question(*part) for part in zip(*(each.split(AT_ONCE) for each in given), strict=True)])
    except TaskError:
        return None


def label_probabilities(task: Task, labels: Tensor, probabilities: Tensor) -> Tensor | None:
    """P(y|x) of labels `[N]` or `[N, m]`, the sum over all of S(y), from concepts' probabilities `[N, k, h]`: `[N]`.

    None where the rule is not compiled, or too large to be asked.
    """
    rule = compiled_rule(task)
    found = None if rule is None else asked(rule.log_prob, probabilities.log(), labels)
    return None if found is None else found.exp().clamp_max(1)  # rounding may lead beyond
