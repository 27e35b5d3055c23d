"""All figures, drawn anew from small trainings: minutes, not the hours of the result table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from softpnet import tasks
from softpnet.learner import Learner
from softpnet.report.accuracy import accuracies
from softpnet.report.filmstrip import Camera, filmstrip
from softpnet.report.judge import draw
from softpnet.report.pipeline import pipeline
from softpnet.report.samples import samples
from softpnet.targets.source import State
from softpnet.task.data import make_data
from softpnet.training.streams import Streams
from softpnet.training.threads import limited_threads

if TYPE_CHECKING:
    from softpnet.task.data import Examples


@dataclass(frozen=True)
class SmallRun:
    """A training that is over before one has grown impatient; it is drawn, and no result is taken from it."""

    task: str
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    watched: int = 200  # test examples that its pictures show
    filmed: int | None = None  # the training example of its filmstrip


RUNS = (
    SmallRun("mnist_evenodd", {"train": "480"}, {"epochs": 6, "halve_every": 0}, watched=300),
    # Most boards have the true candidate first from the first epoch on; of board 22 there is more to see.
    SmallRun(
        "visual_sudoku", {"train": "128"}, {"epochs": 8, "warmup_steps": 80, "warmup_examples": 4}, 100, filmed=22
    ),
    SmallRun(
        "kand_logic",
        {"train": "200", "test": "200"},
        {"epochs": 8, "targets": "kbest", "halve_every": 0, "rule_delay": 1, "rule_ramp": 2},
        watched=120,
    ),
)


def draw_all(folder: Path, runs: Sequence[SmallRun] = RUNS) -> list[Path]:
    """Draw the pipeline, and of every run its data, what it learned, its curves and its filmstrip; what was written.

    Of the built-in tasks that no run has, a data sample. The same machine draws the same bytes again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pipeline(folder / "pipeline.png")
    watched = {}
    with limited_threads(1):  # sums over several threads differ in their last bits
        for run in runs:
            watched[Path(run.task).stem] = _draw_run(folder / Path(run.task).stem, run)
        accuracies(folder / "accuracy.png", watched)
        for name in sorted(set(tasks.names()) - set(watched)):
            _draw_sample(folder / name, name)
    return sorted(path for path in folder.rglob("*") if path.suffix in (".png", ".svg"))


def _draw_run(folder: Path, run: SmallRun) -> list[dict[str, float]]:
    """Train, draw, and return the records of the epochs."""
    folder.mkdir(exist_ok=True)
    task = tasks.load(run.task, run.options)
    data = make_data(task, Streams(0))
    name, test = next(iter(data.tests.items()))
    test = _thinned(test, run.watched)
    samples(folder / "sample.png", task.space, data.train, f"{task.name}: examples")
    camera = None if run.filmed is None else Camera(task, data.train, run.filmed)

    def watch(model: Learner, state: State) -> dict[str, float]:
        if camera is not None:
            camera.look(model, state)
        return model.score(*test)

    model = Learner(task, preset="paper", seed=0, threads=1, **run.settings)
    model.fit(data.train.inputs, data.train.labels, data.anchors, watch=watch)
    if model.interrupted:
        raise KeyboardInterrupt
    draw(model, data._replace(tests={name: test}), folder)
    if camera is not None and data.train.concepts is not None:
        true = data.train.concepts[camera.example]
        title = f"{task.name}: the working set of one example"
        filmstrip(folder / "filmstrip.png", camera, [own.inputs for own in model.anchors], true, title)
    return model.history


def _draw_sample(folder: Path, name: str) -> None:
    task = tasks.load(name)
    if task.data is not None:
        folder.mkdir(exist_ok=True)
        samples(folder / "sample.png", task.space, make_data(task, Streams(0)).train, f"{task.name}: examples")


def _thinned(examples: Examples, count: int) -> Examples:
    """So many of the examples, evenly spread: some tasks put all of one label first."""
    chosen = torch.linspace(0, len(examples.inputs) - 1, min(count, len(examples.inputs))).long()
    concepts = None if examples.concepts is None else examples.concepts[chosen]
    return examples._replace(inputs=examples.inputs[chosen], labels=examples.labels[chosen], concepts=concepts)
