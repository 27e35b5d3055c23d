"""Accuracy against the number of anchors per value, a panel per task, a mark per seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softpnet.errors import InputError
from softpnet.experiments.anchors import ANCHORS, NUMBERS
from softpnet.report.canvas import MARGIN, WIDTH, page
from softpnet.report.seeds import MARKS
from softpnet.report.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REFUSED = "refused:\nthe rule\ncannot tell\nvalues apart"


def anchor_curves(path: Path, summaries: Sequence[Summary]) -> None:
    """Draw the rows of `anchors` among the summaries; where none is allowed to have 0, the panel says so."""
    own = [summary for summary in summaries if summary.row in ANCHORS]
    leagues = list(dict.fromkeys(summary.row.league for summary in own))
    if not leagues:
        raise InputError("none of these rows says how many anchors a value has; draw those of `anchors`")
    wide, high = (WIDTH - 2 * MARGIN) / len(leagues), 2.3
    with page(path, high) as (_, place):
        for at, league in enumerate(leagues):
            axes = place(MARGIN + at * wide + 0.4, 0.42, wide - 0.5, high - 0.7)
            _panel(axes, [summary for summary in own if summary.row.league == league])


def _panel(axes: Axes, rows: Sequence[Summary]) -> None:
    league = rows[0].row.league
    rows = sorted(rows, key=_number)
    at = [NUMBERS.index(_number(row)) for row in rows]
    for metric, style in MARKS.items():
        there = [(x, row) for x, row in zip(at, rows, strict=True) if metric in row.values]
        means = [row.mean(metric) for _, row in there]
        axes.plot([x for x, _ in there], means, lw=1.2, ms=0, color=style["color"])
        points = [(x, value) for x, row in there for value in row.values[metric]]
        named = metric.removesuffix("_accuracy")
        axes.plot(*zip(*points, strict=True), lw=0, ms=3.2, mew=0.7, alpha=0.7, label=named, **style)
    fewest = [row.title.partition(": ")[2] for row in ANCHORS if row.league == league and row.options["anchors"] == "0"]
    says, height = (fewest[0].replace(" and ", "\nand "), 0.1) if fewest else (REFUSED, 0.5)
    axes.text(0, height, says, transform=axes.get_xaxis_transform(), ha="center", va="center", fontsize=6)
    axes.set(title=league.removeprefix("anchors "), xlabel="anchors per value", ylabel="accuracy on test, %")
    axes.set(xticks=range(len(NUMBERS)), xticklabels=NUMBERS, xlim=(-0.6, len(NUMBERS) - 0.6))
    axes.legend(frameon=False, loc="best", fontsize=7)
    axes.grid(axis="y", lw=0.3, color="#bbbbbb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _number(summary: Summary) -> int:
    return int(summary.row.options["anchors"])
