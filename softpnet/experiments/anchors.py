"""How many anchors it takes, and which: rows of two experiments.

`softpnet reproduce anchors` trains with 0, 1, 2, 5 and 10 anchors a value, and `softpnet table anchors
--anchors-picture FILE` draws them. `softpnet reproduce suggest` adds suggested or random training slots to the anchors,
and its table of differences has the interval.
"""

from __future__ import annotations

from dataclasses import replace

from softpnet.experiments.rows import BEGAN, LEAGUE, Row

NUMBERS = (0, 1, 2, 5, 10)
"""Anchors per value. None at all is in no row where the rule cannot tell the values apart: it is refused."""
FEWEST = {"evenodd": "one 0 and one 1"}
"""What 0 stands for: sums of two tell digits apart once one even and one odd digit are known."""
TASKS: dict[str, Row] = {
    name.partition("-")[0]: row
    for row in LEAGUE
    if (name := row.name) in ("evenodd-1600-best", "sudoku-100-best", "window-best")
}
"""The rows that have one anchor a value: EvenOdd and Sudoku with few examples, where anchors matter, and crops."""
FEW = "softpnet/experiments/two_labels.py"


def number(row: Row) -> int:
    """Anchors a value."""
    return int(row.options.get("anchors", 1))


def _numbered(name: str, count: int) -> Row:
    row = TASKS[name]
    if count == number(row):
        return row
    title = row.title.removesuffix(", best")
    return replace(
        row,
        name=f"anchors-{name}-{count}",
        title=f"{title}, {f'{count} anchors a value' if count else FEWEST[name]}",
        options={**row.options, "anchors": str(count)},
        settings={**row.settings, **BEGAN},
        folder="anchors",
    )


def _chosen(name: str, title: str, count: int, choice: str, **options: str) -> Row:
    return Row(
        f"suggest-{name}-{choice}",
        f"{title}: {count} more, {choice}",
        "softpnet/experiments/label_next.py",
        options={**options, "choice": choice, "count": str(count)},
        settings=BEGAN,
        folder="suggest",
        league=f"suggest {name}",
    )


ANCHORS = tuple(_numbered(name, count) for name in TASKS for count in NUMBERS if count or name in FEWEST)
SUGGEST = tuple(
    row
    for choice in ("suggested", "random")
    for row in (
        _chosen("evenodd-3", "EvenOdd, two labels", 3, choice, base=FEW),
        _chosen("10", "XOR of parities", 10, choice),
    )
)
