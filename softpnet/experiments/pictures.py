"""Pictures of one run: what it learned and its curves, as .png and .svg, same bytes for same inputs.

Letters: P primitives, D embedding size, M test images, C x H x W an image.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

# Paul Tol's colour-blind safe "muted" scheme; 10 colours and 11 markers make 110 different pairs.
COLOURS = "#332288 #88CCEE #CC6677 #117733 #DDCC77 #882255 #44AA99 #999933 #AA4499 #777777".split()
LOOKS: list[Any] = [{"color": COLOURS[i % 10], "marker": "os^DvPX<>ph"[i % 11]} for i in range(110)]
STYLE: dict[Any, Any] = {"font.size": 8, "axes.titlesize": 8.5, "axes.titlelocation": "left",
                         "axes.linewidth": 0.6, "xtick.labelsize": 7, "ytick.labelsize": 7,
                         "text.parse_math": False, "svg.hashsalt": "softpnet"}  # fmt: skip
WIDTH, MARGIN, SIDE, DPI = 7.2, 0.12, 2.9, 200  # inches: page, outer margin, side of the confusion matrix
MAP_POINTS = 1000


def learned(path: Path, *, anchors: Tensor, names: Sequence[str], prototypes: Tensor, embeddings: Tensor,
            true: Tensor | None, predicted: Tensor, title: str = "", seed: int = 0) -> None:  # fmt: skip
    """Draw anchors [P,C,H,W], a map of embeddings [M,D] and prototypes [P,D], and the confusion matrix.

    `true` and `predicted` are primitive ids [M]. Without `true` the map is marked by prediction and the
    matrix is left out. `seed` chooses which images the map shows (at most 1,000) and starts t-SNE.
    """
    ids, by = (predicted, "predicted") if true is None else (true, "true")
    _check(names, anchors, prototypes, embeddings, predicted, ids)
    labels = [name if len(name) <= 18 else name[:17] + "…" for name in names]
    longest = max(map(len, labels))
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
    with _figure(path, height) as figure:
        figure.text(MARGIN / WIDTH, 1 - 0.1 / height, title, size=10, weight="bold", va="top")
        figure.text(MARGIN / WIDTH, 1 - (head + 0.04) / height, "(a) Labelled anchors", size=8.5, va="top")
        for i, image in enumerate(anchors.clamp(0, 1).permute(0, 2, 3, 1).numpy(force=True)):  # [H,W,C]
            x, y = MARGIN + i % columns * cell, height - head - 0.22 - i // columns * step - picture
            axes = _axes(figure, x, y, picture, picture)
            axes.imshow(image, cmap="gray", vmin=0, vmax=1, extent=(0, picture, 0, picture))
            axes.autoscale(False)
            axes.text(0.12, -0.05, "\n".join(captions[i]), va="top", size=7)
            # The marker before the name makes the anchors the legend of the map.
            axes.plot(0.04, -0.1, clip_on=False, ms=4, mec="black", mew=0.3, **LOOKS[i % 110])
        axes = _axes(figure, MARGIN, floor, left - ticks - 0.42 - MARGIN, SIDE + bottom - floor)
        _map(axes, labels, *(t.numpy(force=True) for t in (prototypes, embeddings, ids)), seed=seed)
        shown = f"{min(len(ids), MAP_POINTS):,} of {len(ids):,}"
        axes.set_xlabel(f"{shown} test images, by {by} concept", size=7)
        _confusion(_axes(figure, left, bottom, SIDE, SIDE), labels, true, predicted)


def curves(path: Path, epochs: Sequence[Mapping[str, float | None]]) -> None:
    """Draw losses (keys "loss..."), gamma, weight (lambda) and acceptance of one dict per epoch.

    Epochs are counted from 1 unless the dicts have "epoch". Missing, None and NaN values are gaps.
    """
    losses = sorted({key for row in epochs for key in row if key.startswith("loss")})
    panels: dict[str, dict[str, list[float]]] = {}
    for key in (*losses, "gamma", "weight", "acceptance"):
        y = [math.nan if (value := row.get(key)) is None else float(value) for row in epochs]
        if any(map(math.isfinite, y)):
            panels.setdefault("loss" if key in losses else key, {})[key.removeprefix("loss_")] = y
    if not panels:
        raise ValueError(f'no finite "loss...", "gamma", "weight" or "acceptance" in {len(epochs)} epochs')
    x = [row.get("epoch", i) for i, row in enumerate(epochs, start=1)]
    wide = (WIDTH - 2 * MARGIN) / 4
    with _figure(path, 1.8, wide * len(panels) + 2 * MARGIN) as figure:
        for i, (panel, lines) in enumerate(panels.items()):
            axes = _axes(figure, MARGIN + i * wide + 0.36, 0.4, wide - 0.42, 1.15)
            axes.set(xlabel="epoch", title={"gamma": "gamma γ", "weight": "weight λ"}.get(panel, panel))
            axes.tick_params(left=True, bottom=True)
            for j, (key, y) in enumerate(lines.items()):
                axes.plot(x, y, label=key, ls=("-", "--", ":", "-.")[j % 4], color=COLOURS[2 * j % 10],
                          lw=1.3, marker="o" if len(x) < 15 else None, ms=2.5)  # fmt: skip
            if len(lines) > 1:
                axes.legend(frameon=False, fontsize=7)
            axes.spines[["top", "right"]].set_visible(False)
            axes.locator_params("x", integer=True, nbins=4)
            axes.locator_params("y", nbins=4)


def _map(axes: Axes, labels: list[str], stars: np.ndarray, points: np.ndarray, ids: np.ndarray, *,
         seed: int) -> None:  # fmt: skip
    """Embeddings [M,D] in two dimensions, marked by primitive, with the prototypes [P,D] as named stars."""
    import numpy as np
    from matplotlib.patheffects import withStroke

    chosen = np.random.default_rng(seed).permutation(len(points))[:MAP_POINTS]
    flat, how = _flatten(np.concatenate([points[chosen], stars]), seed)  # [M+P,2]
    points, stars, ids = flat[: len(chosen)], flat[len(chosen) :], ids[chosen]
    for i in range(len(labels)):
        axes.plot(*points[ids == i].T, ls="", alpha=0.75, ms=3.2, mec="white", mew=0.3, **LOOKS[i % 110])
        axes.plot(*stars[i], "*", zorder=4, ms=11, mec="black", mew=0.8, color=COLOURS[i % 10])
    axes.set_title(f"(b) {how} of embeddings, ★ = prototype")
    axes.margins(0.07)
    axes.autoscale_view()

    # Each name goes, in points around its star, where it hits no name, star or frame and hides few images.
    dots, at = (axes.transData.transform(xy) * 72 / DPI for xy in (points, stars))
    low, high = axes.bbox.get_points() * 72 / DPI
    taken, sizes = at, np.full_like(at, 5)  # middles and half sizes of boxes
    gaps, turns = np.repeat((5, 10, 18, 30, 45, 60, 80), 16), np.tile(np.arange(16) * np.pi / 8, 7)
    around = np.stack([np.cos(turns), np.sin(turns)], axis=1)  # [T,2]
    for label, star, place in zip(labels, at, stars, strict=True):
        half = np.array([2.7 * len(label) + 1, 4.5])
        tries = star + around * (half + gaps[:, None])  # [T,2]
        hits = (abs(tries[:, None] - taken) < half + sizes).all(axis=2).sum(axis=1)
        hidden = (abs(tries[:, None] - dots) < half).all(axis=2).sum(axis=1)
        outside = ((tries - half < low) | (tries + half > high)).any(axis=1)
        best = np.argmin(1000 * hits + 5000 * outside + hidden + gaps)
        taken, sizes = np.vstack([taken, tries[best]]), np.vstack([sizes, half])
        spot: Any = {"xy": place, "xytext": tries[best] - star, "textcoords": "offset points"}
        axes.annotate(label, **spot, ha="center", va="center", size=7.5, weight="bold", zorder=5,
                      path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip
        if gaps[best] > 10:
            axes.annotate("", **spot, zorder=3, arrowprops={"arrowstyle": "-", "lw": 0.5})


def _flatten(x: np.ndarray, seed: int) -> tuple[np.ndarray, str]:
    """[N,D] -> [N,2] by t-SNE, or by PCA where points are few or all alike; and the name of the way."""
    import numpy as np

    if len(x) < 12 or x.shape[1] < 2 or np.ptp(x, axis=0).max() == 0:
        left, size, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        return np.pad(left * size, ((0, 0), (0, 1)))[:, :2], "PCA"
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Prototypes are near everything: at the library's least rate, 50, t-SNE flings them off small maps.
    tsne = TSNE(perplexity=min(30, len(x) / 4), learning_rate=max(len(x) / 48, 5), max_iter=500,
                angle=0.8, init="pca", random_state=seed)  # fmt: skip
    with threadpool_limits(1):  # sums over several threads differ in their last bits from run to run
        return tsne.fit_transform(x), "t-SNE"


def _confusion(axes: Axes, labels: list[str], true: Tensor | None, predicted: Tensor) -> None:
    """Confusion matrix [P,P] in percent of each true concept's images; a row without images is blank."""
    if true is None:
        axes.set_title("(c) Confusion matrix")
        axes.text(0.5, 0.5, "left out: the true concepts\nof the test images are unknown", ha="center")
        return
    count, true, predicted = len(labels), true.cpu().long(), predicted.cpu()
    table = (true * count + predicted).bincount(minlength=count**2).reshape(count, count)  # [P,P]
    percent = 100 * table / table.sum(dim=1, keepdim=True).clamp(min=1)
    drawn = axes.imshow(percent.numpy(), cmap="Blues", vmin=0, vmax=100)
    size = min(7.0, 0.75 * 72 * SIDE / count)
    axes.set_xticks(range(count), labels, size=size, rotation=90 if max(map(len, labels)) > 2 else 0)
    axes.set_yticks(range(count), labels, size=size)
    axes.tick_params(length=0)
    accuracy = 100 * (true == predicted).double().mean().item()
    axes.set(xlabel="predicted", ylabel="true", title=f"(c) Confusion in %, accuracy {accuracy:.1f} %")
    if count > 10:  # cells are too small for numbers
        axes.figure.colorbar(drawn, cax=axes.inset_axes((1.02, 0, 0.03, 1)))
        return
    for i, share in enumerate(percent.flatten().tolist()):
        text, colour = "<1" if 0 < share < 0.5 else f"{share:.0f}", "white" if share > 55 else "black"
        if share > 0:
            axes.text(i % count, i // count, text, ha="center", va="center", size=7, color=colour)


def _axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    w, h = figure.get_size_inches()
    return figure.add_axes((x / w, y / h, width / w, height / h), xticks=[], yticks=[])


@contextmanager
def _figure(path: Path, height: float, width: float = WIDTH) -> Iterator[Figure]:
    """A figure in the house style, saved as .png and .svg when the block ends."""
    if path.suffix != ".png":
        raise ValueError(f"picture path {str(path)!r} must end in .png; the .svg is written beside it")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the user's own style must not change the picture
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(width, height), dpi=DPI)
        FigureCanvasAgg(figure)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def _check(names: Sequence[str], anchors: Tensor, stars: Tensor, points: Tensor, *ids: Tensor) -> None:
    shapes = [tuple(t.shape) for t in (anchors, stars, points, *ids)]
    p, (m, d) = len(names), points.shape if points.ndim == 2 else (0, 0)
    good = p > 0 and m > 0 and anchors.ndim == 4 and anchors.shape[:2] in ((p, 1), (p, 3))
    if not good or shapes[1:] != [(p, d), (m, d), (m,), (m,)]:
        raise ValueError(f"{p} names; anchors, prototypes, embeddings, predicted and true ids: {shapes}; "
                         "expected P names; [P,C,H,W] with C 1 or 3, [P,D], [M,D], [M], [M]")  # fmt: skip
    if not (points.isfinite().all() and stars.isfinite().all()):
        raise ValueError("embeddings or prototypes are not finite; did training diverge?")
    low, high = min(int(i.min()) for i in ids), max(int(i.max()) for i in ids)
    if low < 0 or high >= p:
        raise ValueError(f"primitive ids run {low}..{high}; expected 0..{p - 1}")
