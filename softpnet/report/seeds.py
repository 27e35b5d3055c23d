"""Every seed of every row as a mark: whether concepts are read, or labels alone, is seen at one glance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from softpnet.report.canvas import COLOURS, MARGIN, WIDTH, page
from softpnet.report.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS: dict[str, dict[str, Any]] = {
    "concept_accuracy": {"color": COLOURS[0], "marker": "o"},
    "label_accuracy": {"color": COLOURS[2], "marker": "s", "fillstyle": "none"},
}
"""Concepts above, labels below the middle of a row."""
LINE, NAMES, NUMBERS = 0.26, 2.5, 1.0  # inches: height of a row, width of its title and of its means
TICKS = (0, 50, 80, 90, 95, 98, 99, 99.5, 99.9, 100)
LEAST = 5e-4
"""An error below this is drawn as none: the axis shows errors by their logarithm, and ends."""


def _place(accuracy: Any) -> Any:
    """Where an accuracy in percent stands: half of the error is always the same step to the right."""
    return -numpy.log10(1 - numpy.asarray(accuracy) / 100 + LEAST)


def _accuracy(place: Any) -> Any:
    return 100 * (1 + LEAST - 10.0 ** -numpy.asarray(place))


def seed_marks(path: Path, summaries: Sequence[Summary]) -> None:
    """A panel per task, in the order of the rows; beside each row its means."""
    by_task = {summary.row.task: [s for s in summaries if s.row.task == summary.row.task] for summary in summaries}
    panels = list(by_task.values())
    heights = [LINE * len(rows) for rows in panels]
    top, between, bottom = 0.4, 0.14, 0.42
    y = top + sum(heights) + between * (len(panels) - 1) + bottom
    with page(path, y) as (figure, place):
        y -= top
        axes = None
        for rows, height in zip(panels, heights, strict=True):
            y -= height
            axes = place(MARGIN + NAMES, y, WIDTH - 2 * MARGIN - NAMES - NUMBERS, height)
            _panel(axes, rows)
            y -= between
        if axes is not None:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("accuracy on test, %, a mark per seed; halving the error is the same step everywhere")
            figure.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=len(MARKS), frameon=False)


def _panel(axes: Axes, rows: Sequence[Summary]) -> None:
    for at, summary in enumerate(rows):
        means = []
        for (metric, style), shift in zip(MARKS.items(), (-0.17, 0.17), strict=True):
            found = summary.values.get(metric, [])
            named = metric.removesuffix("_accuracy") if at == 0 else None
            axes.plot(found, [at + shift] * len(found), lw=0, ms=5, mew=0.9, alpha=0.8, label=named, **style)
            means.append(f"{summary.mean(metric):.2f}" if found else "")
        shown = "  ".join(f"{mean:>6}" for mean in means)
        axes.text(1.01, at, shown, transform=axes.get_yaxis_transform(), va="center", family="monospace")
    axes.set(yticks=range(len(rows)), yticklabels=[summary.row.title for summary in rows])
    axes.set_xscale("function", functions=(_place, _accuracy))
    axes.set(xlim=(-5, 100.01), xticks=TICKS, xticklabels=[f"{tick:g}" for tick in TICKS])
    axes.set(ylim=(len(rows) - 0.5, -0.5))
    axes.minorticks_off()
    axes.tick_params(length=0, labelbottom=False)
    axes.grid(axis="x", lw=0.3, color="#bbbbbb")
    for at in range(1, len(rows)):
        axes.axhline(at - 0.5, lw=0.3, color="#dddddd")
    axes.set_axisbelow(True)
