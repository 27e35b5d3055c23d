"""`softpnet reproduce [table1|table2|figures|all|ROW...]`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from softpnet.cli.display import count_up
from softpnet.cli.table import chosen_rows, chosen_seeds, show

FIGURES = "figures"


@dataclass(frozen=True)
class Reproduce:
    """Run what has no record yet of the result tables, and print them. May be stopped at any time, and goes on."""

    what: tyro.conf.Positional[tuple[str, ...]] = ()
    """table1 (methods), table2 (ablations), figures, all of these, or names of rows; all unless given."""
    seeds: int = 10
    """How many of the ten seeds 0, 128, ..., 1152."""
    jobs: int = 2
    """Processes side by side, one thread each."""
    records: Path = Path("results")
    """Folder of the records, one JSON file per row and seed."""
    into: Path | None = None
    """A Markdown page to put the tables into, between its two marks."""

    def run(self) -> int:
        from contextlib import closing

        from softpnet.errors import InputError
        from softpnet.experiments.pages import around_marks
        from softpnet.experiments.records import missing, read_records
        from softpnet.experiments.reproduce import run_missing

        rows, seeds = chosen_rows(self.what, beside=[FIGURES]), chosen_seeds(self.seeds)
        if self.jobs < 1:
            raise InputError(f"--jobs is {self.jobs}, expected at least 1")
        if self.into is not None:
            around_marks(self.into)  # what does not fit is named before hours have passed, this and the records
        if rows:
            for row in rows:
                read_records(row, seeds, self.records)
            total = len(missing(rows, seeds, self.records))
            with closing(run_missing(rows, seeds, self.records, self.jobs)) as done:
                count_up((f"{row.name}, seed {seed}" for row, seed in done), total)
            show(rows, seeds, self.records, "terminal", self.into)
        if not self.what or {FIGURES, "all"} & set(self.what):
            from softpnet.experiments.figures import draw_all

            for path in draw_all(self.records / FIGURES):
                print(f"drawn: {path}")
        return 0
