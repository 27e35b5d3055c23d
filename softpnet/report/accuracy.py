"""How concept and label accuracy came along over the epochs of watched runs, and the gap between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softpnet.errors import InputError
from softpnet.report.canvas import COLOURS, MARGIN, WIDTH, finite, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES: dict[str, dict[str, Any]] = {
    "concept_accuracy": {"color": COLOURS[0], "linestyle": "-", "marker": "o"},
    "label_accuracy": {"color": COLOURS[2], "linestyle": "--", "marker": "s"},
}
ABREAST = 3
"""Panels in a line."""


def accuracies(path: Path, runs: Mapping[str, Sequence[Mapping[str, float | None]]]) -> None:
    """A panel for the epochs of each run, by title; absent, None or NaN is a gap in the lines."""
    for title, epochs in runs.items():
        if not any(finite(epochs, key) for key in LINES):
            raise InputError(
                f"no accuracy in the {len(epochs)} epochs of {title!r}; train with --watch, or fit(..., watch=...)"
            )
    wide, high = (WIDTH - 2 * MARGIN) / ABREAST, 2.1
    lines = -(-len(runs) // ABREAST)
    with page(path, lines * high, wide * min(ABREAST, len(runs)) + 2 * MARGIN) as (_, place):
        for i, (title, epochs) in enumerate(runs.items()):
            x, y = MARGIN + i % ABREAST * wide, (lines - 1 - i // ABREAST) * high
            _panel(place(x + 0.4, y + 0.42, wide - 0.5, high - 0.8), title, epochs)


def _panel(axes: Axes, title: str, epochs: Sequence[Mapping[str, float | None]]) -> None:
    import numpy as np

    at = np.arange(1, len(epochs) + 1)
    found = {key: 100 * np.array(finite(epochs, key)) for key in LINES if finite(epochs, key)}
    for key, y in found.items():
        axes.plot(
            at, y, lw=1.2, ms=3, mec="white", mew=0.3, label=key.removesuffix("_accuracy"), zorder=3, **LINES[key]
        )
    gap = None
    if len(found) == len(LINES):
        concept, label = found.values()
        axes.fill_between(at, concept, label, color="#cccccc", lw=0, label="gap")
        both = np.flatnonzero(np.isfinite(label - concept))
        gap = label[both[-1]] - concept[both[-1]] if len(both) else None
    said = "" if gap is None else f"\ngap at the end {gap:+.1f} points".replace("-", "−")
    axes.set(title=title + said, xlabel="epoch", ylabel="accuracy on test, %")
    least = min(np.nanmin(y) for y in found.values())
    low = min(max(0, 10 * np.floor((least - 1) / 10)), 90)  # what is below every mark would press them to the top
    axes.set(xlim=(0.5, len(epochs) + 0.5), ylim=(low, 100 + 0.03 * (100 - low)))
    axes.legend(frameon=False, loc="best", fontsize=7)
    axes.grid(axis="y", lw=0.3, color="#bbbbbb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.locator_params("x", integer=True, nbins=5, min_n_ticks=1)  # or one epoch gets ticks at 0.75 and 1.25
