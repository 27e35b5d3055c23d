"""Task: a concept space and a rule; how its data, cached rows and moves are made, where it brings its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from torch import Generator, Tensor, nn

from softpnet.errors import InputError, TaskError
from softpnet.task.concepts import ConceptSpace, check_name
from softpnet.task.data import Data
from softpnet.task.rows import Rows
from softpnet.task.settings import PRESETS, Preset, checked_preset

Rule = Callable[[Tensor], Tensor]
"""f_K, vectorised: assignments `[..., k]` -> integer labels `[...]` or label vectors `[..., m]`."""

Move = Callable[[Tensor, Generator], Tensor]
"""Proposal of the walk: rows `[..., k]` -> rows `[..., k]`. Contract: the label stays, c -> c' is as likely as c' -> c,
and the whole batch is moved at once. A row that cannot move stays. The generator is the
CPU's, wherever the rows are."""


Augment = Callable[[Tensor, Generator], Tensor]
"""Augmentation: inputs `[..., *shape]` -> a fresh random view of each, same shape and type. Contract: the whole batch
is changed at once, all draws are from the generator (the CPU's, wherever the inputs are), and the inputs stay."""

AUTO: Literal["auto"] = "auto"
"""The augmentation of a task that names none: the paper's for images, noise for vectors, none for other inputs."""


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
        rule: f_K: a function, vectorised, `[..., k] -> [...]` or `[..., m]`, integers; or a `Machine`, `Rows`, or a
            solver's model, which are such functions and say how they are compiled.
        name: for run folders and tables.
        rows: makes the feasible assignments for the cache; unless given, all are enumerated, or some are drawn from
            the compiled rule.
        move: the walk's proposal; unless given, another cached row with the same label, or some concepts drawn anew
            by the compiled rule.
        corrupt: for labels whose candidates are corrupted rows of another label.
        order: in which order a compiled rule reads the concepts; a good one is looked for unless given.
        data: makes training data, anchors and test sets from named random streams; needed by the command line only.
        encoder: a name, such as "mlp", a module, a function from the number of channels to one, or a dict of these by
            encoder name; conv4 unless given.
        background: pixel value outside an augmented image.
        augment: makes random views of anchors and inputs, `softpnet.augment` has some; None for none at all. Unless
            given, images are turned, moved, scaled and sheared, and what comes from outside is background; vectors get
            some noise; other inputs stay as they are.
        settings: fields of `Settings` that are this task's own, by name.
        presets: those that it has in one preset only, by the preset's name: `{"paper": {"rule_weight": 5.0}}`.
        search: what `softpnet search` looks through unless told otherwise: `{"learning_rate": "1e-4..1e-2"}`.
        origin: where the task was found, so that a saved model can find it again; set by `tasks.load`.
    """

    space: ConceptSpace
    rule: Rule
    name: str = "task"
    rows: Callable[[Generator], Rows] | None = None
    move: Move | None = None
    corrupt: Corruption | None = None
    order: Sequence[int] | None = None
    data: Callable[[Callable[[str], Generator]], Data] | None = None
    encoder: str | nn.Module | Callable[[int], nn.Module] | Mapping[str, Any] | None = None
    background: float = 0.0
    augment: Augment | Literal["auto"] | None = AUTO
    settings: Mapping[str, Any] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    search: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, Any] | None = None
    # what is worked out once for all, by name: the compiled rule
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name("a task", self.name)

    def settings_in(self, preset: Preset) -> dict[str, Any]:
        """Its own settings in a preset, by name."""
        if not isinstance(self.presets, Mapping) or not set(self.presets) <= set(PRESETS):
            raise TaskError(
                f"the presets of task {self.name!r} are {self.presets!r}, expected settings by the name of a preset "
                f"({', '.join(PRESETS)}), {{'paper': {{'epochs': 10}}}}"
            )
        layers = self.settings, self.presets.get(checked_preset(preset), {})
        for layer in layers:
            if not isinstance(layer, Mapping):
                raise TaskError(
                    f"the settings of the task are {type(layer).__name__} {layer!r}, expected a dict by name, "
                    "{'epochs': 10}"
                )
        return {**layers[0], **layers[1]}

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
