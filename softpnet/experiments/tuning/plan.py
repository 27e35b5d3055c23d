"""What a search is about: a task and how it is trained, what is searched, and by what trials are judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from softpnet import methods, tasks
from softpnet.errors import InputError
from softpnet.experiments.rows import Row
from softpnet.experiments.tuning.outcome import Outcome
from softpnet.experiments.tuning.space import DEFAULT, Space, read_space
from softpnet.learner import Learner
from softpnet.rules.confidence import compiled_rule
from softpnet.task.hardware import SINGLE
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.training.launcher import check_alone
from softpnet.training.processes import checked_device

Metric = Literal["label_accuracy", "rule_agreement", "concept_accuracy"]
"""Of the held-out training examples; the first two need no concepts."""

SHARE = 0.1
"""Of the training examples: held out to judge by, unless the user or the task says how many."""

EVERYTHING = {"validation": 0, "keep": "last", "patience": 0}
"""Settings that learn from all training examples: what judges epochs by held-out ones is off."""


@dataclass(frozen=True)
class Plan:
    """All that every process that takes part in a search must agree on, and where it computes."""

    task: Task
    row: Row
    """How the default is trained: settings are those that the user gave, for all trials."""
    seed: int
    metric: Metric
    space: Space
    settings: Settings
    """Of the default, resolved."""
    hardware: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings that a trial is given beside those that are searched."""
        return {"validation": self.settings.validation, **self.row.settings}

    def identity(self) -> dict[str, Any]:
        """What tells this study from others, as JSON has it."""
        held = {name: value for name, value in dataclasses.asdict(self.settings).items() if name not in self.space}
        origin = self.task.origin or {}
        return {
            "task": self.task.name,
            "task file's sha256": origin.get("sha256"),
            "options": dict(self.row.options),
            "method": self.row.method,
            "preset": self.row.preset,
            "encoder": self.row.encoder,
            "seed": self.seed,
            "metric": self.metric,
            "precision": self.hardware.get("precision", SINGLE),
            "space": {name: searched.text for name, searched in self.space.items()},
            "settings": held,
        }

    def learner(self, values: Mapping[str, Any]) -> Learner:
        """An untrained one with these values of what is searched."""
        row = self.row
        chosen: dict[str, Any] = {"encoder": row.encoder or None, "seed": self.seed, "preset": row.preset}
        return Learner(self.task, method=row.method, **chosen, **self.fixed, **values, **self.hardware)

    def noted_hardware(self) -> dict[str, Any]:
        """What the bits of a trial hang on where this process makes it, as options."""
        noted = {name: self.hardware[name] for name in ("threads", "device", "precision") if name in self.hardware}
        if noted.get("device") == "auto":
            noted["device"] = checked_device("auto").type
        return noted

    def command(self, trial: Outcome) -> str:
        """The training of a trial, to be pasted into a shell: it makes the trial's bits again."""
        hardware = self.noted_hardware() if trial.hardware is None else trial.hardware
        row = dataclasses.replace(self.row, settings={**self.fixed, **trial.values, **hardware})
        return row.command_line(self.seed)

    def everything(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a training with these values that holds nothing out."""
        return {**self.row.settings, **values, **EVERYTHING}


def make_plan(
    row: Row, seed: int, metric: Metric, over: Mapping[str, str], hardware: Mapping[str, Any] | None = None
) -> Plan:
    """The plan, checked before anything is trained: names, ranges, and whether there is something to judge by."""
    task = tasks.load(row.task, row.options)
    fixed = methods.find(row.method).fixed
    if not over:
        if not isinstance(task.search, Mapping):
            raise InputError(
                f"what task {task.name!r} says to search is {task.search!r}, expected ranges by the name of a setting, "
                "{'learning_rate': '1e-4..1e-2'}"
            )
        held = {**fixed, **row.settings}
        over = {name: text for name, text in (task.search or DEFAULT).items() if name not in held}
    if not over:
        raise InputError("nothing is left to search, since all of it is given or fixed; name settings with --over")
    space = read_space(over)
    for name, searched in space.items():
        if name in row.settings:
            raise InputError(f"setting {name} is both given and searched over {searched.text!r}; leave one out")
        if name in fixed:
            raise InputError(f"setting {name} cannot be searched, since method {row.method!r} is defined by it")
    where = {"threads": 1, **(hardware or {})}
    if where.get("processes", 1) != 1:
        raise InputError(
            f"--processes is {where['processes']}, but a trial is trained by one; --jobs trains several side by side"
        )
    check_alone("a trial is trained by one")
    model = Learner(task, method=row.method, preset=row.preset, seed=seed, **row.settings, **where)
    if "precision" in where:
        where["precision"] = model.hardware.precision  # what "auto" stands for here: hosts must agree
    settings = model.settings
    if not settings.validation:
        if "validation" in row.settings:
            raise InputError("validation is 0, but trials are judged by what is held out; give a share such as 0.1")
        settings = settings.override(validation=SHARE)
    if metric == "rule_agreement" and compiled_rule(task) is None:
        raise InputError(
            f"metric rule_agreement needs a rule that is compiled exactly, which that of task {task.name!r} is not; "
            "choose label_accuracy"
        )
    return Plan(task, row, seed, metric, space, settings, where)
