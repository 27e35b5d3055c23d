"""`python -m torture [PART...]`: hurt runs, keep each part's last outcome, and make the page's table of them."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from softpnet.report.pages import around_marks, write_into
from softpnet.storage import to_json, write_whole
from softpnet.training.environment import versions
from torture import cluster, damage, hostile, hosts, random_rules, random_tasks, stops, writers
from torture.subject import Result

Part = Literal[
    "kills",
    "terms",
    "damage",
    "full-disk",
    "hostile",
    "two-writers",
    "random-tasks",
    "random-rules",
    "hosts-losses",
    "hosts-kills",
    "hosts-cut",
    "hosts-full-disk",
    "node-kills",
    "worker-kills",
    "head-kills",
    "cut-link",
    "full-node",
]
PARTS: dict[str, Callable[[], Result]] = {
    "kills": stops.kills,
    "terms": stops.terms,
    "damage": damage.flips,
    "full-disk": stops.full_disk,
    "hostile": hostile.files,
    "two-writers": writers.two,
    "random-tasks": random_tasks.tasks,
    "random-rules": random_rules.rules,
    "hosts-losses": hosts.same_losses,
    "hosts-kills": hosts.kills,
    "hosts-cut": hosts.cut_line,
    "hosts-full-disk": hosts.full_disk,
    "node-kills": cluster.node_kills,
    "worker-kills": cluster.worker_kills,
    "head-kills": cluster.head_kills,
    "cut-link": cluster.cut_link,
    "full-node": cluster.full_node,
}
HEAD = ("test", "must show", "kept", "notes", "commit")
RECORD, PAGE = Path("results/torture.json"), Path("docs/reliability.md")


@dataclass(frozen=True)
class Torture:
    """Hurt runs in every way that is promised to be survived."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = ()
    """What to try; all unless given."""
    record: Path = RECORD
    """Where the outcomes are kept, and those of other parts stay."""
    page: Path = PAGE
    """The Markdown page that shows them, between its two marks."""

    def run(self) -> int:
        around_marks(self.page)  # raises before hours go into it
        chosen = self.parts or get_args(Part)
        for part in chosen:
            began = time.perf_counter()
            result = PARTS[part]()
            now = {name: versions()[name] for name in ("commit", "torch")}
            write_whole(self.record, to_json(read(self.record) | {part: dataclasses.asdict(result) | now}))
            print(f"{part}: {result.kept} of {result.cases}, {time.perf_counter() - began:.0f} s", flush=True)
            for failure in result.failures:
                print(f"  {failure}", file=sys.stderr, flush=True)
        found = read(self.record)
        shown = Table(*HEAD)
        for row in rows(found):
            shown.add_row(*row)
        Console(width=None if sys.stdout.isatty() else 150).print(shown)
        write_into(self.page, table(found))
        return int(any(found[part]["kept"] < found[part]["cases"] for part in chosen))


def read(record: Path) -> dict[str, dict[str, Any]]:
    """Each part's last outcome."""
    return json.loads(record.read_text()) if record.exists() else {}


def table(found: dict[str, dict[str, Any]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *rows(found)))


def rows(found: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each part; one that was not tried since it was written says so."""
    return [_row(found[part]) if part in found else (part, "", "not tried yet", "", "") for part in PARTS]


def _row(part: dict[str, Any]) -> tuple[str, ...]:
    notes = "; ".join(f"{name}: {value}" for name, value in part["notes"].items())
    return part["test"], part["promise"], f"{part['kept']} of {part['cases']}", notes, part["commit"][:10]


if __name__ == "__main__":
    sys.exit(tyro.cli(Torture, prog="python -m torture").run())
