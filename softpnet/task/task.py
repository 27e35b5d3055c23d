"""Task: a concept space and a rule; how its data, cached rows and moves are made, where it brings its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Generator, Tensor, nn

from softpnet.errors import InputError
from softpnet.task.concepts import ConceptSpace, check_name
from softpnet.task.data import Data

Rule = Callable[[Tensor], Tensor]
"""f_K, vectorised: assignments `[..., k]` -> integer labels `[...]` or label vectors `[..., m]`."""

Move = Callable[[Tensor, Generator], Tensor]
"""Proposal of the walk: rows `[..., k]` -> rows `[..., k]`. Contract: the label stays, c -> c' is as likely as c' -> c,
and the whole batch is moved at once. A row that cannot move stays."""

LabelLogProb = Callable[[Tensor, Tensor], Tensor]
"""log P(y|x): log p `[B, k, h]`, labels `[B]` or `[B, m]` -> `[B]`. Contract: exactly the sum of p(c|x), the product of
the concepts' own probabilities, over all assignments with that label; with gradient; on log p's device."""


class Rows(NamedTuple):
    """Feasible assignments from a solver or generator, before verification."""

    rows: Tensor  # [M, k]
    complete: Tensor  # labels [L] or [L, m] of which every assignment is among the rows
    labels: Tensor | None = None  # [M], what the rows are claimed to give; checked


class Corruption(NamedTuple):
    """phi: examples labelled `label` keep candidates labelled `source`, corrupted when the loss is computed."""

    label: int
    source: int
    apply: Callable[[Tensor, Generator], Tensor]  # rows [..., k] of `source` -> rows of `label`


@dataclass(frozen=True)
class Task:
    """A rule over hidden concepts. `space` and `rule` are enough; the rest has defaults that fit small spaces.

    Args:
        space: the concepts of one example.
        rule: f_K, vectorised, `[..., k] -> [...]` or `[..., m]`, integers.
        name: for run folders and tables.
        rows: makes the feasible assignments for the cache; every assignment is enumerated unless given.
        move: the walk's proposal; another cached row with the same label unless given.
        corrupt: for labels whose candidates are corrupted rows of another label.
        label_log_prob: log P(y|x) for methods that sum it; from all assignments or complete rows unless given.
        data: makes training data, anchors and test sets from named random streams; needed by the command line only.
        encoder: makes the encoder of one group from the number of image channels; conv4 unless given.
        background: pixel value outside an augmented image.
        settings: fields of `Settings` that are this task's own, by name.
        origin: where the task was found, so that a saved model can find it again; set by `tasks.load`.
    """

    space: ConceptSpace
    rule: Rule
    name: str = "task"
    rows: Callable[[Generator], Rows] | None = None
    move: Move | None = None
    corrupt: Corruption | None = None
    label_log_prob: LabelLogProb | None = None
    data: Callable[[Callable[[str], Generator]], Data] | None = None
    encoder: Callable[[int], nn.Module] | None = None
    background: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_name("a task", self.name)

    def satisfies(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Whether each row `[B, K, k]` has its example's label `[B]` or `[B, m]`: `[B, K]`."""
        given = self.rule(rows)
        same = given == labels[:, None]
        return same if given.dim() == rows.dim() - 1 else same.all(-1)


def checked_task(task: Any, who: str) -> Task:
    """The task, if it is one."""
    if not isinstance(task, Task):
        raise InputError(
            f"{who} was given {type(task).__name__}, expected a softpnet.Task; tasks.load(NAME) makes a built-in one"
        )
    return task
