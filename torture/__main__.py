"""`python -m torture [PART...] [--into PAGE]`: hurt runs, print a table, write torture.json."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from softpnet.report.pages import write_into
from softpnet.training.environment import versions
from torture import damage, hostile, random_rules, random_tasks, stops, writers
from torture.subject import Result

Part = Literal["kills", "terms", "damage", "full-disk", "hostile", "two-writers", "random-tasks", "random-rules"]
PARTS: dict[str, Callable[[], Result]] = {
    "kills": stops.kills,
    "terms": stops.terms,
    "damage": damage.flips,
    "full-disk": stops.full_disk,
    "hostile": hostile.files,
    "two-writers": writers.two,
    "random-tasks": random_tasks.tasks,
    "random-rules": random_rules.rules,
}
HEAD = ("test", "must show", "kept", "notes")


@dataclass(frozen=True)
class Torture:
    """Hurt runs in every way that is promised to be survived."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = ()
    """What to try; all unless given."""
    out: Path = Path("torture.json")
    """Where the counts go."""
    into: Path | None = None
    """A Markdown page to put the table into, between its two marks."""

    def run(self) -> int:
        found: dict = {"versions": versions(), "parts": {}}
        for part in self.parts or get_args(Part):
            began = time.perf_counter()
            result = PARTS[part]()
            found["parts"][part] = dataclasses.asdict(result)
            self.out.write_text(json.dumps(found, indent=2) + "\n")
            print(f"{part}: {result.kept} of {result.cases}, {time.perf_counter() - began:.0f} s", flush=True)
            for failure in result.failures:
                print(f"  {failure}", file=sys.stderr, flush=True)
        rows = [_row(part) for part in found["parts"].values()]
        shown = Table(*HEAD)
        for row in rows:
            shown.add_row(*row)
        Console(width=None if sys.stdout.isatty() else 150).print(shown)
        if self.into is not None:
            lines = [f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *rows)]
            head = f"Measured on commit {found['versions']['commit'][:10]}, torch {found['versions']['torch']}."
            write_into(self.into, "\n".join([head, "", *lines]))
        return int(any(part["kept"] < part["cases"] for part in found["parts"].values()))


def _row(part: dict) -> tuple[str, ...]:
    notes = "; ".join(f"{name}: {value}" for name, value in part["notes"].items())
    return part["test"], part["promise"], f"{part['kept']} of {part['cases']}", notes


if __name__ == "__main__":
    sys.exit(tyro.cli(Torture, prog="python -m torture").run())
