"""Pictures of one run: what it learned (anchors, map of embeddings, confusions) and its curves.

Letters: P primitives, D embedding size, M test images, C x H x W an image. Every picture is written as
.png and as .svg beside it, the same bytes for the same inputs, and leaves everything global as it was.
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

# Paul Tol's colour-blind safe "muted" scheme. 10 colours and 11 markers have no common divisor, so pairs
# stay distinct up to 110 primitives. The star is kept for prototypes.
COLOURS = "#332288 #88CCEE #CC6677 #117733 #DDCC77 #882255 #44AA99 #999933 #AA4499 #777777".split()
MARKERS = "os^DvPX<>ph"
STYLE = {"font.size": 8, "axes.titlesize": 8.5, "axes.titlelocation": "left", "axes.titlepad": 5,
         "axes.linewidth": 0.6, "xtick.labelsize": 7, "ytick.labelsize": 7, "xtick.major.size": 2.5,
         "ytick.major.size": 2.5, "text.parse_math": False, "svg.hashsalt": "softpnet"}  # fmt: skip
WIDTH, MARGIN, SIDE = 7.2, 0.12, 2.9  # inches: page, outer margin, side of the confusion matrix
MAP_POINTS = 1000


def learned(path: Path, *, anchors: Tensor, names: Sequence[str], prototypes: Tensor, embeddings: Tensor,
            true: Tensor | None, predicted: Tensor, title: str = "", seed: int = 0) -> None:  # fmt: skip
    """Draw anchors [P,C,H,W], a map of embeddings [M,D] and prototypes [P,D], and the confusion matrix.

    `true` and `predicted` are primitive ids [M]. Without `true` the map is marked by prediction and the
    matrix is left out. `seed` chooses which images the map shows and starts t-SNE.
    """
    images, stars, points, guess = (t.detach().cpu().numpy() for t in (anchors, prototypes, embeddings, predicted))
    truth = None if true is None else true.detach().cpu().numpy()
    _check(images, names, stars, points, guess, truth)
    labels = [textwrap.shorten(name, 18, placeholder="…") for name in names]
    captions = [textwrap.fill(label, 9, break_long_words=False) for label in labels]

    # Places are in inches, because the room needed depends on the number of primitives and their names.
    count, room = len(labels), WIDTH - 2 * MARGIN
    words = max(len(line) for caption in captions for line in caption.split("\n"))
    rows = math.ceil(count / int(room / max(0.66, 0.057 * words + 0.2)))
    columns = math.ceil(count / rows)
    cell = min(room / columns, 0.9)
    picture = min(cell - 0.12, 0.6)
    step = picture + 0.13 + 0.12 * max(caption.count("\n") + 1 for caption in captions)
    longest = max(map(len, labels)) if truth is not None else 0
    ticks = 0.24 if longest <= 2 else 0.14 + 0.056 * longest  # room for the matrix's tick labels
    bottom, head = MARGIN + 0.16 + ticks, 0.34 if title else 0.1
    height = head + 0.22 + rows * step + 0.3 + SIDE + bottom
    left = WIDTH - MARGIN - SIDE - (0.3 if count > 10 else 0)
    floor = bottom if longest <= 2 else MARGIN + 0.2  # beside long turned names the map is taller

    with _figure(path, height) as figure:
        figure.text(MARGIN / WIDTH, 1 - 0.1 / height, title, size=10, weight="bold", va="top")
        figure.text(MARGIN / WIDTH, 1 - (head + 0.04) / height, "(a) Labelled anchors", size=8.5, va="top")
        for i, (image, caption) in enumerate(zip(images, captions, strict=True)):
            x, y = MARGIN + i % columns * cell, height - head - 0.22 - i // columns * step - picture
            _anchor(_axes(figure, x, y, picture, picture), image, caption, i)
        axes = _axes(figure, MARGIN, floor, left - ticks - 0.42 - MARGIN, SIDE + bottom - floor)
        _map(axes, labels, stars, points, guess if truth is None else truth, seed)
        axes.set_xlabel(axes.get_xlabel() + ("predicted" if truth is None else "true") + " concept", size=7)
        _confusion(_axes(figure, left, bottom, SIDE, SIDE), labels, truth, guess)


def curves(path: Path, epochs: Sequence[Mapping[str, float | None]]) -> None:
    """Draw losses (keys "loss..."), gamma, weight (lambda) and acceptance; one dict per epoch.

    "epoch" counts from 1 where it is absent. Missing, None and NaN values are gaps.
    """
    losses = sorted({key for row in epochs for key in row if key.startswith("loss")})
    panels: dict[str, dict[str, list[float]]] = {}
    for key in (*losses, "gamma", "weight", "acceptance"):
        y = [math.nan if (value := row.get(key)) is None else float(value) for row in epochs]
        if any(map(math.isfinite, y)):
            panel = "loss" if key in losses else {"gamma": "gamma γ", "weight": "weight λ"}.get(key, key)
            panels.setdefault(panel, {})[key.removeprefix("loss_")] = y
    if not panels:
        raise ValueError(f"nothing to draw in {len(epochs)} epochs; expected one dict per epoch with finite "
                         'values of "loss...", "gamma", "weight" or "acceptance"')  # fmt: skip
    x = [row.get("epoch", i) for i, row in enumerate(epochs, start=1)]
    wide = (WIDTH - 2 * MARGIN) / 4
    with _figure(path, 1.8, wide * len(panels) + 2 * MARGIN) as figure:
        for i, (panel, lines) in enumerate(panels.items()):
            axes = _axes(figure, MARGIN + i * wide + 0.34, 0.4, wide - 0.4, 1.15)
            for j, (key, y) in enumerate(lines.items()):
                dots = "o" if len(x) < 15 else ""
                axes.plot(x, y, dots, ls="- -- : -.".split()[j % 4], color=COLOURS[2 * j % 10], ms=2.5, lw=1.3, label=key)
            if len(lines) > 1:
                axes.legend(frameon=False, fontsize=7)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set(title=panel, xlabel="epoch", xlim=(min(x) - 0.5, max(x) + 0.5))
            axes.locator_params("x", integer=True, nbins=4)
            axes.locator_params("y", nbins=4)
            if panel == "acceptance":
                axes.set_ylim(-0.03, 1.03)


def _anchor(axes: Axes, image: np.ndarray, caption: str, i: int) -> None:
    """One anchor [C,H,W]; the marker before its name makes the row the legend of the map."""
    shown = image[0] if len(image) == 1 else image.transpose(1, 2, 0)  # [H,W] or [H,W,C]
    axes.imshow(shown.clip(0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.annotate(caption, (0, 0), (8.5, -3.5), "axes fraction", "offset points", va="top", size=7)
    side = axes.bbox.width * 72 / axes.get_figure(root=True).dpi  # of the picture, in points
    axes.plot(3 / side, -7.5 / side, transform=axes.transAxes, clip_on=False, ms=4, **_look(i))


def _map(axes: Axes, labels: list[str], stars: np.ndarray, points: np.ndarray, ids: np.ndarray, seed: int) -> None:
    """Test embeddings [M,D], marked by primitive, with the prototypes [P,D] as named stars."""
    import numpy as np
    from matplotlib.patheffects import withStroke

    total = len(points)
    chosen = np.random.default_rng(seed).permutation(total)[:MAP_POINTS]
    flat, how = _flatten(np.concatenate([points[chosen], stars]), seed)  # [M+P,2]
    points, stars, ids = flat[: len(chosen)], flat[len(chosen) :], ids[chosen]
    for i in range(len(labels)):
        axes.plot(*points[ids == i].T, ls="", alpha=0.75, ms=3.2, **_look(i, "white"))
        axes.plot(*stars[i], zorder=4, ms=11, **_look(i) | {"marker": "*", "mew": 0.8})
    axes.set(xticks=[], yticks=[], title=f"(b) {how} of embeddings, ★ = prototype")
    axes.set_xlabel(f"{len(chosen):,} of {total:,} test images, by ")
    axes.margins(0.07)
    axes.set_aspect("equal", adjustable="datalim")
    axes.apply_aspect()
    line = {"arrowstyle": "-", "lw": 0.5, "shrinkA": 0, "shrinkB": 3}
    for label, star, (x, y) in zip(labels, stars, _offsets(axes, labels, stars, points), strict=True):
        text = axes.annotate(label, star, (x, y), textcoords="offset points", ha="center", va="center",
                             size=7.5, weight="bold", zorder=5, arrowprops=line)  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _offsets(axes: Axes, labels: list[str], stars: np.ndarray, points: np.ndarray) -> list[np.ndarray]:
    """Where each star's name goes, in points from it: off names, stars and frame, and off images if possible."""
    import numpy as np

    scale = 72 / axes.get_figure(root=True).dpi
    points, stars = axes.transData.transform(points) * scale, axes.transData.transform(stars) * scale
    frame = axes.bbox.get_points() * scale  # lower left and upper right corner
    middles, halves = list(stars), [np.array([5.0, 5.0])] * len(stars)  # boxes taken so far
    angles = np.arange(16) * np.pi / 8
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # [16,2]
    offsets = []
    for label, star in zip(labels, stars, strict=True):
        half = np.array([2.7 * len(label) + 1, 4.5])  # half width and height of the text
        tries = np.concatenate([around * (half + gap) for gap in (5, 10, 18, 30, 45, 60, 80)])  # [T,2]
        at = star + tries
        hits = (abs(at[:, None] - middles) < half + halves).all(axis=2).sum(axis=1)
        outside = ((at - half < frame[0]) | (at + half > frame[1])).any(axis=1)
        covered = (abs(at[:, None] - points) < half).all(axis=2).sum(axis=1)
        best = np.argmin(1000 * hits + 5000 * outside + covered + abs(tries).sum(axis=1) / 4)
        offsets.append(tries[best])
        middles.append(at[best])
        halves.append(half)
    return offsets


def _flatten(x: np.ndarray, seed: int) -> tuple[np.ndarray, str]:
    """[N,D] -> [N,2] by t-SNE, or by PCA where points are few or all alike; and the name of the way taken."""
    import numpy as np

    if len(x) < 12 or x.shape[1] < 2 or np.ptp(x, axis=0).max() == 0:
        left, size, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        flat = np.pad(left * size, ((0, 0), (0, 1)))[:, :2]  # one column where D is 1
        return flat, "PCA"
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    tsne = TSNE(perplexity=min(30, len(x) / 4), init="pca", max_iter=500, random_state=seed)
    with threadpool_limits(1):  # sums over several threads differ in their last bits from run to run
        return tsne.fit_transform(x), "t-SNE"


def _confusion(axes: Axes, labels: list[str], true: np.ndarray | None, guess: np.ndarray) -> None:
    """Confusion matrix [P,P] in percent of each true concept's images; a row without images is blank."""
    import numpy as np

    axes.set(xticks=[], yticks=[], title="(c) Confusion matrix")
    if true is None:
        note = "left out: the true concepts\nof the test images are unknown"
        axes.text(0.5, 0.5, note, ha="center", va="center", color="#555555")
        return
    count = len(labels)
    table = np.bincount(true * count + guess, minlength=count**2).reshape(count, count)  # [P,P]
    percent = 100 * table / table.sum(axis=1, keepdims=True).clip(1)
    axes.set_title(f"(c) Confusion in %, accuracy {100 * (true == guess).mean():.1f} %")
    drawn = axes.imshow(percent, cmap="Blues", vmin=0, vmax=100)
    size = min(7.0, 0.75 * 72 * SIDE / count)
    axes.set_xticks(range(count), labels, size=size, rotation=90 if max(map(len, labels)) > 2 else 0)
    axes.set_yticks(range(count), labels, size=size)
    axes.tick_params(length=0)
    axes.set(xlabel="predicted", ylabel="true")
    if count > 10:  # too small for numbers
        axes.get_figure(root=True).colorbar(drawn, cax=axes.inset_axes((1.02, 0, 0.03, 1)))
        return
    for (i, j), share in np.ndenumerate(percent):
        text = f"{share:.0f}" if share >= 0.5 else "<1" if share else ""
        axes.text(j, i, text, ha="center", va="center", size=7, color="white" if share > 55 else "black")


def _look(i: int, edge: str = "black") -> dict[str, Any]:
    return {"marker": MARKERS[i % 11], "color": COLOURS[i % 10], "mec": edge, "mew": 0.3}


def _axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    w, h = figure.get_size_inches()
    return figure.add_axes((x / w, y / h, width / w, height / h))


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
        figure = Figure(figsize=(width, height), dpi=200)
        FigureCanvasAgg(figure)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def _check(images: np.ndarray, names: Sequence[str], stars: np.ndarray, points: np.ndarray, guess: np.ndarray,
           truth: np.ndarray | None) -> None:  # fmt: skip
    import numpy as np

    count, total = len(names), len(points)
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(f"anchors have shape {images.shape}; expected [P,C,H,W] with C 1 or 3")
    if not 0 < count == len(images) == len(stars):
        raise ValueError(f"{count} names, {len(images)} anchors, {len(stars)} prototypes; expected P of each")
    if total == 0 or points.ndim != 2 or points.shape[1:] != stars.shape[1:]:
        raise ValueError(f"embeddings {points.shape}, prototypes {stars.shape}; expected [M,D], [P,D], M > 0")
    if not (np.isfinite(points).all() and np.isfinite(stars).all()):
        raise ValueError("embeddings or prototypes are not finite; did training diverge?")
    for what, ids in (("predicted", guess), ("true", truth)):
        if ids is not None and (ids.shape != (total,) or ids.min() < 0 or ids.max() >= count):
            raise ValueError(f"{what} ids have shape {ids.shape} and range {ids.min()}..{ids.max()}; "
                             f"expected shape {(total,)} and range 0..{count - 1}")  # fmt: skip
