"""Kandinsky-like scenes, rendered analytically: signed distance -> coverage -> colour over white.

A scene is 3 figures of 64x64 pixels with 3 objects each. Positions are in figure pixels, (x, y) with y
pointing down and the origin in the figure's upper left corner, so that the centre of pixel (row, column) is
(column + 0.5, row + 0.5).

Shape letters: N scenes, V views per figure (1 for the whole figure, 3 for the crops of its objects), S pixels
per side of a view, W views in one chunk, J (view, object) pairs that are drawn, U figures that are still
without a layout.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

SHAPES = ("square", "circle", "triangle")
COLOURS = ("red", "yellow", "blue")
RGB = ((1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.0, 0.0, 1.0))
CROPS = ("box", "window")

FIGURE = 64  # pixels per side of a figure
CROP = 28  # pixels per side of a crop
SMALLEST, LARGEST = 10.0, 26.0  # side of an object's bounding box, in figure pixels
LOOSEST = 1.3  # a box crop is 1 to LOOSEST times as wide as its object
JITTER = 0.08  # a crop's centre is off by up to this share of the object's size, per axis

# The antialiased rim reaches half a pixel out, and the coarsest pixel is that of the widest box crop,
# 26 * 1.3 / 28 = 1.21 figure pixels. Boxes padded by more than half of that never share a pixel, so that
# covers add up and the order of painting is moot.
MARGIN = 0.625
CHUNK = 64  # scenes rendered at a time, which bounds the memory beside the result


class Layout(NamedTuple):
    """Where the objects are, by (scene, figure, object), in figure pixels.

    `centres` [N,3,3,2] as (x, y); `sizes` [N,3,3], the side of the bounding box.
    """

    centres: Tensor
    sizes: Tensor


def layout(count: int, generator: torch.Generator) -> Layout:
    """Draw the places of `count` scenes: sizes uniform, centres uniform given sizes and no overlap.

    Bounding boxes, padded by `MARGIN`, are disjoint and inside the figure. The draw is exact, by rejection of
    a figure's centres; drawing its sizes again as well would favour small objects.
    """
    device = generator.device
    sizes = SMALLEST + (LARGEST - SMALLEST) * _uniform((3 * count, 3), generator)  # [3N,3]
    centres = sizes.new_empty(3 * count, 3, 2)
    first, second = torch.tensor([[0, 0, 1], [1, 2, 2]], device=device)  # the three pairs of objects
    unplaced = torch.arange(3 * count, device=device)  # [U]
    while unplaced.numel():
        half = sizes[unplaced].unsqueeze(-1) / 2 + MARGIN  # [U,3,1]
        proposal = half + (FIGURE - 2 * half) * _uniform((len(unplaced), 3, 2), generator)  # [U,3,2]
        gap = (proposal[:, first] - proposal[:, second]).abs()  # [U,3 pairs,2]
        apart = (gap >= half[:, first] + half[:, second]).any(-1).all(-1)  # [U]: each pair, on some axis
        centres[unplaced[apart]] = proposal[apart]
        unplaced = unplaced[~apart]
    return Layout(centres.view(count, 3, 3, 2), sizes.view(count, 3, 3))  # [3N,...] -> [N,3,...]


def figures(shape: Tensor, colour: Tensor, layout: Layout) -> Tensor:
    """Render whole figures, for pictures: int64 [N,3,3] -> float32 [N,3,3 rgb,64,64] in [0,1]."""
    corner = layout.centres.new_zeros(len(layout.sizes), 3, 1, 2)
    pitch = layout.sizes.new_ones(len(layout.sizes), 3, 1)
    image = _render(shape, colour, layout, corner, pitch, FIGURE)  # [N,3,1,3,64,64]
    return image.squeeze(2)  # [N,3,3,64,64]


def crops(
    shape: Tensor,
    colour: Tensor,
    layout: Layout,
    generator: torch.Generator,
    crop: Literal["box", "window"] = "box",
) -> Tensor:
    """Cut out every object: int64 [N,3,3] -> float32 [N,9,3 rgb,28,28] in [0,1]; slot = 3 * figure + object.

    `"box"` scales the object's bounding box, loosened by 1 to 1.3, to 28x28; `"window"` takes 28x28 figure
    pixels as they are, the harder variant. Both are off centre by up to 8 % of the object's size per axis and
    show whatever neighbours reach into them. Crops are evaluated from the geometry, not resampled, and one
    seed gives both variants the same jitter.
    """
    if crop not in CROPS:
        raise ValueError(f"unknown crop {crop!r}: expected one of {', '.join(map(repr, CROPS))}")
    centres, sizes = layout
    loose = 1 + (LOOSEST - 1) * _uniform(sizes.shape, generator)  # [N,3,3]
    jitter = JITTER * (2 * _uniform(centres.shape, generator) - 1)  # [N,3,3,2]
    # Figure pixels per crop pixel.
    pitch = sizes * loose / CROP if crop == "box" else torch.ones_like(sizes)  # [N,3,3]
    corner = centres + jitter * sizes.unsqueeze(-1) - pitch.unsqueeze(-1) * CROP / 2  # [N,3,3,2]
    image = _render(shape, colour, layout, corner, pitch, CROP)  # [N,3,3,3,28,28]
    return image.flatten(1, 2)  # [N,9,3,28,28]


def _render(shape: Tensor, colour: Tensor, layout: Layout, corner: Tensor, pitch: Tensor, side: int) -> Tensor:
    """Render V views of each figure -> [N,3,V,3 rgb,S,S].

    A view is its upper left `corner` [N,3,V,2] and its `pitch` [N,3,V], the side of its pixels.
    """
    for name, values, names in (("shape", shape, SHAPES), ("colour", colour, COLOURS)):
        _check(name, values, names, layout.sizes)
    # Geometry in the views' own pixels; each view of a figure may see all of its objects: [N,3,V,3 objects].
    centre = (layout.centres.unsqueeze(2) - corner.unsqueeze(3)) / pitch[..., None, None]  # [N,3,V,3,2]
    half = layout.sizes.unsqueeze(2) / 2 / pitch.unsqueeze(-1)  # [N,3,V,3]
    shape = shape.unsqueeze(2).expand(half.shape)  # [N,3,V,3]
    absorbed = 1 - half.new_tensor(RGB)  # [3 colours,3 rgb]: what each colour takes from white
    absorbed = absorbed[colour].unsqueeze(2).expand(*half.shape, 3)  # [N,3,V,3,3 rgb]
    image = half.new_empty(*pitch.shape, 3, side, side)  # [N,3,V,3,S,S]
    for start in range(0, len(image), CHUNK):
        part = slice(start, start + CHUNK)
        at, extent = centre[part].flatten(0, 2), half[part].flatten(0, 2)  # [W,3,2], [W,3]
        cover = _cover(shape[part].flatten(0, 2), at, extent, side)  # [W,3], ... -> [W,3,S,S]
        taken = absorbed[part].flatten(0, 2).mT @ cover.flatten(2)  # [W,3 rgb,3] @ [W,3,S*S] -> [W,3 rgb,S*S]
        torch.sub(1, taken.view_as(image[part]), out=image[part])
    return image


def _cover(shape: Tensor, centre: Tensor, half: Tensor, side: int) -> Tensor:
    """Share of each pixel that each object covers: [W,3], [W,3,2], [W,3] (in pixels) -> [W,3,S,S]."""
    cover = half.new_zeros(*half.shape, side, side)  # [W,3,S,S]
    pixel = torch.arange(side, device=half.device, dtype=half.dtype) + 0.5  # [S]
    # Most objects of a figure are out of a crop's sight: leaving them out saves more than half of the work.
    seen = ((centre - side / 2).abs() < (half + side / 2).unsqueeze(-1)).all(-1)  # [W,3]
    for value, signed_distance in enumerate(SIGNED_DISTANCES):
        view, thing = (seen & (shape == value)).nonzero(as_tuple=True)  # [J], [J]
        x, y = (pixel - centre[view, thing].unsqueeze(-1)).unbind(1)  # [J,2,S] -> [J,S], [J,S]
        distance = signed_distance(x.unsqueeze(1), y.unsqueeze(2), half[view, thing, None, None])  # [J,S,S]
        cover[view, thing] = distance.neg_().add_(0.5).clamp_(0, 1)
    return cover


def _square(x: Tensor, y: Tensor, half: Tensor) -> Tensor:
    """[J,1,S], [J,S,1], [J,1,1] -> [J,S,S], as its siblings below."""
    x, y = x.abs() - half, y.abs() - half
    outside = (x.clamp(min=0).square() + y.clamp(min=0).square()).sqrt_()
    return outside.add_(torch.maximum(x, y).clamp_(max=0))


def _circle(x: Tensor, y: Tensor, half: Tensor) -> Tensor:
    return (x.square() + y.square()).sqrt_().sub_(half)


def _triangle(x: Tensor, y: Tensor, half: Tensor) -> Tensor:
    """Isosceles, filling its bounding box: apex (0, -half) on top, base corners (+-half, half)."""
    x, y = x.abs(), y + half  # by symmetry the right half is enough; y from the apex
    # Foot of the perpendicular on the slanted side (0, 0) -> (half, 2 half), as a share of that side.
    along = ((x + 2 * y) / (5 * half)).clamp_(0, 1)
    slant = (x - along * half).square_().add_((y - along.mul_(2 * half)).square_())
    base = (x - half).clamp(min=0).square() + (y - 2 * half).square()
    inside = (2 * x < y) & (y < 2 * half)
    distance = torch.minimum(slant, base).sqrt_()
    return torch.where(inside, -distance, distance)


SignedDistance = Callable[[Tensor, Tensor, Tensor], Tensor]
SIGNED_DISTANCES: tuple[SignedDistance, ...] = (_square, _circle, _triangle)  # in the order of SHAPES


def _uniform(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(size, generator=generator, device=generator.device, dtype=torch.float32)


def _check(name: str, values: Tensor, names: tuple[str, ...], sizes: Tensor) -> None:
    if values.shape != sizes.shape:
        raise ValueError(
            f"{name} has shape {list(values.shape)}, but the layout is of {list(sizes.shape)} "
            f"(scene, figure, object): draw the layout for as many scenes as there are rows of {name}"
        )
    wrong = values[(values < 0) | (values >= len(names))]
    if wrong.numel():
        legend = ", ".join(f"{value} {word}" for value, word in enumerate(names))
        raise ValueError(f"{name} holds {wrong[0].item()}: expected {legend}")
