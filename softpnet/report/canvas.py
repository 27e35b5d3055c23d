"""What all pictures share: a page saved as .png and .svg with the same bytes for the same inputs, colours, images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softpnet.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

# Paul Tol's colour-blind safe "muted" scheme
COLOURS = "#332288 #88CCEE #CC6677 #117733 #DDCC77 #882255 #44AA99 #999933 #AA4499 #777777".split()
WIDTH, MARGIN, DPI = 7.2, 0.12, 200  # inches: page, outer margin


def check_picture(path: Path) -> None:
    if path.suffix != ".png":
        raise InputError(f"picture path {str(path)!r} must end in .png; the .svg is written beside it")


@contextmanager
def page(path: Path, height: float, width: float = WIDTH) -> Iterator[tuple[Figure, Callable[..., Axes]]]:
    """A figure and how to place axes on it (x, y, width, height in inches); saved when the block ends."""
    check_picture(path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the user's own style must not change the picture
        matplotlib.rcParams.update({"font.size": 7, "axes.titlelocation": "left", "axes.linewidth": 0.6})
        matplotlib.rcParams.update({"text.parse_math": False, "svg.hashsalt": "softpnet"})
        figure = Figure(figsize=(width, height), dpi=DPI)  # without pyplot; .png is drawn by Agg
        yield figure, lambda x, y, w, h: figure.add_axes((x / width, y / height, w / width, h / height))
        figure.savefig(path, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def as_pictures(inputs: Tensor) -> Tensor:
    """Images `[M, C, H, W]` as such, channels that are no colours as their mean; of any other inputs `[M, *shape]` the
    numbers as a strip of grey, from the lowest to the highest."""
    import torch

    if inputs.dim() == 4 and inputs.dtype == torch.uint8:
        inputs = inputs / 255
    if inputs.dim() != 4 or not inputs.is_floating_point():
        strips = inputs.float().reshape(len(inputs), 1, 1, -1)
        return (strips - strips.amin()) / (strips.amax() - strips.amin()).clamp_min(1e-9)
    return inputs if inputs.shape[1] in (1, 3) else inputs.mean(1, keepdim=True)


def show(axes: Axes, image: Tensor, extent: tuple[float, float, float, float] | None = None) -> None:
    """Draw an input as a picture, an image [C,H,W] with values in [0,1]."""
    seen = as_pictures(image[None])[0]
    pixels = seen.clamp(0, 1).permute(1, 2, 0).numpy(force=True)  # [H,W,C]
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, extent=extent)
    axes.set(xticks=[], yticks=[], autoscale_on=False)


def columns_of(count: int) -> int:
    """In how many columns to lay out so many images: nearly square, with few places left over."""
    least = math.isqrt(count - 1) + 1
    return min(range(least, 2 * least + 1), key=lambda columns: (-count % columns, columns))


def finite(epochs: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """The values of a key, NaN where it is absent or None; empty where no epoch has a finite one."""
    values = [math.nan if (value := row.get(key)) is None else float(value) for row in epochs]
    return values if any(map(math.isfinite, values)) else []
