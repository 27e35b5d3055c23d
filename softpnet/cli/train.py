"""`softpnet train TASK ...`"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from softpnet.cli.options import GivenHardware, GivenSettings, Options, Several, flat, parse_options
from softpnet.errors import InputError
from softpnet.task.settings import Preset
from softpnet.terminal import say

INTERRUPTED = 130


@dataclass(frozen=True)
class Train:
    """Train on a task, judge the result on its test sets and write a run folder."""

    task: tyro.conf.Positional[str]
    """A built-in task (see `softpnet tasks`) or a Python file that defines `task`."""
    seed: int = 0
    """Of every random stream."""
    method: str = "softpnet"
    """How to train (see `softpnet methods`)."""
    preset: Preset = "best"
    """Our recipe, or the settings of the paper; a task's own settings replace theirs."""
    encoder: str | None = None
    """conv4, lenet, mlp, efficientnet_lite0, or a model of timm; with :frozen behind it, one that is not trained. The
    task's own, or else the method's, unless given."""
    init: Path | None = None
    """Folder of a run whose encoders and prototypes training begins with, where they have the same names."""
    option: Options = ()
    """An option of the task, as in `--option support=train`; may be given several times."""
    anchors: Several = ()
    """Tables of training slots that somebody has labelled, as `softpnet suggest RUN --into labels.csv` writes them:
    they join the task's anchors."""
    out: Path | None = None
    """Folder for the run; a new one under runs/ unless given."""
    resume: bool = False
    """Resume the run in that folder (unless given, the last one of this task, method and seed) bit-exactly from its
    last checkpoint; without one, start. A finished run goes on if it is to have more epochs."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    checkpoint_steps: int | None = None
    """Steps between two checkpoints, beside the seconds."""
    pictures: bool = True
    """Draw what was learned."""
    watch: bool = False
    """Judge on the first test set after every epoch, to draw how the run came along; nothing is chosen by it."""
    settings: tyro.conf.OmitArgPrefixes[GivenSettings] = field(default_factory=dict)
    hardware: tyro.conf.OmitArgPrefixes[GivenHardware] = field(default_factory=dict)

    def run(self) -> int:
        from softpnet import tasks
        from softpnet.cli.display import show_metrics
        from softpnet.data.labelled_slots import with_labelled
        from softpnet.learner import Learner
        from softpnet.report.judge import judge
        from softpnet.report.judgeable import judgeable
        from softpnet.report.remarks import remarks
        from softpnet.rules.function import check_rule
        from softpnet.task.data import make_data
        from softpnet.task.inputs import check_data
        from softpnet.training.folder import free_run_folder, last_run_folder
        from softpnet.training.launcher import is_first, launcher
        from softpnet.training.streams import Streams
        from softpnet.training.validation import best_epoch

        task = tasks.load(self.task, parse_options(self.option))
        model = Learner(
            task,
            method=self.method,
            preset=self.preset,
            seed=self.seed,
            encoder=self.encoder,
            init=self.init,
            **self.settings,
            **self.hardware,
        )
        check_rule(task)
        data = make_data(task, Streams(self.seed))
        check_data(task, data)
        data, anchors = judgeable(data), data.anchors
        if tables := [Path(name) for name in flat(self.anchors)]:
            anchors, count = with_labelled(tables, task.space, data.train.inputs, anchors)
            if is_first():
                say(f"anchors from {', '.join(map(str, tables))}: {count}")
        started = launcher()
        if self.out is None and started is not None and started.processes > 1:
            raise InputError(
                f"{started.name} has started {started.processes} processes, which need one folder that all of them, "
                "and those that it starts again, can name; name it with --out"
            )
        name_folder = last_run_folder if self.resume else free_run_folder
        folder = self.out or name_folder(Path("runs"), f"{task.name}-{self.method}-seed{self.seed}")
        first_test = next(iter(data.tests.values()))
        model.fit(
            data.train.inputs,
            data.train.labels,
            anchors,
            concepts=data.train.concepts,
            run=folder,
            resume=self.resume,
            checkpoint_seconds=self.checkpoint_seconds,
            checkpoint_steps=self.checkpoint_steps,
            watch=(lambda now, state: now.score(*first_test)) if self.watch else None,
            verbose=True,
        )
        if model.is_main_process:
            metrics = judge(model, data, folder, self.pictures)
            kept = model.settings.keep
            show_metrics(task, metrics, folder, remarks(model, data.tests, metrics), kept)
            if kept == "best":
                say(f"epoch {best_epoch(model.history)} is the best of {len(model.history)} by the validation examples")
            if not model.interrupted and len(model.history) < model.settings.epochs:
                say(f"stopped early, after {len(model.history)} of {model.settings.epochs} epochs")
            own = "" if self.task in tasks.names() else f" --task {self.task}"
            say(f"see it: softpnet report {folder}{own}")
        if model.interrupted and model.is_main_process:
            say(f"what was learned is saved, and the same command with --out {folder} --resume goes on")
        return INTERRUPTED if model.interrupted else 0
