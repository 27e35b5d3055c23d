"""Batched random affine maps: rotation, translation, scale, shear; outside pixels take the background value."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional

ROTATION = math.radians(15)
TRANSLATION = 0.1  # of the image's size
SCALE = (0.9, 1.1)
SHEAR = math.radians(10)


def augment(images: Tensor, background: float, generator: Generator) -> Tensor:
    """A fresh random view of every image `[..., C, H, W]`, same shape."""
    flat = images.flatten(0, -4)  # [M, C, H, W]
    height, width = flat.shape[2:]
    maps = random_maps(len(flat), generator, width / height, flat.dtype).to(flat.device)
    grid = functional.affine_grid(maps, list(flat.shape), align_corners=False)  # [M, H, W, 2]
    # grid_sample pads with zeros; shifting by the background makes it pad with that instead
    views = functional.grid_sample(flat - background, grid, align_corners=False) + background
    return views.view(images.shape)


def random_maps(count: int, generator: Generator, aspect: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Maps from output to input coordinates, `[M, 2, 3]`, in units where the image spans -1 .. 1 on both axes.

    The image is moved first, then rotated and scaled about its centre, then sheared along x. Angles are those of the
    pixels: `aspect`, width over height, undoes the stretch of the units.
    """

    def uniform(low: float, high: float) -> Tensor:
        # the same draws in every precision
        return low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float32).to(dtype)

    angle, shear = uniform(-ROTATION, ROTATION), uniform(-SHEAR, SHEAR)
    zoom = 1 / uniform(*SCALE)
    shift = torch.stack([uniform(-2 * TRANSLATION, 2 * TRANSLATION) for _ in range(2)], dim=1)  # [M, 2]
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    entries = [cos, (cos * shear.tan() - sin) / aspect, sin * aspect, sin * shear.tan() + cos]
    linear = torch.stack(entries, dim=1).view(-1, 2, 2)
    return torch.cat([linear, shift[:, :, None]], dim=2)
