"""How well concepts and labels are read: accuracy, F1, gap, collapse; and how honest their probabilities are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.task.concepts import ConceptSpace
from softpnet.task.integers import any_entry

BINS = 15
"""Of the calibration error: as many as everyone has."""


class Part(NamedTuple):
    """An attribute of a group: what is judged by itself, so that it does not hide in a mean."""

    name: str  # "speed", "attribute 1", "look/attribute 1"; "" where the space has one only
    group: int
    attribute: int

    def of(self, space: ConceptSpace, assignments: Tensor) -> Tensor:
        """Its values in assignments `[N, k]`: `[N, n_g]`."""
        return space.split(assignments)[self.group][..., self.attribute]


def parts(space: ConceptSpace) -> list[Part]:
    """Every attribute of every group, named by what tells it from the others."""
    found = []
    for g, group in enumerate(space.groups):
        for a in range(len(group.values)):
            names = [group.name] * (len(space.groups) > 1) + [f"attribute {a}"] * (len(group.values) > 1)
            found.append(Part("/".join(names), g, a))
    return found


def all_metrics(
    space: ConceptSpace,
    concepts: Tensor,
    labels: Tensor,
    probabilities: Tensor,
    true_concepts: Tensor | None,
    true_labels: Tensor,
    label_probabilities: Tensor | None,
    unknown: Tensor | None = None,
) -> dict[str, float]:
    """Of labels and, where the true ones are known, of concepts, and how far labels are ahead of them: the gap.

    Probabilities are those of every value `[N, k, h]`, and P(y|x) of the labels that were read `[N]`, where known.
    Of label vectors, `unknown` `[N, m]` are the entries whose truth nobody knows.
    """
    found = label_metrics(labels, true_labels, unknown)
    if true_concepts is not None:
        found = concept_metrics(space, concepts, true_concepts) | found
        found["gap"] = found["label_accuracy"] - found["concept_accuracy"]
        found |= concept_calibration(space, probabilities, true_concepts)
    if label_probabilities is not None:
        whole = slice(None) if unknown is None else ~any_entry(unknown)
        if len(true_labels[whole]):
            right = ~any_entry((labels != true_labels)[whole])
            found["label_ece"] = calibration_error(label_probabilities[whole], right)
    return found


def label_metrics(predicted: Tensor, true: Tensor, unknown: Tensor | None = None) -> dict[str, float]:
    """Accuracy, and F1: of the class 1 where labels are 0 and 1, macro over classes otherwise.

    A label vector is right as a whole; the accuracy of each entry has an entry of its own, "label_accuracy/entry 0".
    Entries that are unknown `[N, m]` are not judged, nor are examples that have no others.
    """
    known = torch.ones_like(true, dtype=torch.bool) if unknown is None else ~unknown
    if not known.any():
        raise InputError("no label has a known entry (all are -1), so that there is nothing to judge by; give labels")
    wrong = (predicted != true) & known
    accuracy = _share(~any_entry(wrong)[any_entry(known)])
    columns = [(predicted, true)]
    if true.dim() > 1:
        by_entry = zip(predicted.T, true.T, known.T, strict=True)
        columns = [(p[judged], t[judged]) for p, t, judged in by_entry]
    entries = {}
    if len(columns) > 1:
        entries = {f"label_accuracy/{entry_name(e)}": _share(p == t) for e, (p, t) in enumerate(columns) if len(t)}
    return {"label_accuracy": accuracy, **entries, "label_f1": _mean([_label_f1(p, t) for p, t in columns if len(t)])}


def entry_name(entry: int) -> str:
    """What an entry of a label vector is called."""
    return f"entry {entry}"


def concept_metrics(space: ConceptSpace, predicted: Tensor, true: Tensor) -> dict[str, float]:
    """Assignments `[N, k]` against the truth, in both conventions: per attribute, and per primitive.

    F1 is macro over the values that occur, in the truth or in what was predicted; collapse is the share of concept
    values that are never predicted. Where there are several groups or attributes, the accuracy of each has an entry of
    its own, "concept_accuracy/speed".
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
    by_part = {
        f"concept_accuracy/{part.name}": _share(part.of(space, predicted) == part.of(space, true))
        for part in parts(space)
        if part.name
    }
    return {
        "concept_accuracy": _share(predicted == true),
        **by_part,
        "concept_f1": _mean(attribute_f1),
        "primitive_accuracy": float(torch.cat(right, dim=1).mean()),
        "primitive_f1": _mean(primitive_f1),
        "collapse": 1 - used / values,
    }


def concept_calibration(space: ConceptSpace, probabilities: Tensor, true: Tensor) -> dict[str, float]:
    """The calibration error of concepts with probabilities `[N, k, h]`, of the values that are read; where there are
    several groups or attributes, that of each too, "concept_ece/speed"."""
    sure, read = probabilities.max(-1)  # [N, k]
    right = read == true
    by_part = {
        f"concept_ece/{part.name}": calibration_error(part.of(space, sure), part.of(space, right))
        for part in parts(space)
        if part.name
    }
    return {"concept_ece": calibration_error(sure, right), **by_part}


def calibration_error(confidence: Tensor, right: Tensor) -> float:
    """Expected calibration error: how far, in bins of equal confidence, the share that is right is from the mean
    confidence; the mean over the bins, weighted by how much is in each."""
    sure, hit = confidence.flatten().double(), right.flatten().double()
    bins = (sure * BINS).long().clamp(0, BINS - 1)  # the last one holds 1 too
    return float((hit - sure).new_zeros(BINS).index_add_(0, bins, hit - sure).abs().sum() / len(sure))


def common(names: Iterable[str]) -> list[str]:
    """The names of metrics that records of every age and task have, sorted: those of single groups, attributes and
    entries are left out, and calibration errors, which older records lack."""
    return sorted(name for name in names if "/" not in name and not name.endswith("_ece"))


class Mistake(NamedTuple):
    """The value that was most often taken for another."""

    value: str
    taken_for: str
    share: float  # of the slots that show the value


def most_frequent_mistake(space: ConceptSpace, part: Part, predicted: Tensor, true: Tensor) -> Mistake | None:
    """Of one attribute of one group, in assignments `[N, k]`; None where it was always read right."""
    names = space.groups[part.group].value_names[part.attribute]
    seen, truth = (part.of(space, each).flatten() for each in (predicted, true))
    counts = (truth * len(names) + seen).bincount(minlength=len(names) ** 2).view(len(names), -1)  # [h, h]
    wrong = counts.clone().fill_diagonal_(0)
    if not wrong.any():
        return None
    value, other = divmod(int(wrong.argmax()), len(names))
    return Mistake(names[value], names[other], int(counts[value, other]) / int(counts[value].sum()))


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


def _share(right: Tensor) -> float:
    return float(right.float().mean())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
