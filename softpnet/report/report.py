"""From run folders to a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from softpnet.errors import InputError
from softpnet.learner import Learner
from softpnet.report.facts import RunFacts, run_facts
from softpnet.report.html import render
from softpnet.report.judge import data_of_run, is_other_data
from softpnet.report.verdict import comparison
from softpnet.terminal import harmless
from softpnet.training.config import read_config
from softpnet.training.folder import RunFolder

PICTURES = 2_300_000
"""Bytes for the pictures of all runs."""


def report(
    folders: Sequence[Path],
    examples: int = 200,
    task: str | None = None,
    method: str | None = None,
    other_data: bool = False,
) -> str:
    """The page of a run, or of several of one task beside each other; `examples` of each can be explored."""
    runs: list[RunFacts] = []
    for folder, name in zip(folders, _names(folders), strict=True):
        model = Learner.load(folder, origin=task, method=method)
        config = read_config(RunFolder(folder))
        if runs and model.task.name != runs[0].facts["task"]:
            raise InputError(
                f"{folder} is a run of task {model.task.name!r} and {folders[0]} one of {runs[0].facts['task']!r}; a "
                "comparison is of one task: make a report of each"
            )
        data = data_of_run(model, folder, other_data)
        runs.append(run_facts(model, data.tests, config, name, examples, PICTURES // len(folders)))
        if other_data and is_other_data(model, data, folder):
            runs[-1].facts["remarks"].append("Judged on other data than the run was made with (--other-data).")
    facts = [run.facts for run in runs]
    said = facts[0]["verdict"]
    if len(runs) > 1:
        said = comparison([each["name"] for each in facts], [run.metrics for run in runs], runs[0].examples)
    diagrams: list[object] = []
    for run in runs:  # runs of one rule share its diagram
        if run.diagram is not None and run.diagram not in diagrams:
            diagrams.append(run.diagram)
        run.facts["diagram"] = None if run.diagram is None else diagrams.index(run.diagram)
    title = f"{facts[0]['task']}: {facts[0]['name']}" if len(facts) == 1 else f"{facts[0]['task']}: {len(facts)} runs"
    return render(title, {"title": title, "verdict": said, "runs": facts, "diagrams": diagrams})


def _names(folders: Sequence[Path]) -> list[str]:
    """What each run is called: its folder's name, or its whole path where two are called alike."""
    paths = [folder.resolve() for folder in folders]
    twice = next((folder for folder, path in zip(folders, paths, strict=True) if paths.count(path) > 1), None)
    if twice is not None:
        raise InputError(f"{twice} is named twice; a comparison is of different runs")
    short = [path.name for path in paths]
    names = short if len(set(short)) == len(short) else [f"{path.parent.name}/{path.name}" for path in paths]
    return [harmless(name) for name in (names if len(set(names)) == len(names) else map(str, folders))]
