"""`softpnet search TASK ...`"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from softpnet.cli.display import count_up
from softpnet.cli.options import GivenHardware, GivenSettings, Options, parse_options
from softpnet.cli.train import INTERRUPTED
from softpnet.errors import InputError, TrainingError
from softpnet.task.settings import Preset
from softpnet.terminal import harmless, say, say_table

if TYPE_CHECKING:
    from softpnet.experiments.rows import Row
    from softpnet.experiments.tuning.outcome import Outcome
    from softpnet.experiments.tuning.plan import Plan
    from softpnet.experiments.tuning.study import Study


@dataclass(frozen=True)
class Search:
    """Search for a task's best settings by trial trainings, judged on held-out training examples; test data plays no
    part. May be stopped, goes on, and several hosts that see the study's folder may work on it at once."""

    task: tyro.conf.Positional[str]
    """A built-in task (see `softpnet tasks`) or a Python file that defines `task`."""
    trials: int = 20
    """How many in all; the first one is always of the default settings."""
    over: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SETTING=VALUES"), tyro.conf.UseAppendAction] = ()
    """A setting to search: between two ends, `--over learning_rate=1e-4..1e-2`, by factors where both are above 0 and
    the one is over 10 times the other; or of a list, `--over batch_size=16,32,64`. May be given several times; unless
    given, what the task names, or else learning_rate, batch_size, warmup_steps and rule_weight."""
    metric: Literal["label_accuracy", "rule_agreement", "concept_accuracy"] = "label_accuracy"
    """What trials are judged by, on the held-out examples; the last one needs their concepts."""
    study: Path | None = None
    """Folder of the study; studies/TASK-METHOD unless given."""
    jobs: int = 1
    """Processes side by side, one thread each. One alone makes the same trials again; several do not wait for each
    other, so that what they try depends on who is faster."""
    on: str = "local"
    """Where these processes run: local, on this machine; ray, on a Ray cluster of this machine, or the one that
    RAY_ADDRESS names; ray://HOST:PORT, on that one. Its nodes must see the study's folder."""
    confirm: int = 0
    """Seeds, new ones, with which the best settings and the default are then trained on all training examples, judged
    on test data and compared; 0 for not at all."""
    into: Path | None = None
    """A Markdown page to put the table of trials into, between its two marks."""
    seed: int = 0
    """Of the search and of all of its trials."""
    method: str = "softpnet"
    """How to train (see `softpnet methods`)."""
    preset: Preset = "best"
    """Our recipe, or the settings of the paper; a task's own settings replace theirs."""
    encoder: str | None = None
    """As in `softpnet train`."""
    option: Options = ()
    """An option of the task, as in `--option support=train`; may be given several times."""
    settings: tyro.conf.OmitArgPrefixes[GivenSettings] = field(default_factory=dict)
    hardware: tyro.conf.OmitArgPrefixes[GivenHardware] = field(default_factory=dict)

    def run(self) -> int:
        from softpnet.experiments import engines
        from softpnet.experiments.rows import SEEDS
        from softpnet.experiments.tuning.plan import make_plan
        from softpnet.experiments.tuning.study import Study
        from softpnet.report.pages import around_marks
        from softpnet.training.folder import plain_name

        for name, value in (("trials", self.trials), ("jobs", self.jobs)):
            if value < 1:
                raise InputError(f"--{name} is {value}, expected at least 1")
        if not 0 <= self.confirm <= len(SEEDS):
            raise InputError(f"--confirm is {self.confirm}, expected 0 to {len(SEEDS)}")
        engines.find(self.on)
        if self.into is not None:
            around_marks(self.into)  # a page that does not fit is named before hours have passed
        plan = make_plan(self._row(), self.seed, self.metric, self._over(), self.hardware)
        folder = self.study or Path("studies", plain_name(f"{plan.task.name}-{Path(self.method).stem}"))
        study = Study(plan, folder)
        try:
            failed = self._work(study)
        except KeyboardInterrupt:
            say(f"stopped after {len(study.finished())} of {self.trials} trials; the same command goes on")
            return INTERRUPTED
        if failed is not None and not study.trials():
            raise failed  # there is nothing to show
        best = _show(study, self.trials, self.into)
        if failed is not None:
            if len(study.finished()) < self.trials:
                raise failed
            warnings.warn(str(failed), stacklevel=2)  # the others have done its part
        if best is None and len(study.finished()) >= self.trials:
            raise TrainingError(f"none of the {self.trials} trials could be trained to its end; the table says why")
        if self.confirm and best is not None:
            if study.unfinished(self.trials):
                say("nothing is confirmed before all trials are finished; then the same command does it")
            else:
                self._confirm(plan, best, folder)
        return 0

    def _over(self) -> dict[str, str]:
        for text in self.over:
            if "=" not in text:
                raise InputError(f"--over {text!r} is not of the form SETTING=VALUES, as in learning_rate=1e-4..1e-2")
        return parse_options(self.over)

    def _row(self) -> Row:
        from softpnet.experiments.rows import Row

        chosen = {"options": parse_options(self.option), "settings": self.settings, "preset": self.preset}
        return Row("default", "default settings", self.task, self.method, **chosen, encoder=self.encoder or "")

    def _work(self, study: Study) -> TrainingError | None:
        """Make the trials that are missing; what went wrong with one of several processes."""
        from contextlib import closing

        from softpnet.experiments import engines
        from softpnet.experiments.tuning.work import work, work_side_by_side

        left = max(0, self.trials - len(study.finished()))
        alone = not left or (self.on == engines.LOCAL and min(self.jobs, left) == 1)
        done = (
            work(study, self.trials)
            if alone
            else work_side_by_side(study, self.trials, self._worker(study), self.jobs, self.on)
        )
        try:
            with closing(done):
                count_up(map(_said, done), left)
        except TrainingError as error:
            return error
        return None

    def _worker(self, study: Study) -> list[str]:
        """The arguments of a process that joins in, but for the study's folder: this command, with one job."""
        words = ["search", *self._row().command(self.seed)[1:], "--trials", str(self.trials), "--metric", self.metric]
        words += [word for name, each in study.plan.space.items() for word in ("--over", f"{name}={each.text}")]
        words += [word for name, value in self.hardware.items() for word in (f"--{name}", str(value))]
        return [*words, "--jobs", "1"]

    def _confirm(self, plan: Plan, best: Outcome, folder: Path) -> None:
        import dataclasses

        from softpnet.cli.reproduce import run_and_show
        from softpnet.cli.table import chosen_seeds
        from softpnet.report.summary import summarise
        from softpnet.report.tuning import verdict

        if best.number == 0:
            say("no trial beat the default, so that there is nothing to confirm")
            return
        default = dataclasses.replace(
            plan.row, folder="default", precision=plan.hardware.get("precision", plan.row.precision)
        )
        found = dataclasses.replace(default, name="best", title="best settings", folder=f"trial-{best.number}")
        rows = [
            dataclasses.replace(row, settings=plan.everything(values))
            for row, values in ((found, best.values), (default, {}))
        ]
        seeds = chosen_seeds(self.confirm, self.seed + 1)
        device = plan.hardware.get("device", "cpu")
        run_and_show(rows, seeds, folder / "confirmed", self.jobs, on=self.on, device=device)
        for sentence in verdict(summarise(rows, seeds, folder / "confirmed")):
            say(sentence)


def _said(trial: Outcome) -> str:
    value = "" if trial.value is None else f" {100 * trial.value:.2f} %"
    return f"trial {trial.number} {trial.state}{value}"


def _all_examples(plan: Plan, trial: Outcome) -> str:
    """The options with which a trial's training holds nothing out."""
    from softpnet.experiments.tuning.plan import EVERYTHING

    settings = plan.settings.override(**trial.values)
    return " ".join(f"--{name} {off}" for name, off in EVERYTHING.items() if getattr(settings, name) != off)


def _show(study: Study, wanted: int, into: Path | None) -> Outcome | None:
    """Print and draw the trials, and the command of the best one."""
    from softpnet.experiments.tuning.outcome import best_of
    from softpnet.report.pages import write_into
    from softpnet.report.table import markdown
    from softpnet.report.tuning import judged_by, trial_picture, trial_table

    plan, trials = study.plan, study.trials()
    table = trial_table(plan, trials)
    say_table(table.title, table.head, table.rows)
    if into is not None:
        write_into(into, harmless(markdown(table)))
    say(f"judged by {judged_by(plan)}, of {plan.settings.validation:.0%} of the training examples")
    running = len(trials) - len(study.finished())
    if running:
        say(f"{running} of {wanted} trials are not finished; where no other process does it, the same command goes on")
    best = best_of(trials)
    if best is None:
        return None
    picture = study.folder / "trials.png"
    trial_picture(picture, plan, trials)
    say(f"picture: {picture}")
    say(f"best: trial {best.number}, {judged_by(plan)} {100 * (best.value or 0):.2f} %; what makes it again,")
    say(f"and with {_all_examples(plan, best)} instead learns from all training examples:")
    say(plan.command(best))
    return best
