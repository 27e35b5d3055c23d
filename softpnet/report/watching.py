"""Why a run's page has no concept-label gap by epoch, and the command that makes one that has."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from softpnet.training.config import Config

UNKNOWN = "The concept–label gap by epoch is not known"


def unwatched(config: Config, history: Sequence[Mapping[str, float]], has_concepts: bool) -> dict[str, str] | None:
    """Why, and what to run or to write; None where every epoch has the gap."""
    if any("concept_accuracy" in epoch for epoch in history):
        return None
    if not has_concepts:
        return {"why": f"{UNKNOWN}: the test examples have no true concepts.", "command": ""}
    why = f"{UNKNOWN}: no epoch was judged on the test examples. To train the same again with it:"
    if config.origin is None:
        return {"why": why, "command": "fit(..., watch=lambda model, state: model.score(*test))"}
    return {"why": why, "command": _command(config) + " --watch"}


def _command(config: Config) -> str:
    """What trained it, but of paths the last name only, since a report is shown around."""
    assert config.origin is not None
    words = ["softpnet", "train", Path(config.origin.task).name]
    for name, value in config.origin.options.items():
        words += ["--option", f"{name}={value}"]
    for name, usual in (("method", "softpnet"), ("preset", "best"), ("seed", 0), ("encoder", None)):
        value = getattr(config, name)
        if value != usual and isinstance(value, (str, int)):
            words += [f"--{name}", Path(str(value)).name]
    if config.init is not None:
        words += ["--init", Path(config.init.source).name]
    for name, value in dataclasses.asdict(config.settings).items():
        if config.given_by[name] == "user":
            flag = name.replace("_", "-")
            words += (
                [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
            )
    return shlex.join(words)
