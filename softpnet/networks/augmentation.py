"""Random views for `Task(augment=...)`: `affine` maps and `photometric` changes of images, `noise` on vectors, and
several by `compose`.

Each returns a function from inputs `[..., *shape]` and a generator to views of the same shape, every input its own.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional

from softpnet.errors import InputError
from softpnet.task.task import Augment

ROTATION = math.radians(15)
TRANSLATION = 0.1  # of the image's size
SCALE = (0.9, 1.1)
SHEAR = math.radians(10)

SHARPEST = 1e-3
"""Pixels: a blur of so small a deviation changes nothing, and can be divided by."""


def affine(background: float = 0.0) -> Augment:
    """Rotation, translation, scale and shear; pixels from outside the image take the background value."""
    if isinstance(background, bool) or not isinstance(background, (int, float)) or not math.isfinite(background):
        raise InputError(f"background of an affine augmentation is {background!r}, expected a pixel's value, such as 0")

    def views(images: Tensor, generator: Generator) -> Tensor:
        flat = images.flatten(0, -4)  # [M, C, H, W]
        height, width = flat.shape[2:]
        maps = random_maps(len(flat), generator, width / height, flat.dtype).to(flat.device)
        grid = functional.affine_grid(maps, list(flat.shape), align_corners=False)  # [M, H, W, 2]
        # grid_sample pads with zeros; shifting by the background makes it pad with that instead
        shown = functional.grid_sample(flat - background, grid, align_corners=False) + background
        return shown.view(images.shape)

    return views


def photometric(brightness: float = 0.3, contrast: float = 0.3, saturation: float = 0.3, blur: float = 1.0) -> Augment:
    """Another light and another lens, for photographs with pixels from 0 to 1.

    Args:
        brightness: all pixels are multiplied by a number from 1 - brightness to 1 + brightness.
        contrast: so are their differences from the image's mean.
        saturation: so are the differences of a pixel's channels from their mean, its grey.
        blur: largest standard deviation of the Gaussian that the image is blurred by, in pixels; 0 for none.
    """
    for name, value in {"brightness": brightness, "contrast": contrast, "saturation": saturation}.items():
        _require(name, value, most=1)
    _require("blur", blur, most=math.inf)

    def views(images: Tensor, generator: Generator) -> Tensor:
        flat = images.flatten(0, -4)  # [M, C, H, W]

        def drawn(low: float, high: float) -> Tensor:  # [M, 1, 1, 1]
            return uniform(len(flat), low, high, generator, flat.dtype).to(flat.device)[:, None, None, None]

        flat = flat * drawn(1 - brightness, 1 + brightness)
        flat = torch.lerp(flat.mean((1, 2, 3), keepdim=True), flat, drawn(1 - contrast, 1 + contrast))
        flat = torch.lerp(flat.mean(1, keepdim=True), flat, drawn(1 - saturation, 1 + saturation))
        deviation = drawn(0, blur).clamp_min(SHARPEST)
        flat = gaussian(flat.shape[2], deviation) @ flat @ gaussian(flat.shape[3], deviation).mT
        return flat.clamp(0, 1).view(images.shape)

    return views


def noise(scale: float = 0.1) -> Augment:
    """Gaussian noise, for vectors: its deviation is so large a share of that of a vector's own numbers."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 <= scale < math.inf:
        raise InputError(f"scale of the noise is {scale!r}, expected 0 or a share of the numbers' spread, such as 0.1")

    def views(inputs: Tensor, generator: Generator) -> Tensor:
        drawn = torch.randn(inputs.shape, generator=generator, dtype=torch.float32).to(inputs)
        return inputs + scale * inputs.std(-1, correction=0, keepdim=True) * drawn

    return views


def compose(*parts: Augment) -> Augment:
    """One augmentation after the other: `compose(affine(), photometric(blur=0))`."""
    for part in parts:
        if not callable(part):
            raise InputError(
                f"compose was given {part!r}, expected augmentations; write compose(affine(), photometric())"
            )

    def views(images: Tensor, generator: Generator) -> Tensor:
        for part in parts:
            images = part(images, generator)
        return images

    return views


def random_maps(count: int, generator: Generator, aspect: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Maps from output to input coordinates, `[M, 2, 3]`, in units where the image spans -1 .. 1 on both axes.

    The image is moved first, then rotated and scaled about its centre, then sheared along x. Angles are those of the
    pixels: `aspect`, width over height, undoes the stretch of the units.
    """

    def drawn(low: float, high: float) -> Tensor:
        return uniform(count, low, high, generator, dtype)

    angle, shear = drawn(-ROTATION, ROTATION), drawn(-SHEAR, SHEAR)
    zoom = 1 / drawn(*SCALE)
    shift = torch.stack([drawn(-2 * TRANSLATION, 2 * TRANSLATION) for _ in range(2)], dim=1)  # [M, 2]
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    entries = [cos, (cos * shear.tan() - sin) / aspect, sin * aspect, sin * shear.tan() + cos]
    linear = torch.stack(entries, dim=1).view(-1, 2, 2)
    return torch.cat([linear, shift[:, :, None]], dim=2)


def gaussian(size: int, deviation: Tensor) -> Tensor:
    """Blur along an axis of so many pixels, as matrices `[..., size, size]`; deviations `[..., 1, 1]`.

    A row sums to 1 also at the border, where the Gaussian is cut off: an even image stays as it is.
    """
    places = torch.arange(size, dtype=deviation.dtype, device=deviation.device)
    return torch.softmax(-0.5 * ((places[:, None] - places) / deviation).square(), dim=-1)


def uniform(count: int, low: float, high: float, generator: Generator, dtype: torch.dtype) -> Tensor:
    """Numbers between low and high, `[M]`; the same draws in every precision."""
    return low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float32).to(dtype)


def _require(name: str, value: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most or value == math.inf:
        expected = "a number from 0 to 1" if most == 1 else "0 or a number of pixels"
        raise InputError(f"{name} of a photometric augmentation is {value!r}, expected {expected}; 0 leaves it out")
