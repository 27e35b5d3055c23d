"""Every seed of every row as a mark: whether concepts are read, or labels alone, is seen at one glance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
LINE, LETTER, NUMBERS = 0.26, 0.056, 1.1  # inches: height of a row, width of a title's letter and of the means
TICKS = (0, 50, 80, 90, 95, 98, 99, 99.5, 99.9, 100)
LEAST = 5e-4
"""An error below this is drawn as none: the axis shows errors by their logarithm, and ends."""


def _place(accuracy: Any) -> Any:
    """Where an accuracy in percent stands: half of the error is the same step to the right, until it is nearly none."""
    return -numpy.log10(1 - numpy.asarray(accuracy) / 100 + LEAST)


def _accuracy(place: Any) -> Any:
    return 100 * (1 + LEAST - 10.0 ** -numpy.asarray(place))


def stretch(axes: Axes, way: Literal["x", "y"]) -> None:
    """An axis of accuracies in percent on which what is near 100 can be told apart."""
    getattr(axes, f"set_{way}scale")("function", functions=(_place, _accuracy))
    limits, names = {f"{way}lim": (-5, 100.01)}, [f"{tick:g}" for tick in TICKS]
    axes.set(**limits, **{f"{way}ticks": TICKS, f"{way}ticklabels": names})
    axes.minorticks_off()


def seed_marks(path: Path, summaries: Sequence[Summary]) -> None:
    """A panel per task, in the order of the rows; beside each row its means."""
    by_task = {summary.row.task: [s for s in summaries if s.row.task == summary.row.task] for summary in summaries}
    panels = list(by_task.values())
    heights = [LINE * len(rows) for rows in panels]
    names = 0.1 + LETTER * max((len(summary.row.title) for summary in summaries), default=0)
    top, between, bottom = 0.5, 0.14, 0.42
    y = top + sum(heights) + between * (len(panels) - 1) + bottom
    with page(path, y) as (figure, place):
        y -= top
        axes = None
        for rows, height in zip(panels, heights, strict=True):
            y -= height
            first = axes is None
            axes = place(MARGIN + names, y, WIDTH - 2 * MARGIN - names - NUMBERS, height)
            _panel(axes, rows)
            if first:
                heads = "".join(f"{metric.removesuffix('_accuracy'):>8}" for metric in MARKS)
                axes.text(1.005, 1.02, f"{'mean of seeds, %':>16}\n{heads}", **_beside(axes.transAxes), va="bottom")
            y -= between
        if axes is not None:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("accuracy on test, %, a mark per seed; the axis is stretched towards 100")
            figure.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=len(MARKS), frameon=False)


def _beside(transform: Any) -> dict[str, Any]:
    """How a text stands at the right of a panel: its columns are made of blanks."""
    return {"transform": transform, "family": "monospace", "size": 6.5}


def _panel(axes: Axes, rows: Sequence[Summary]) -> None:
    for at, summary in enumerate(rows):
        means = []
        for (metric, style), shift in zip(MARKS.items(), (-0.17, 0.17), strict=True):
            found = summary.values.get(metric, [])
            named = metric.removesuffix("_accuracy") if at == 0 else None
            axes.plot(found, [at + shift] * len(found), lw=0, ms=5, mew=0.9, alpha=0.8, label=named, **style)
            means.append(f"{summary.mean(metric):.2f}" if found else "")
        shown = "".join(f"{mean:>8}" for mean in means)
        axes.text(1.005, at, shown, **_beside(axes.get_yaxis_transform()), va="center")
    axes.set(yticks=range(len(rows)), yticklabels=[summary.row.title for summary in rows])
    stretch(axes, "x")
    axes.set(ylim=(len(rows) - 0.5, -0.5))
    axes.tick_params(length=0, labelbottom=False)
    axes.grid(axis="x", lw=0.3, color="#bbbbbb")
    for at in range(1, len(rows)):
        axes.axhline(at - 0.5, lw=0.3, color="#dddddd")
    axes.set_axisbelow(True)
