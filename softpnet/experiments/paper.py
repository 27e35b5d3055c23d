"""What the paper reports, from paper.toml: read when a table is made that has a row of the paper, and not before."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from softpnet.experiments.rows import Row


class Stated(NamedTuple):
    """A figure of the paper, in percent: over its seeds."""

    mean: float
    deviation: float


def stated(row: Row) -> Mapping[str, Stated]:
    """The paper's figures that stand beside a row, by metric; none beside a row that is not the paper's."""
    return figures()[row.task][row.paper] if row.paper else {}


@cache
def figures() -> Mapping[str, Mapping[str, Mapping[str, Stated]]]:
    """By task, method and metric."""
    read = tomllib.loads(files("softpnet.experiments").joinpath("paper.toml").read_text(encoding="utf-8"))
    return {
        task: {method: {metric: Stated(*pair) for metric, pair in found.items()} for method, found in methods.items()}
        for task, methods in read.items()
    }
