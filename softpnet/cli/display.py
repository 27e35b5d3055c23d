"""What a person sees: what is waited for, and a table at the end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from softpnet.terminal import complain, console, marked, say, say_table
from softpnet.training.display import stop_bar

if TYPE_CHECKING:
    from softpnet.task.task import Task


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
        stop_bar(bar)


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
        stop_bar(bar)


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
