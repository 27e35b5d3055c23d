"""Pictures of one run, what it learned and its curves, as .png and .svg: same bytes for same inputs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softpnet.errors import InputError
from softpnet.report.canvas import COLOURS, MARGIN, WIDTH, finite, page, show
from softpnet.report.plane import flattened, middles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

# 10 colours and 11 markers make 110 different pairs.
LOOKS: list[Any] = [{"color": COLOURS[i % 10], "marker": "os^DvPX<>ph"[i % 11]} for i in range(110)]
SIDE = 2.9  # inches, of the confusion matrix
MAP_POINTS = 1000


def learned(path: Path, *, anchors: Tensor, names: Sequence[str], prototypes: Tensor | None, embeddings: Tensor,
            true: Tensor | None, predicted: Tensor, title: str = "", seed: int = 0,
            missing: Collection[int] = (), things: str = "images") -> None:  # fmt: skip
    """Draw P anchors [P,C,H,W], a map of M embeddings [M,D] and prototypes [P,D], and confusions.

    Without prototypes (None), the map's stars are in the middle of what is read as each primitive. `true` and
    `predicted` are primitive ids [M]. Without `true` the map is marked by prediction and the matrix is left out. `seed`
    chooses which inputs the map shows (at most 1,000) and starts t-SNE. Primitives that are `missing` have no anchor.
    `things` is what inputs are called.
    """
    seed %= 2**32  # numpy and t-SNE take no other
    ids, by = (predicted, "predicted") if true is None else (true, "true")
    _check(names, anchors, prototypes, embeddings, predicted, ids)
    labels = [name if len(name) <= 18 else name[:17] + "…" for name in names]
    longest = max(1, *map(len, labels))
    widest = longest if longest <= 10 else max(len(word) for label in labels for word in label.split())
    captions = [textwrap.wrap(label, widest) for label in labels]
    # Places are in inches, because the room needed depends on the number of primitives and their names.
    rows = math.ceil(len(labels) / int((WIDTH - 2 * MARGIN) / max(0.66, 0.057 * widest + 0.2)))
    columns = math.ceil(len(labels) / rows)
    cell = min((WIDTH - 2 * MARGIN) / columns, 0.9)
    picture = min(cell - 0.12, 0.6)
    step = picture + 0.13 + 0.12 * max(map(len, captions))
    ticks = 0.24 if longest <= 2 or true is None else 0.14 + 0.056 * longest  # for names beside the matrix
    bottom, head = MARGIN + 0.16 + ticks, 0.34 if title else 0.1
    floor = bottom if ticks == 0.24 else MARGIN + 0.2  # the map reaches down beside long turned names
    left = WIDTH - MARGIN - SIDE - (0.33 if len(labels) > 10 else 0)
    height = head + 0.22 + rows * step + 0.3 + SIDE + bottom
    with page(path, height) as (figure, place):
        figure.text(MARGIN / WIDTH, 1 - 0.1 / height, title, size=10, weight="bold", va="top")
        figure.text(MARGIN / WIDTH, 1 - (head + 0.04) / height, "(a) Labelled anchors", size=8.4, va="top")
        for i, image in enumerate(anchors):
            x, y = MARGIN + i % columns * cell, height - head - 0.22 - i // columns * step - picture
            axes = place(x, y, picture, picture)
            if i in missing:
                axes.set(xticks=[], yticks=[], xlim=(0, picture), ylim=(0, picture), autoscale_on=False)
                axes.spines[:].set(color="0.7", linestyle=":")
                axes.text(picture / 2, picture / 2, "none", ha="center", va="center", color="0.4")
            else:
                show(axes, image, extent=(0, picture, 0, picture))
            axes.text(0.12, -0.05, "\n".join(captions[i]), va="top")
            # The marker before the name makes the anchors the legend of the map.
            axes.plot(0.04, -0.1, clip_on=False, ms=4, mec="black", mew=0.3, **LOOKS[i % 110])
        axes = place(MARGIN, floor, left - ticks - 0.42 - MARGIN, SIDE + bottom - floor)
        _map(axes, labels, prototypes, embeddings, ids, predicted, seed)
        axes.set_xlabel(f"{min(len(ids), MAP_POINTS):,} of {len(ids):,} test {things}, by {by} concept")
        _confusion(place(left, bottom, SIDE, SIDE), labels, true, predicted, things)


def curves(path: Path, epochs: Sequence[Mapping[str, float | None]]) -> None:
    """Draw losses (keys "loss..."), gamma, weight (lambda), acceptance; absent, None or NaN is a gap."""
    losses = sorted({key for row in epochs for key in row if key.startswith("loss")})
    panels: dict[str, dict[str, list[float]]] = {}
    for key in (*losses, "gamma", "rule_weight", "acceptance"):
        y = finite(epochs, key)
        if y:
            panels.setdefault("loss" if key in losses else key, {})[key.removeprefix("loss_")] = y
    if not panels:
        raise InputError(f'no finite "loss...", "gamma", "rule_weight" or "acceptance" in {len(epochs)} epochs')
    wide = (WIDTH - 2 * MARGIN) / 4
    with page(path, 1.8, wide * len(panels) + 2 * MARGIN) as (_, place):
        for i, (panel, lines) in enumerate(panels.items()):
            axes = place(MARGIN + i * wide + 0.36, 0.4, wide - 0.42, 1.15)
            axes.set_title({"gamma": "gamma γ", "rule_weight": "weight λ"}.get(panel, panel))
            axes.set(xlabel="epoch", xlim=(0.5, len(epochs) + 0.5))
            for j, (key, y) in enumerate(lines.items()):
                size = 2.5 if len(y) < 15 else 1.1  # hidden in the line; only lone values show as dots
                drawn = axes.plot(range(1, len(y) + 1), y, marker="o", mew=0, ms=size, label=key)
                drawn[0].set(color=COLOURS[2 * j % 10], linestyle=("-", "--", ":")[j % 3])
            if len(lines) > 1:
                axes.legend(frameon=False)
            axes.spines[["top", "right"]].set_visible(False)
            axes.locator_params("x", integer=True, nbins=4, min_n_ticks=1)  # or one epoch gets ticks at 0.75 and 1.25
            axes.locator_params("y", nbins=4)
            there = [value for y in lines.values() for value in y if math.isfinite(value)]
            if min(there) == max(there):  # around a constant the axis would show rounding
                axes.set_ylim(min(0.0, 1.1 * there[0]), max(0.0, 1.1 * there[0]) or 1.0)


def _map(axes: Axes, labels: list[str], stars: Any, points: Any, ids: Any, read: Any, seed: int) -> None:
    """Prototypes [P,D], if any, and embeddings [M,D] in the plane. A dot is marked by its id [M]; without prototypes,
    the stars are where the primitives are read [M]."""
    import numpy as np
    from matplotlib.patheffects import withStroke

    found = stars is not None
    stars, points, ids, read = (t.numpy(force=True) for t in (stars if found else points[:0], points, ids, read))
    chosen = np.random.default_rng(seed).permutation(len(points))[:MAP_POINTS]
    flat, how = flattened(np.concatenate([points[chosen], stars]), seed)  # [M+P,2]
    points, stars, ids = flat[: len(chosen)], flat[len(chosen) :], ids[chosen]
    stars = stars if found else middles(points, read[chosen], len(labels))
    there = np.isfinite(stars).all(axis=1).nonzero()[0]  # [S], of those that nothing is read as there is no star
    stars = stars[there]
    for i in range(len(labels)):
        axes.plot(*points[ids == i].T, ls="", alpha=0.75, ms=3.2, mec="white", mew=0.3, **LOOKS[i % 110])
    for i, star in zip(there, stars, strict=True):
        axes.plot(*star, "*", zorder=4, ms=11, mec="black", mew=0.8, color=COLOURS[i % 10])
    said = f"{how} of embeddings, ★ = prototype" if found else f"{how}, ★ = middle of those read so"
    axes.set(xticks=[], yticks=[], title=f"(b) {said}")
    axes.margins(0.07)
    axes.autoscale_view()

    # Each name goes, in points around its star, where it hits no name, star or frame and hides few dots.
    dots, at = (axes.transData.transform(xy) * 72 / axes.figure.dpi for xy in (points, stars))
    low, high = axes.bbox.get_points() * 72 / axes.figure.dpi
    taken, sizes = at, np.full_like(at, 5)  # middles and half sizes of boxes
    gaps, turns = np.repeat((5, 10, 18, 30, 45, 60, 80), 16), np.tile(np.arange(16) * np.pi / 8, 7)
    around = np.stack([np.cos(turns), np.sin(turns)], axis=1)  # [T,2]
    for label, star, xy in zip((labels[i] for i in there), at, stars, strict=True):
        half = np.array([2.7 * len(label) + 1, 4.5])
        tries = star + around * (half + gaps[:, None])  # [T,2]
        hits = (abs(tries[:, None] - taken) < half + sizes).all(axis=2).sum(axis=1)
        hidden = (abs(tries[:, None] - dots) < half).all(axis=2).sum(axis=1)
        outside = ((tries - half < low) | (tries + half > high)).any(axis=1)
        best = np.argmin(1000 * hits + 5000 * outside + hidden + gaps)
        taken, sizes = np.vstack([taken, tries[best]]), np.vstack([sizes, half])
        spot: Any = {"xy": xy, "xytext": tries[best] - star, "textcoords": "offset points"}
        axes.annotate(label, **spot, ha="center", va="center", size=7.5, weight="bold", zorder=5,
                      path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip
        axes.annotate("", **spot, zorder=3, arrowprops={"arrowstyle": "-", "lw": 0.5 * (gaps[best] > 10)})


def _confusion(axes: Axes, labels: list[str], true: Tensor | None, predicted: Tensor, things: str = "images") -> None:
    """Confusion matrix [P,P] in percent of each true concept's inputs; a row without inputs is blank."""
    if true is None:
        axes.set(xticks=[], yticks=[], title="(c) Confusion matrix")
        axes.text(0.5, 0.5, f"left out: the true concepts\nof the test {things} are unknown", ha="center")
        return
    count, true, predicted = len(labels), true.cpu().long(), predicted.cpu()
    table = (true * count + predicted).bincount(minlength=count**2).reshape(count, count)  # [P,P]
    percent = 100 * table / table.sum(dim=1, keepdim=True).clamp(min=1)
    drawn = axes.imshow(percent.numpy(), cmap="Blues", vmin=0, vmax=100)
    axes.set_xticks(range(count), labels, rotation=90 if max(map(len, labels)) > 2 else 0)
    axes.set_yticks(range(count), labels)
    axes.tick_params(length=0, labelsize=min(7, 54 * SIDE / count))  # 3/4 of a row's height in points
    accuracy = 100 * (true == predicted).double().mean().item()
    axes.set(xlabel="predicted", ylabel="true", title=f"(c) Confusion in %, accuracy {accuracy:.1f} %")
    if count > 10:  # cells are too small for numbers
        axes.figure.colorbar(drawn, cax=axes.inset_axes((1.02, 0, 0.03, 1)))
        return
    for i, share in enumerate(percent.flatten().tolist()):
        text = f"{share:.0f}" if share >= 0.5 else "<1" if share else ""
        axes.text(i % count, i // count, text, ha="center", va="center", color="w" if share > 55 else "k")


def _check(names: Sequence[str], anchors: Tensor, stars: Tensor | None, points: Tensor, *ids: Tensor) -> None:
    if stars is None:
        stars = points[:1].expand(len(names), -1)  # nothing to check
    shapes = [tuple(t.shape) for t in (anchors, stars, points, *ids)]
    p, m, d = len(names), len(points), points.shape[-1]
    good = min(p, m) > 0 and anchors.ndim == 4 and shapes[0][:2] in ((p, 1), (p, 3))
    if not good or shapes[1:] != [(p, d), (m, d), (m,), (m,)]:
        raise InputError(f"{p} names; anchors, prototypes, embeddings, predicted and true ids: {shapes}; "
                         "expected P names; [P,C,H,W] with C 1 or 3, [P,D], [M,D], [M], [M]")  # fmt: skip
    if not (points.isfinite().all() and stars.isfinite().all()):
        raise InputError("embeddings or prototypes are not finite; did training diverge?")
    if wrong := [i[(i < 0) | (i >= p)][0].item() for i in ids if ((i < 0) | (i >= p)).any()]:
        raise InputError(f"primitive id {wrong[0]}; expected 0..{p - 1}, one for each name")
