"""What a person is told about the scores of a model, beside the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from softpnet.learner import Learner
from softpnet.metrics import Part, entry_name, most_frequent_mistake, parts
from softpnet.rules.function import some_rows
from softpnet.task.data import Examples
from softpnet.task.task import Task

SUSPICIOUS_GAP = 0.05
"""Label minus concept accuracy above this is remarked upon."""

TRIED = 2_000
"""Random assignments that show which entries of a label vector depend on a group."""


def remarks(model: Learner, tests: Mapping[str, Examples], metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A sentence for each test set whose labels are right much more often than the worst read of its concepts."""
    found = []
    for split, values in metrics.items():
        if "concept_accuracy" not in values or is_untrained(model):
            continue
        gaps = [_gap(model.task, part, values) for part in parts(model.task.space)]
        worst = max(gaps, key=lambda gap: gap.size)
        if worst.size > SUSPICIOUS_GAP:
            read = repr(worst.part.name.replace("/", ", ")) if worst.part.name else "concepts"
            found.append(
                f"{split}: {worst.labels} right more often than {read}, by {100 * worst.size:.1f} points"
                f"{_mistake(model, tests[split], worst.part)}. Unless labels are at chance, that is a reasoning "
                "shortcut: `softpnet suggest RUN` (with `--task FILE` for a task of your own) names what to label "
                "next, and docs/when-concepts-stay-wrong.md what else to do"
            )
    return found


def worst_gap(model: Learner, values: Mapping[str, float]) -> float:
    """How much more often labels are right than the worst read part of the concepts; 0 where these are unknown, or
    nothing was learned yet."""
    if "concept_accuracy" not in values or is_untrained(model):
        return 0.0
    return max(_gap(model.task, part, values).size for part in parts(model.task.space))


def is_untrained(model: Learner) -> bool:
    """Whether training was stopped before its first epoch was done: its readings are then no shortcut."""
    return model.interrupted and not model.history


class _Gap(NamedTuple):
    size: float
    part: Part
    labels: str  # what is right more often: all labels, or one entry of them


def _gap(task: Task, part: Part, values: Mapping[str, float]) -> _Gap:
    """How much more often labels are right than this part."""
    own = values[f"concept_accuracy/{part.name}" if part.name else "concept_accuracy"]
    labels = {"labels are": values["label_accuracy"]}
    for entry in _entries_that_depend_on(task, part):
        name = entry_name(entry)
        labels[f"{name} of the labels is"] = values[f"label_accuracy/{name}"]
    best = max(labels, key=lambda name: labels[name])
    return _Gap(labels[best] - own, part, best)


def _entries_that_depend_on(task: Task, part: Part) -> list[int]:
    """Entries of a label vector that change for some assignment, if only this part of it does; none for plain labels.

    An entry that has nothing to do with a group may be right though the group is read wrong.
    """
    rows = some_rows(task.space, TRIED)
    changed = rows.clone()
    part.of(task.space, changed).copy_(part.of(task.space, rows).roll(1, 0))  # `of` is a view
    before, after = task.rule(rows.clone()), task.rule(changed)
    if before.dim() == 1 or before.shape[1] == 1:
        return []
    return (before != after).any(0).nonzero().flatten().tolist()


def _mistake(model: Learner, examples: Examples, part: Part) -> str:
    """The most frequent wrong reading in words."""
    assert examples.concepts is not None  # or there were no accuracy of concepts
    predicted = model.predict(examples.inputs).concepts
    found = most_frequent_mistake(model.task.space, part, predicted, examples.concepts.long())
    return "" if found is None else f" ({100 * found.share:.0f} % of {found.value!r} read as {found.taken_for!r})"
