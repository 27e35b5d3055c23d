"""`softpnet table [table1|table2|short|examples|all|ROW...]`"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import tyro

from softpnet.cli.options import flat
from softpnet.errors import InputError, did_you_mean
from softpnet.terminal import harmless, say, say_table

if TYPE_CHECKING:
    from softpnet.experiments.rows import Row

Form = Literal["terminal", "markdown", "latex"]
Part = Literal[
    "claims",
    "paper-claims",
    "overview",
    "results",
    "paper",
    "primitives",
    "groups",
    "sets",
    "pairs",
    "commands",
    "seeds",
    "left",
]


@dataclass(frozen=True)
class ResultTable:
    """Print the records: mean, deviation and lowest seed, beside the paper's figures, and methods compared in pairs."""

    what: tyro.conf.Positional[tuple[str, ...]] = ()
    """table1 (methods), table2 (ablations), short (the README's), best, league, noise, precision, examples, search,
    anchors, suggest, all, or names of rows; all unless given."""
    seeds: int = 10
    """How many of the ten seeds 0, 128, ..., 1152."""
    first_seed: int = 0
    """Where they begin, in place of 0: settings are chosen by other seeds than those of the tables."""
    records: Path = Path("results")
    """Folder of the records."""
    form: Form = "terminal"
    """How it is written."""
    only: Annotated[tuple[tuple[Part, ...], ...], tyro.conf.UseAppendAction] = ()
    """Some of the tables; all but claims unless given."""
    into: Path | None = None
    """A Markdown page to put the tables into, between its two marks."""
    picture: Path | None = None
    """A .png file to draw every seed into, concept and label accuracy; the .svg is written beside it."""
    anchors_picture: Path | None = None
    """A .png file to draw accuracy against the number of anchors into, of the rows of `anchors`."""

    def run(self) -> int:
        rows, seeds = chosen_rows(self.what), chosen_seeds(self.seeds, self.first_seed)
        show(rows, seeds, self.records, self.form, self.into, flat(self.only), self.picture)
        if self.anchors_picture is not None:
            from softpnet.report.anchor_curves import anchor_curves
            from softpnet.report.summary import summarise

            anchor_curves(self.anchors_picture, summarise(rows, seeds, self.records))
        return 0


def chosen_rows(what: Sequence[str], beside: Sequence[str] = ()) -> list[Row]:
    """The rows of these tables and names; `beside` are words that are fine but stand for no row."""
    from softpnet.experiments.anchors import ANCHORS, SUGGEST
    from softpnet.experiments.rows import ROWS, TABLES
    from softpnet.experiments.search import SEARCH

    tables = {**TABLES, "search": SEARCH, "anchors": ANCHORS, "suggest": SUGGEST}
    every = {row.name: row for rows in (ROWS, *tables.values()) for row in rows}
    groups = {"all": ROWS, **tables, **{name: (row,) for name, row in every.items()}}
    for name in what:
        if name not in groups and name not in beside:
            listed = f"; there are {', '.join([*beside, *groups])}"
            raise InputError(f"unknown row {name!r}{did_you_mean(name, groups) or listed}")
    wanted = {row.name for name in what or ("all",) for row in groups.get(name, ())}
    return [row for name, row in every.items() if name in wanted]


def chosen_seeds(count: int, first: int = 0) -> tuple[int, ...]:
    from softpnet.experiments.rows import SEEDS

    if not 1 <= count <= len(SEEDS):
        raise InputError(f"--seeds is {count}, expected 1 to {len(SEEDS)}")
    return tuple(first + seed for seed in SEEDS[:count])


def show(
    rows: Sequence[Row],
    seeds: Sequence[int],
    records: Path,
    form: Form = "terminal",
    into: Path | None = None,
    only: Sequence[Part] = (),
    picture: Path | None = None,
) -> None:
    """Print the tables, put them into a page, and draw every seed."""
    from softpnet.report import table
    from softpnet.report.canvas import check_picture
    from softpnet.report.pages import write_into
    from softpnet.report.summary import summarise

    if picture is not None:
        check_picture(picture)
    summaries = summarise(rows, seeds, records)
    if not summaries:
        raise InputError(f"{records} has no record of these rows; `softpnet reproduce` makes them")
    wanted = only or tuple(part for part in get_args(Part) if "claims" not in part)
    made = {name: make(summaries) for name, make in table.TABLES.items() if name in wanted}
    if "left" in wanted:
        made["left"] = table.left_table(summaries, rows, len(seeds))
    shown = [table.without_empty_columns(text) for text in made.values() if text.rows]
    if not shown:
        raise InputError(f"the records of these rows have nothing for the tables {', '.join(only)}")
    for text in shown:
        if form == "terminal":
            say_table(text.title, text.head, text.rows)
        else:
            say(table.markdown(text) if form == "markdown" else table.latex(text))
    if into is not None:
        write_into(into, harmless("\n".join(table.markdown(text) for text in shown)))
    if picture is not None:
        from softpnet.report.seeds import seed_marks

        seed_marks(picture, summaries)
