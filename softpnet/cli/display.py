"""What a person sees: progress while training, a table at the end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as Line
from rich.text import Text

from softpnet.terminal import complain, console, harmless, hush, marked, say, say_table, unless_gone

if TYPE_CHECKING:
    from softpnet.learner import Learner
    from softpnet.task.task import Task
    from softpnet.training.loop import Progress as Step

SHORT = {
    "loss_proto": "proto",
    "loss_kl": "KL",
    "loss_semantic": "semantic",
    "loss_concepts": "concepts",
    "gamma": "gamma",
    "rule_weight": "lambda",
    "validation_label_accuracy": "validation label",
    "validation_rule_agreement": "agreement",
}


class Numbers(ProgressColumn):
    """Those of the last step; before the first one, what is being done, and for how long."""

    def __init__(self, model: Learner) -> None:
        super().__init__()
        self.model = model

    def render(self, task: Line) -> Text:
        numbers = task.fields["numbers"]
        return Text(f"{self.stage()}, {task.elapsed or 0:.0f} s" if numbers is None else harmless(numbers))

    def stage(self) -> str:
        if not self.model.notes:  # they are there once the training is built
            return "compiling the rule and checking the data"
        frozen = any("features of the training inputs are computed once" in note for note in self.model.notes)
        return "computing the features of the training inputs" if frozen else "starting"


class Display:
    """A progress line on a terminal; elsewhere, as in a log, a line per epoch on the standard output."""

    def __init__(self, model: Learner) -> None:
        self.console = console(error=True)
        self.model = model
        self.terminal = self.console.is_terminal  # it may be closed while the run goes on
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(bar_width=24),
            Numbers(self.model),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.terminal,
        )
        self.line: Any = None
        self.told = False
        self.judged: dict[str, float] = {}  # by the validation examples, after the last epoch

    def __enter__(self) -> Display:
        self.bar.start()
        self.line = self.bar.add_task("", total=None, epoch=0, epochs=self.model.settings.epochs, numbers=None)
        return self

    def __exit__(self, *_: object) -> None:
        _stop(self.bar)

    def update(self, step: Step) -> None:
        if not self.told and self.model.is_main_process:
            for note in self.model.notes:
                say(note, flush=True)
        self.told = True
        if not self.terminal:
            if step.epoch_done and self.model.is_main_process:
                say(f"epoch {step.epoch + 1}/{step.epochs}: {self._numbers(step)}; {step.seconds:.3g} s", flush=True)
            return
        if step.warming_up:
            self.bar.update(self.line, numbers="warming up on the anchors")
            return
        done = step.epoch * step.steps + step.step + 1
        total = step.epochs * step.steps
        self.bar.update(self.line, completed=done, total=total, epoch=step.epoch + 1, numbers=self._numbers(step))

    def _numbers(self, step: Step) -> str:
        self.judged |= {name: value for name, value in step.means.items() if name.startswith("validation_")}
        known = self.judged | step.means
        return "  ".join(
            f"{SHORT.get(name, name)} {known[name]:.3g}"
            for name in self.model.columns
            if not math.isnan(known.get(name, math.nan))
        )


def _stop(bar: Progress) -> None:
    """Take the bar down, also from a terminal that was closed."""
    hush()
    with unless_gone():
        bar.stop()


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """On a terminal, a line that moves while the block runs, with its seconds; elsewhere nothing."""
    to = console(error=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    bar = Progress(*columns, console=to, transient=True, disable=not to.is_terminal)
    bar.start()
    bar.add_task(marked(what), total=None)
    try:
        yield
    finally:
        _stop(bar)


def count_up(done: Iterable[str], total: int) -> None:
    """Follow what is done, one after the other, with the time that is left; a line each where there is no terminal."""
    to = console(error=True)
    terminal = to.is_terminal
    bar = Progress(
        TextColumn("{task.completed}/{task.total} {task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=to,
        disable=not terminal or total == 0,
    )
    began = time.monotonic()
    bar.start()
    try:
        line = bar.add_task("runs", total=total, left="")
        for at, name in enumerate(done, start=1):
            left = time_left(time.monotonic() - began, at, total)
            bar.update(line, advance=1, description=marked(name), left=left)
            if not terminal:
                complain(f"{at}/{total}: {name}; {left}")
    finally:
        _stop(bar)


def time_left(elapsed: float, done: int, total: int) -> str:
    """In words, as if what is to be done takes as long as what was."""
    minutes = math.ceil(elapsed / done * (total - done) / 60)
    return f"about {minutes // 60} h {minutes % 60} min left" if minutes >= 60 else f"about {minutes} min left"


def show_metrics(
    task: Task, metrics: dict[str, dict[str, float]], folder: Path, remarks: Iterable[str] = (), epoch: str = "last"
) -> None:
    """A column per test set, in percent; below it what is to be remarked on."""
    lines = []
    several = any(len(group.values) > 1 for group in task.space.groups)
    for name in dict.fromkeys(name for values in metrics.values() for name in values):
        if name.startswith("primitive_") and not several:
            continue  # a primitive is then one concept, and the row that of the concepts
        metric, *part = name.split("/")
        shown = (f"{100 * values[name]:.2f}" if name in values else "" for values in metrics.values())
        lines.append([", ".join([metric.replace("_", " "), *part]), *shown])
    head = ["", *(split.replace("_", " ") for split in metrics)]
    say_table(f"{task.name}, {epoch} epoch, percent", head, lines, right=True)
    for remark in remarks:
        say(remark)
    say(f"run folder: {folder}")
    for picture in sorted(folder.glob("learned*.png")):
        say(f"picture: {picture}")
