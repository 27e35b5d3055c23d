"""What a person sees of a training: a progress line on a terminal, lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Task as Line
from rich.table import Column
from rich.text import Text

from softpnet.terminal import console, harmless, hush, say, unless_gone

if TYPE_CHECKING:
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

    def __init__(self, model: Any) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))
        self.model = model

    def render(self, task: Line) -> Text:
        numbers = task.fields["numbers"]
        return Text(f"{self.stage()}, {task.elapsed or 0:.0f} s" if numbers is None else harmless(numbers))

    def stage(self) -> str:
        if not self.model.notes:  # they are there once the training is built
            return "compiling the rule and checking the data"
        frozen = any("features of the training inputs are computed once" in note for note in self.model.notes)
        return "computing the features of the training inputs" if frozen else "starting"


QUIET_S = 300.0
"""A log gets a line after the first step that ends so long after the last line."""


class Display:
    """A progress line on a terminal; elsewhere, as in a log, lines on the standard output: one for the warm-up, one per
    epoch, and more where these take long.

    The model is a Learner; `progress`, if any, is called after every step too.
    """

    def __init__(self, model: Any, progress: Callable[[Step], None] | None = None) -> None:
        self.console = console(error=True)
        self.model, self.progress = model, progress
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
        self.said: float | None = None  # when the log got its last line
        self.judged: dict[str, float] = {}  # by the validation examples, after the last epoch

    def __enter__(self) -> Display:
        self.bar.start()
        self.line = self.bar.add_task("", total=None, epoch=0, epochs=self.model.settings.epochs, numbers=None)
        return self

    def __exit__(self, error: object, *_: object) -> None:
        stop_bar(self.bar)
        if error is None and self.model.interrupted and self.model.is_main_process:
            say(f"stopped after {len(self.model.history)} of {self.model.settings.epochs} epochs")

    def update(self, step: Step) -> None:
        if self.said is None and self.model.is_main_process:
            for note in self.model.notes:
                say(note, flush=True)
        if self.terminal:
            self._draw(step)
        elif self.model.is_main_process:
            self._log(step)
        if self.said is None:
            self.said = time.monotonic()
        if self.progress is not None:
            self.progress(step)

    def _log(self, step: Step) -> None:
        within = "" if step.epoch_done else f", step {step.step + 1}/{step.steps}"
        line = f"epoch {step.epoch + 1}/{step.epochs}{within}: {self._numbers(step)}; {step.seconds:.3g} s"
        if step.warming_up:
            line = f"warming up on the anchors{within}"
        begins = step.warming_up and self.said is None
        if step.epoch_done or begins or (self.said is not None and time.monotonic() - self.said >= QUIET_S):
            say(line, flush=True)
            self.said = time.monotonic()

    def _draw(self, step: Step) -> None:
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


def stop_bar(bar: Progress) -> None:
    """Take the bar down, also from a terminal that was closed."""
    hush()
    with unless_gone():
        bar.stop()
