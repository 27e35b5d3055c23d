"""A filmstrip: the working set of one training example after every epoch, candidates with their weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.report.canvas import COLOURS, MARGIN, WIDTH, columns_of, page, show
from softpnet.rules import scoring
from softpnet.targets import weights as targets
from softpnet.targets.cache import WorkingSets
from softpnet.targets.source import State
from softpnet.targets.walk import repeated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from softpnet.learner import Learner
    from softpnet.task.concepts import ConceptSpace
    from softpnet.task.data import Examples
    from softpnet.task.task import Task

SHOWN = 4  # candidates per frame
FRAMES = 6  # on one strip
LEGEND = ("thick frame: all right", "stroke: wrong concept", "bar: weight", "log p: score")


class Frame(NamedTuple):
    """The working set after an epoch, heaviest candidate first."""

    epoch: int  # 1, 2, ...
    gamma: float
    rows: Tensor  # [K', k], the distinct candidates
    weights: Tensor  # [K']
    scores: Tensor  # [K'], log p(c|x)


class Camera:
    """Films one example: hand `look` to `fit(watch=...)`, or call it there."""

    def __init__(self, task: Task, examples: Examples, example: int = 0) -> None:
        corrupt = task.corrupt
        if corrupt is not None and int(examples.labels[example]) == corrupt.label:
            raise InputError(
                f"example {example} has label {corrupt.label}, whose candidates are corrupted anew in every step, so "
                "that it keeps none; film an example of another label"
            )
        self.task, self.example = task, example
        self.image = examples.inputs[example]  # [n, C, H, W]
        self.label = examples.labels[example]
        self.frames: list[Frame] = []

    def look(self, model: Learner, state: State) -> dict[str, float]:
        """Take the frame of the epoch that has just ended; adds nothing to its record."""
        if not isinstance(state, WorkingSets):
            raise InputError(
                f"targets={model.settings.targets!r} keeps no working sets to film; train with targets='cache'"
            )
        assert model.module is not None
        gamma = model.history[-1]["gamma"]
        rows = state.rows[self.example].long().cpu()  # [K, k]
        valid = torch.arange(len(rows)) < int(state.count[self.example])  # [K]
        valid = valid & ~repeated(self.task.space.keys(rows)[None])[0]
        with torch.no_grad():
            log_p = model.module.log_p(self.image[None].to(model.module.device)).cpu()  # [1, k, h]
        scores = scoring.scores(log_p, rows[None])  # [1, K]
        weights = targets.weights(scores, valid[None], model.settings.target_gamma(gamma))[0]
        order = scores[0].masked_fill(~valid, -math.inf).argsort(descending=True, stable=True)[: int(valid.sum())]
        self.frames.append(Frame(len(model.history), gamma, rows[order], weights[order], scores[0, order]))
        return {}


def filmstrip(
    path: Path,
    camera: Camera,
    anchors: Sequence[Tensor],
    true: Tensor,
    title: str = "",
) -> None:
    """Draw the example, and of up to six epochs the heaviest candidates as what they claim to see.

    A candidate is drawn with the anchors, per group `[P, C, H, W]`, of its concepts; what differs from the true
    assignment `[k]` is struck out, and the true one is framed.
    """
    frames = spread(camera.frames, FRAMES)
    if not frames:
        raise InputError("nothing was filmed; train with fit(watch=camera.look)")
    space = camera.task.space
    columns = columns_of(space.slots)
    rows = math.ceil(space.slots / columns)
    side = 0.76
    tall = side * rows / columns
    step, wide = tall + 0.42, (WIDTH - 2 * MARGIN - 1.24) / FRAMES
    head = 0.79 if title else 0.57
    height = head + SHOWN * step + MARGIN
    width = 2 * MARGIN + 1.24 + wide * len(frames)
    with page(path, height, max(width, 3.6)) as (figure, place):
        width = figure.get_figwidth()

        def write(x: float, y: float, text: str, **how: Any) -> None:
            figure.text(x / width, y / height, text, va="top", **how)

        write(MARGIN, height - 0.1, title, size=9, weight="bold")
        write(MARGIN, height - head + 0.46, f"example, label {camera.label.tolist()}", size=7.5)
        _mosaic(place(MARGIN, height - head - tall * 1.3, side * 1.3, tall * 1.3), list(camera.image), columns)
        for line, text in enumerate(LEGEND):
            write(MARGIN, height - head - tall * 1.3 - 0.1 - 0.13 * line, text)
        for f, frame in enumerate(frames):
            x = MARGIN + 1.24 + f * wide
            write(x, height - head + 0.46, f"epoch {frame.epoch}", size=7.5, weight="bold")
            write(x, height - head + 0.32, f"γ = {frame.gamma:.2f}")
            write(x, height - head + 0.2, _place(frame, true))
            shown = (part[:SHOWN] for part in (frame.rows, frame.weights.tolist(), frame.scores.tolist()))
            for j, (row, weight, score) in enumerate(zip(*shown, strict=True)):
                y = height - head - j * step - tall
                axes = place(x, y, side, tall)
                _mosaic(axes, pictures_of(space, row, anchors), columns)
                _mark(axes, wrong_slots(space, row, true), columns)
                _bar(place(x, y - 0.16, side - 0.36, 0.08), weight)
                write(x + side, y - 0.075, _percent(weight), ha="right")
                write(x + side, y - 0.195, f"log p = {round(score, 1) + 0.0:.1f}".replace("-", "−"), ha="right")


def spread(frames: Sequence[Frame], count: int) -> list[Frame]:
    """So many of the frames, evenly spread, with the first and the last."""
    if len(frames) <= count:
        return list(frames)
    return [frames[round(i * (len(frames) - 1) / (count - 1))] for i in range(count)]


def pictures_of(space: ConceptSpace, row: Tensor, anchors: Sequence[Tensor]) -> list[Tensor]:
    """What an assignment `[k]` claims to see in each slot: the anchor of its primitive, from the first group there."""
    blank = torch.full_like(anchors[0][0], 0.5)
    found = [blank] * space.slots
    for group, ids, images in reversed(list(zip(space.groups, space.primitives(row), anchors, strict=True))):
        for slot, primitive in zip(group.slots, ids.tolist(), strict=True):
            found[slot] = images[primitive] if primitive >= 0 else blank
    return found


def wrong_slots(space: ConceptSpace, row: Tensor, true: Tensor) -> list[int]:
    """Slots in which some concept of the assignments `[k]` differs."""
    wrong = set()
    for group, one, other in zip(space.groups, space.split(row), space.split(true), strict=True):
        wrong |= {slot for slot, same in zip(group.slots, (one == other).all(-1).tolist(), strict=True) if not same}
    return sorted(wrong)


def _place(frame: Frame, true: Tensor) -> str:
    same = (frame.rows == true).all(-1).nonzero().flatten().tolist()
    return f"true: no. {same[0] + 1} of {len(frame.rows)}" if same else "true: not in it"


def _percent(weight: float) -> str:
    return f"{100 * weight:.0f} %" if weight >= 0.005 else "<1 %" if weight else "0"


def _mosaic(axes: Axes, images: Sequence[Tensor], columns: int) -> None:
    """Images [C,H,W] beside and below each other, a pixel apart."""
    channels, high, wide = images[0].shape
    rows = math.ceil(len(images) / columns)
    whole = torch.full((channels, rows * (high + 1) - 1, columns * (wide + 1) - 1), 0.6)
    for i, image in enumerate(images):
        top, left = i // columns * (high + 1), i % columns * (wide + 1)
        whole[:, top : top + high, left : left + wide] = image
    show(axes, whole, extent=(0, columns, rows, 0))
    axes.set_aspect("auto")


def _mark(axes: Axes, wrong: Sequence[int], columns: int) -> None:
    """Strike out what is wrong; a thick frame where nothing is."""
    from matplotlib.patches import Rectangle

    for slot in wrong:
        x, y = slot % columns, slot // columns
        for colour, width in (("white", 2.4), (COLOURS[2], 1.3)):
            axes.plot((x + 0.08, x + 0.92), (y + 0.92, y + 0.08), color=colour, lw=width, solid_capstyle="butt")
    axes.spines[:].set(linewidth=0.6, color="#888888")
    if not wrong:  # apart from the images, so that it is seen beside black ones too
        place: Any = {"transform": axes.transAxes, "clip_on": False}
        axes.add_patch(Rectangle((-0.055, -0.055), 1.11, 1.11, fill=False, lw=2.2, edgecolor=COLOURS[3], **place))


def _bar(axes: Axes, weight: float) -> None:
    axes.barh(0, weight, height=1, color=COLOURS[0])
    axes.set(xlim=(0, 1), ylim=(-0.5, 0.5), xticks=[], yticks=[])
    axes.spines[:].set(linewidth=0.4, color="#888888")
