"""One trial: a training that is judged on held-out examples after every epoch, and ended if worse than most."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softpnet.errors import InputError, SoftPNetError, StopTraining, TrainingError
from softpnet.experiments.tuning.plan import Plan
from softpnet.experiments.tuning.study import PRUNED
from softpnet.rules.function import check_rule
from softpnet.task.data import Examples, make_data
from softpnet.task.inputs import check_data
from softpnet.training.allocator import keep_large_blocks
from softpnet.training.loop import Progress
from softpnet.training.split import held_out, without_infeasible
from softpnet.training.streams import Streams
from softpnet.training.validation import best_epoch

if TYPE_CHECKING:
    from softpnet.learner import Learner


class Subject:
    """The task's data, made once for all trials of a process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        check_rule(plan.task)
        self.data = make_data(plan.task, Streams(plan.seed))
        check_data(plan.task, self.data)
        self.judges = self._judges() if plan.metric == "concept_accuracy" else None
        self._check_trainable()

    def _check_trainable(self) -> None:
        """Raise what every trial would fail with, as without the device, the encoder, or enough examples to hold out.
        Where the default alone cannot be trained, that is for its trial to say."""
        train, space = self.data.train, self.plan.space
        refused: list[SoftPNetError] = []
        for values in ({}, {name: searched.values[0] for name, searched in space.items()}):
            try:
                self.plan.learner(values).prepared(train.inputs, train.labels, self.data.anchors, train.concepts)
                return
            except SoftPNetError as error:
                refused.append(error)
        raise refused[0]

    def _judges(self) -> Examples:
        """The examples that are held out, with their concepts, which no training gets to see."""
        plan, train = self.plan, self.data.train
        if train.concepts is None:
            raise InputError(
                f"metric concept_accuracy needs the concepts of training examples, which task {plan.task.name!r} does "
                "not give; choose label_accuracy or rule_agreement"
            )
        kept = without_infeasible(plan.task, train) if plan.settings.infeasible == "drop" else train
        return held_out(kept, plan.settings.validation, plan.seed)[1]

    def run(self, trial: Any, folder: Path) -> float | None:
        """Train with the values of the trial, from the last checkpoint where there is one: what is judged, None where
        it was ended early. It is left as it stands where the process is told to stop."""
        keep_large_blocks()
        model = self.plan.learner(trial.params)
        train = self.data.train
        watcher = Watcher(trial, f"validation_{self.plan.metric}", self.judges)
        model.fit(
            train.inputs,
            train.labels,
            self.data.anchors,
            concepts=train.concepts,
            run=folder,
            resume=True,
            progress=watcher.progress,
            watch=None if self.judges is None else watcher.watch,
        )
        if model.interrupted:
            raise KeyboardInterrupt
        if PRUNED in trial.user_attrs:
            return None
        kept = best_epoch(model.history) if model.settings.keep == "best" else len(model.history)
        return watcher.value(model.history[kept - 1])


class Watcher:
    """Tells the study how a trial comes along, epoch by epoch."""

    def __init__(self, trial: Any, name: str, judges: Examples | None) -> None:
        self.trial, self.name, self.judges = trial, name, judges
        self.found: dict[str, float] = {}
        self.known = set(trial.study.trials[trial.number].intermediate_values)  # epochs told before it was cut off

    def watch(self, now: Learner, state: Any) -> dict[str, float]:
        assert self.judges is not None
        self.found = {self.name: now.score(*self.judges)["concept_accuracy"]}
        return self.found

    def progress(self, step: Progress) -> None:
        if not step.epoch_done:
            return
        if step.epoch not in self.known:
            self.trial.report(self.value({**step.means, **self.found}), step.epoch)
        # What was decided before a crash stays decided.
        if step.epoch + 1 < step.epochs and (PRUNED in self.trial.user_attrs or self.trial.should_prune()):
            self.trial.set_user_attr(PRUNED, step.epoch + 1)
            raise StopTraining

    def value(self, record: Mapping[str, float | None]) -> float:
        value = record.get(self.name)
        if value is None:
            raise TrainingError(f"the validation examples have no {self.name}; choose --metric label_accuracy")
        return value
