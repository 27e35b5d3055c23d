"""The drawing of one training step: from anchors and examples to the loss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from softpnet.report.canvas import WIDTH, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 3.62
WIDE, HIGH = 1.22, 0.74  # inches, of a box
COLUMNS = [0.12 + i * (WIDTH - 0.24 - WIDE) / 4 for i in range(5)]  # left edges
ROWS = {"anchors": 2.62, "images": 1.62, "candidates": 0.34}  # lower edges
BUS = 1.33  # height of the line on which log p goes to the candidates


class Box(NamedTuple):
    column: int
    row: str
    title: str
    text: str
    kind: str  # given, network, symbols or loss
    high: float = HIGH


FILLS = {"given": "#ffffff", "network": "#dbe9f6", "symbols": "#f6ecc9", "loss": "#c9c9c9"}
BOXES = {
    "anchors": Box(0, "anchors", "Anchors", "one labelled image\nper primitive", "given"),
    "copies": Box(1, "anchors", "Fresh copies", "anchors, augmented\nanew in every step", "given"),
    "images": Box(0, "images", "Examples", "images x", "given"),
    "encoder": Box(2, "images", "Encoder f", "anchors and examples\nin one forward\n\nimage → vector", "network",
                   ROWS["anchors"] + HIGH - ROWS["images"]),
    "prototypes": Box(3, "anchors", "Prototypes", "mean vector of each\nprimitive's anchors", "network"),
    "log_p": Box(3, "images", "log p(c | x)", "from squared distances\nto the prototypes", "network"),
    "label": Box(0, "candidates", "Label and rule", "y, and which concepts\ngive which label", "given"),
    "candidates": Box(1, "candidates", "Candidates", "that give y: from cache\nand walk, or the k best\nassignments",
                      "symbols"),
    "weights": Box(2, "candidates", "Weights", "softmax of score / γ,\nγ falls from epoch\nto epoch", "symbols"),
    "target": Box(3, "candidates", "Target", "share of each value\namong the weighted\ncandidates", "symbols"),
    "proto": Box(4, "anchors", "Prototypical loss", "episodes on the\nanchors' vectors", "loss"),
    "loss": Box(4, "images", "Loss", "prototypical + λ · KL", "loss"),
    "kl": Box(4, "candidates", "KL loss", "target against p", "loss"),
}  # fmt: skip
ACROSS = [("anchors", "copies"), ("copies", "encoder"), ("images", "encoder"), ("encoder", "prototypes"),
          ("encoder", "log_p"), ("prototypes", "proto"), ("label", "candidates"), ("candidates", "weights"),
          ("weights", "target"), ("target", "kl")]  # fmt: skip


def pipeline(path: Path) -> None:
    """Draw the boxes and what goes from one to the other; dashed where no gradient flows."""
    with page(path, HEIGHT) as (_, place):
        axes = place(0, 0, WIDTH, HEIGHT)
        axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
        axes.axis("off")
        for box in BOXES.values():
            _draw(axes, box)
        for start, end in ACROSS:
            one, other = BOXES[start], BOXES[end]
            y = ROWS[one.row if one.high == HIGH else other.row] + HIGH / 2
            dashed = one.row == "candidates"
            _arrow(axes, (COLUMNS[one.column] + WIDE, y), (COLUMNS[other.column], y), dashed)
        _turns(axes)
        axes.text(COLUMNS[1], 0.12, "dashed: no gradient flows here", va="center")


def _turns(axes: Axes) -> None:
    """The ways that are not straight to the right."""
    middle = [x + WIDE / 2 for x in COLUMNS]
    top, under = ROWS["candidates"] + HIGH, ROWS["images"]
    _arrow(axes, (middle[3], ROWS["anchors"]), (middle[3], under + HIGH))
    _arrow(axes, (middle[4], ROWS["anchors"]), (middle[4], under + HIGH))
    _arrow(axes, (middle[4], top), (middle[4], under))
    _arrow(axes, (COLUMNS[3] + WIDE - 0.12, under), (COLUMNS[4] + 0.12, top))
    # one line from log p to whatever scores candidates by it
    axes.plot([middle[3], middle[3], middle[1]], [under, BUS, BUS], ls=(0, (4, 2)), lw=1, color="k", zorder=1)
    for column in (1, 2):
        _arrow(axes, (middle[column], BUS), (middle[column], top), dashed=True)
    axes.text(middle[1] + 0.06, BUS + 0.05, "scores of candidates under log p", va="bottom")


def _draw(axes: Axes, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y = COLUMNS[box.column], ROWS[box.row]
    style: Any = {"facecolor": FILLS[box.kind], "edgecolor": "k", "linewidth": 1.4 if box.kind == "loss" else 0.8}
    style["linestyle"] = "--" if box.kind == "symbols" else "-"
    rounded = "round,pad=0,rounding_size=0.07"
    axes.add_patch(FancyBboxPatch((x, y), WIDE, box.high, boxstyle=rounded, zorder=2, **style))
    lines = box.text.count("\n") + 1
    middle = y + box.high / 2 + 0.06 * lines  # title and text together are centred
    axes.text(x + WIDE / 2, middle, box.title, ha="center", va="center", size=8.2, weight="bold", zorder=3)
    axes.text(x + WIDE / 2, middle - 0.09, box.text, ha="center", va="top", size=7, linespacing=1.15, zorder=3)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], dashed: bool = False) -> None:
    how: Any = {"arrowstyle": "-|>,head_width=0.18,head_length=0.36", "shrinkA": 0, "shrinkB": 0, "color": "k"}
    how |= {"lw": 1, "linestyle": (0, (4, 2)) if dashed else "-"}
    axes.annotate("", xy=end, xytext=start, arrowprops=how, zorder=1)
