"""`softpnet reproduce [table1|table2|figures|all|ROW...]`"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from softpnet.cli.display import count_up
from softpnet.cli.table import chosen_rows, chosen_seeds, show
from softpnet.errors import InputError, TrainingError
from softpnet.terminal import say

if TYPE_CHECKING:
    from softpnet.experiments.rows import Row

FIGURES = "figures"


@dataclass(frozen=True)
class Reproduce:
    """Run what has no record yet of the result tables, and print them. May be stopped at any time, and goes on."""

    what: tyro.conf.Positional[tuple[str, ...]] = ()
    """table1 (methods), table2 (ablations), best, league, noise, precision, examples, search, anchors, suggest,
    figures, all, or names of rows; all unless given."""
    seeds: int = 10
    """How many of the ten seeds 0, 128, ..., 1152."""
    first_seed: int = 0
    """Where they begin, in place of 0: settings are chosen by other seeds than those of the tables."""
    jobs: int | None = None
    """Runs side by side, one thread each; unless given, 2 on this machine, and on a cluster as many as it has cores."""
    on: str = "local"
    """Where runs are made: local, on this machine; ray, on a Ray cluster of this machine, or the one that RAY_ADDRESS
    names; ray://HOST:PORT, on that one."""
    device: str = "cpu"
    """What each run computes on: cpu, or cuda, and then on a cluster each has a GPU of its own."""
    records: Path = Path("results")
    """Folder of the records: in it a folder per task, in that a file per row, with a line of JSON per seed."""
    into: Path | None = None
    """A Markdown page to put the tables into, between its two marks."""

    def run(self) -> int:
        rows = chosen_rows(self.what, beside=[FIGURES])
        if rows:
            seeds = chosen_seeds(self.seeds, self.first_seed)
            run_and_show(rows, seeds, self.records, self.jobs, self.into, None, self.on, self.device)
        if not self.what or {FIGURES, "all"} & set(self.what):
            from softpnet.report.figures import draw_all

            for path in draw_all(self.records / FIGURES):
                say(f"drawn: {path}")
        return 0


def run_and_show(
    rows: Sequence[Row],
    seeds: Sequence[int],
    records: Path,
    jobs: int | None,
    into: Path | None = None,
    picture: Path | None = None,
    on: str = "local",
    device: str = "cpu",
) -> None:
    """Run what has no record yet and print the tables; where runs failed, those of the others, and then the error."""
    from contextlib import closing

    from softpnet.experiments import engines
    from softpnet.experiments.records import missing, read_records
    from softpnet.experiments.reproduce import run_missing
    from softpnet.report.pages import around_marks
    from softpnet.task.hardware import Hardware
    from softpnet.training.launcher import check_alone

    check_alone("each of these runs is trained by one")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs is {jobs}, expected at least 1")
    engines.find(on)
    Hardware(device=device).check()
    # A page or a record that does not fit is named before hours have passed.
    if into is not None:
        around_marks(into)
    for row in rows:
        read_records(row, seeds, records)
    left, failed = missing(rows, seeds, records), None
    try:
        with closing(run_missing(rows, seeds, records, jobs, on, device)) as done:
            count_up((f"{row.name}, seed {seed}" for row, seed in done), len(left))
    except TrainingError as error:
        failed = error
    if failed is None or len(missing(rows, seeds, records)) < len(rows) * len(seeds):
        show(rows, seeds, records, into=into, picture=picture)
    if failed is not None:
        raise failed
