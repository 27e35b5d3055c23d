"""`python -m bench [PART...] [--into PAGE]`: measure, print tables, write bench.json."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

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
from softpnet.report.pages import write_into
from softpnet.training.allocator import keep_large_blocks
from softpnet.training.environment import versions

Part = Literal[
    "encoder", "step", "plain", "memory", "reading", "state", "rules", "growth", "options", "learning", "cluster"
]


@dataclass(frozen=True)
class Bench:
    """Measure speed as ratios within this run."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = ()
    """What to measure; all unless given."""
    out: Path = Path("bench.json")
    """Where the numbers go."""
    into: Path | None = None
    """A Markdown page to put the tables into, between its two marks."""

    def run(self) -> None:
        cores = len(os.sched_getaffinity(0))
        if cores < 2:
            print("one core: the figures with two threads are left out")
        keep_large_blocks()
        makers = {
            "encoder": lambda: encoder.measure([1, 2] if cores >= 2 else [1]),
            "step": step.measure,
            "plain": versus_plain.measure,
            "memory": memory.measure,
            "reading": reading.measure,
            "state": state.measure,
            "rules": rules.measure,
            "growth": lambda: growth.measure() + rules.growth(),
            "options": options.measure,
            "learning": learning.measure,
            "cluster": cluster.measure,
        }
        result: dict = {"versions": versions(), "cores": cores, "load": {}, "parts": {}}
        for part in self.parts or get_args(Part):
            began, before = time.perf_counter(), timing.load()
            result["parts"][part] = makers[part]()
            result["load"][part] = [before, timing.load()]
            self.out.write_text(json.dumps(result, indent=2) + "\n")
            print(f"{part}: {time.perf_counter() - began:.0f} s, load {before:.1f} before, {timing.load():.1f} after")
        console = Console(width=None if sys.stdout.isatty() else 150)
        for table in tables.tables(result):
            shown = Table(*table.head, title=table.title)
            for row in table.rows:
                shown.add_row(*row)
            console.print(shown)
        print(f"written to {self.out}")
        if self.into is not None:
            write_into(self.into, tables.markdown(result))
            if "learning" in result["parts"]:
                curves.draw(self.into.parent / "figures" / "learning.png", result["parts"]["learning"])


if __name__ == "__main__":
    tyro.cli(Bench, prog="python -m bench").run()
