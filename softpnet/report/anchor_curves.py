"""Accuracy against the number of anchors per value, a panel per task, a mark per seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softpnet.errors import InputError
from softpnet.experiments.anchors import ANCHORS, FEWEST, NUMBERS, TASKS, number
from softpnet.experiments.rows import comparable
from softpnet.report.canvas import MARGIN, WIDTH, page
from softpnet.report.seeds import MARKS, stretch
from softpnet.report.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REFUSED = "refused:\nthe rule\ncannot tell\nvalues apart"


def anchor_curves(path: Path, summaries: Sequence[Summary]) -> None:
    """Draw the rows of `anchors` among the summaries; where none is allowed to have 0, the panel says so."""
    own = [summary for summary in summaries if summary.row in ANCHORS]
    tasks = [name for name, row in TASKS.items() if any(comparable(summary.row, row) for summary in own)]
    if not tasks:
        raise InputError("none of these rows says how many anchors a value has; draw those of `anchors`")
    wide, high = (WIDTH - 2 * MARGIN) / len(tasks), 2.7
    with page(path, high) as (_, place):
        for at, name in enumerate(tasks):
            axes = place(MARGIN + at * wide + 0.4, 0.42, wide - 0.5, high - 0.7)
            _panel(axes, name, [summary for summary in own if comparable(summary.row, TASKS[name])])


def _panel(axes: Axes, name: str, rows: Sequence[Summary]) -> None:
    stretch(axes, "y")
    rows = sorted(rows, key=lambda summary: number(summary.row))
    at = [NUMBERS.index(number(each.row)) for each in rows]
    for metric, style in MARKS.items():
        there = [(x, row) for x, row in zip(at, rows, strict=True) if metric in row.values]
        means = [row.mean(metric) for _, row in there]
        axes.plot([x for x, _ in there], means, lw=1.2, ms=0, color=style["color"])
        points = [(x, value) for x, row in there for value in row.values[metric]]
        named = metric.removesuffix("_accuracy")
        axes.plot(*zip(*points, strict=True), lw=0, ms=3.2, mew=0.7, alpha=0.7, label=named, **style)
    says = FEWEST[name].replace(" and ", "\nand ") if name in FEWEST else REFUSED
    axes.text(0, 0.5, says, transform=axes.get_xaxis_transform(), ha="center", va="center", fontsize=6)
    axes.set(
        title=TASKS[name].title.removesuffix(", best"),
        xlabel="anchors per value",
        ylabel="accuracy on test, %, stretched",
    )
    axes.set(xticks=range(len(NUMBERS)), xticklabels=NUMBERS, xlim=(-0.85, len(NUMBERS) - 0.6))
    axes.legend(frameon=False, loc="lower right", fontsize=7)
    axes.grid(axis="y", lw=0.3, color="#bbbbbb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
