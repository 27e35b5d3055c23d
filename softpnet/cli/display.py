"""What a person sees: progress while training, a table at the end."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

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
    "acceptance": "accepted",
}


class Display:
    """A progress line on a terminal; elsewhere, as in a log, a line per epoch on the standard output."""

    def __init__(self, model: Learner) -> None:
        self.console = Console(stderr=True)
        self.model = model
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.line: Any = None

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, step: Step) -> None:
        if not self.console.is_terminal:
            if step.epoch_done and self.model.is_main_process:
                print(f"epoch {step.epoch + 1}/{step.epochs}: {self._numbers(step)}; {step.seconds:.3g} s", flush=True)
            return
        if self.line is None:
            self.line = self.bar.add_task(
                "", total=None, epoch=0, epochs=step.epochs, numbers="warming up on the anchors"
            )
        if step.warming_up:
            return
        done = step.epoch * step.steps + step.step + 1
        total = step.epochs * step.steps
        self.bar.update(self.line, completed=done, total=total, epoch=step.epoch + 1, numbers=self._numbers(step))

    def _numbers(self, step: Step) -> str:
        return "  ".join(
            f"{SHORT.get(name, name)} {step.means[name]:.3g}"
            for name in self.model.columns
            if not math.isnan(step.means.get(name, math.nan))
        )


def count_up(done: Iterable[str], total: int) -> None:
    """Follow what is done, one after the other, with the time that is left; a line each where there is no terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.completed}/{task.total} {task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        disable=not console.is_terminal or total == 0,
    )
    began = time.monotonic()
    with bar:
        line = bar.add_task("runs", total=total, left="")
        for at, name in enumerate(done, start=1):
            left = time_left(time.monotonic() - began, at, total)
            bar.update(line, advance=1, description=name, left=left)
            if not console.is_terminal:
                print(f"{at}/{total}: {name}; {left}", file=sys.stderr, flush=True)


def time_left(elapsed: float, done: int, total: int) -> str:
    """In words, as if what is to be done takes as long as what was."""
    minutes = math.ceil(elapsed / done * (total - done) / 60)
    return f"about {minutes // 60} h {minutes % 60} min left" if minutes >= 60 else f"about {minutes} min left"


def show_metrics(task: Task, metrics: dict[str, dict[str, float]], folder: Path, remarks: Iterable[str] = ()) -> None:
    """A column per test set, in percent; below it what is to be remarked on."""
    table = Table(title=escape(f"{task.name}, last epoch, percent"))
    table.add_column("")
    for split in metrics:
        table.add_column(escape(split.replace("_", " ")), justify="right")
    for name in dict.fromkeys(name for values in metrics.values() for name in values):
        shown = (f"{100 * values[name]:.2f}" if name in values else "" for values in metrics.values())
        metric, *part = name.split("/")
        table.add_row(escape(", ".join([metric.replace("_", " "), *part])), *shown)
    Console().print(table)
    for remark in remarks:
        print(remark)
    print(f"run folder: {folder}")
    for picture in sorted(folder.glob("learned*.png")):
        print(f"picture: {picture}")
