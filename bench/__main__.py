"""`python -m bench [PART...] [--into PAGE]`: measure, keep each part's last outcome, and print tables of them."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from bench import (
    cluster,
    curves,
    encoder,
    growth,
    learning,
    memory,
    options,
    reading,
    rules,
    state,
    step,
    tables,
    timing,
    versus_plain,
)
from bench.race import CONTESTS
from softpnet.report.pages import write_into
from softpnet.storage import to_json, write_whole
from softpnet.training.allocator import keep_large_blocks
from softpnet.training.environment import versions

Part = Literal[
    "encoder",
    "step",
    "plain",
    "memory",
    "reading",
    "state",
    "rules",
    "growth",
    "options",
    "learning-evenodd",
    "learning-sudoku",
    "learning-window",
    "cluster",
]


@dataclass(frozen=True)
class Bench:
    """Measure speed as ratios within this run."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = ()
    """What to measure; all unless given."""
    record: Path = Path("results/bench.json")
    """Where the outcomes are kept, and those of other parts stay."""
    measure: bool = True
    """Whether to measure, or only to show what was measured before."""
    into: Path | None = None
    """A Markdown page to put the tables into, between its two marks."""

    def run(self) -> None:
        chosen = self.parts or get_args(Part)
        if self.measure:
            self._measure(chosen)
        kept = read(self.record)
        found = {part: kept[part] for part in chosen if part in kept}
        console = Console(width=None if sys.stdout.isatty() else 150)
        for table in tables.tables(found):
            shown = Table(*table.head, title=table.title)
            for row in table.rows:
                shown.add_row(*row)
            console.print(shown)
        if self.into is not None:
            write_into(self.into, tables.markdown(found))
            races = tables.races(found)
            if races:
                curves.draw(self.into.parent / "figures" / "learning.png", races)

    def _measure(self, chosen: Sequence[str]) -> None:
        cores = len(os.sched_getaffinity(0))
        if cores < 2:
            print("one core: the figures with two threads are left out")
        keep_large_blocks()
        makers: dict[str, Callable[[], list[dict]]] = {
            "encoder": lambda: encoder.measure([1, 2] if cores >= 2 else [1]),
            "step": step.measure,
            "plain": versus_plain.measure,
            "memory": memory.measure,
            "reading": reading.measure,
            "state": state.measure,
            "rules": rules.measure,
            "growth": lambda: growth.measure() + rules.growth(),
            "options": options.measure,
            **{f"learning-{contest}": functools.partial(learning.measure, contest) for contest in CONTESTS},
            "cluster": cluster.measure,
        }
        now = {name: versions()[name] for name in ("commit", "torch")}
        for part in chosen:
            began, before = time.perf_counter(), timing.load()
            outcome = now | {"cores": cores, "load": round(before, 1), "rows": makers[part]()}
            write_whole(self.record, to_json(read(self.record) | {part: outcome}))
            print(f"{part}: {time.perf_counter() - began:.0f} s, load {before:.1f} before, {timing.load():.1f} after")


def read(record: Path) -> dict[str, dict[str, Any]]:
    """Each part's last outcome."""
    return json.loads(record.read_text()) if record.exists() else {}


if __name__ == "__main__":
    tyro.cli(Bench, prog="python -m bench").run()
