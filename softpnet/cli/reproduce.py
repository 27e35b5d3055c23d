"""`softpnet reproduce [ROW...]`"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from softpnet.errors import InputError


@dataclass(frozen=True)
class Reproduce:
    """Run the rows of the result table that have no record yet, and print the table."""

    rows: tyro.conf.Positional[tuple[str, ...]] = ()
    """Rows to run; all unless given."""
    jobs: int = 2
    """Processes side by side, one thread each."""
    records: Path = Path("results")
    """Folder of the records, one JSON file per row and seed."""
    into: Path | None = None
    """A Markdown page to put the table into, between its two marks."""
    run_missing: bool = True
    """With --no-run-missing, only print the table of the records that are there."""

    def run(self) -> int:
        from softpnet.experiments import reproduce
        from softpnet.experiments.pages import write_into
        from softpnet.experiments.rows import ROWS

        known = [row.name for row in ROWS]
        for name in self.rows:
            if name not in known:
                raise InputError(f"unknown row {name!r}; the rows are {', '.join(known)}")
        rows = [row for row in ROWS if not self.rows or row.name in self.rows]
        if self.jobs < 1:
            raise InputError(f"--jobs is {self.jobs}, expected at least 1")
        if self.run_missing:
            total = len(reproduce.missing(rows, self.records))
            for at, (row, seed) in enumerate(reproduce.run_missing(rows, self.records, self.jobs), start=1):
                print(f"{at}/{total}: {row.title}, seed {seed}", file=sys.stderr, flush=True)
        table = reproduce.write_up(rows, self.records)
        print(table, end="")
        if self.into is not None:
            write_into(self.into, table)
        return 0
