"""How well concepts and labels are read (METHOD: accuracy, F1, gap, collapse)."""

from __future__ import annotations

import torch
from torch import Tensor

from softpnet.concepts import ConceptSpace


def label_metrics(predicted: Tensor, true: Tensor) -> dict[str, float]:
    """Accuracy, and F1: of the class 1 where labels are 0 and 1, macro over classes otherwise."""
    right = predicted == true
    accuracy = float((right if right.dim() == 1 else right.all(1)).float().mean())
    columns = [(predicted, true)] if true.dim() == 1 else list(zip(predicted.T, true.T, strict=True))
    return {"label_accuracy": accuracy, "label_f1": _mean([_label_f1(p, t) for p, t in columns])}


def concept_metrics(space: ConceptSpace, predicted: Tensor, true: Tensor) -> dict[str, float]:
    """Assignments `[N, k]` against the truth, in both conventions: per attribute, and per primitive.

    F1 is macro over the values that occur, in the truth or in what was predicted; collapse is the share of concept
    values that are never predicted.
    """
    attribute_f1, primitive_f1, used, values = [], [], 0, 0
    for group, seen, truth in zip(space.groups, space.split(predicted), space.split(true), strict=True):
        for j, h in enumerate(group.values):
            attribute_f1.append(_f1(seen[..., j], truth[..., j], _occurring(seen[..., j], truth[..., j])))
            used += len(seen[..., j].unique())
            values += h
    right = []
    for seen, truth in zip(space.primitives(predicted), space.primitives(true), strict=True):
        right.append(((seen == truth) & (truth >= 0)).float())
        primitive_f1.append(_f1(seen, truth, _occurring(seen, truth)))
    return {
        "concept_accuracy": float((predicted == true).float().mean()),
        "concept_f1": _mean(attribute_f1),
        "primitive_accuracy": float(torch.cat(right, dim=1).mean()),
        "primitive_f1": _mean(primitive_f1),
        "collapse": 1 - used / values,
    }


def _label_f1(predicted: Tensor, true: Tensor) -> float:
    classes = true.unique().tolist()
    return _f1(predicted, true, [1]) if classes in ([0], [1], [0, 1]) else _f1(predicted, true, classes)


def _f1(predicted: Tensor, true: Tensor, classes: list[int]) -> float:
    from sklearn.metrics import f1_score

    if not classes:
        return 0.0
    return float(f1_score(true.flatten(), predicted.flatten(), labels=classes, average="macro", zero_division=0))


def _occurring(predicted: Tensor, true: Tensor) -> list[int]:
    """Classes in either; what is below zero is none."""
    return [value for value in torch.cat([predicted, true]).unique().tolist() if value >= 0]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
