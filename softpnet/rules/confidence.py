"""How sure the label is: P(y|x) of a label that was read, by the compiled rule."""

from __future__ import annotations

import torch
from torch import Tensor

from softpnet.rules.compile import compilation
from softpnet.rules.diagram import CompiledRule
from softpnet.rules.solvers import Listed
from softpnet.task.task import Task

AT_ONCE = 64
"""Examples of one sweep, as in a training step: a wide diagram takes memory for each."""


def compiled_rule(task: Task) -> CompiledRule | None:
    """The rule, if it knows every label. A solver's is not asked for: listing its solutions may take minutes."""
    rule = None if isinstance(task.rule, Listed) else compilation(task).rule
    return rule if rule is not None and rule.is_total else None


def label_probabilities(task: Task, labels: Tensor, probabilities: Tensor) -> Tensor | None:
    """P(y|x) of labels `[N]` or `[N, m]`, the sum over all of S(y), from concepts' probabilities `[N, k, h]`: `[N]`.

    None where the rule is not compiled.
    """
    rule = compiled_rule(task)
    if rule is None:
        return None
    asked = zip(probabilities.log().split(AT_ONCE), labels.split(AT_ONCE), strict=True)
    return torch.cat([rule.log_prob(*part) for part in asked]).exp().clamp_max(1)  # rounding may lead beyond
