"""Inputs as a page shows them: images as small PNG files, vectors as bars, anything else in words."""

from __future__ import annotations

import base64
import io
import math
from typing import TYPE_CHECKING, Any

from softpnet.report.canvas import as_pictures

if TYPE_CHECKING:
    from torch import Tensor

SIDE = 96
"""No picture has more pixels on a side."""
LEAST = 8
BARS, TOKENS = 64, 200
"""So many numbers of a vector are drawn, or written."""


def thumbnails(inputs: Tensor, budget: int) -> list[dict[str, Any]]:
    """How each input `[M, *shape]` is shown: {"png": base64}, {"bars": numbers} or {"text": words}.

    Pictures are made smaller until they fit the budget, in bytes of all of them.
    """
    if inputs.dim() == 4 and min(inputs.shape[2:]) > 1:
        return [{"png": each} for each in _small_pngs(inputs, budget)]
    if inputs.dim() == 2 and inputs.is_floating_point():
        return [{"bars": each} for each in _rounded(inputs[:, :BARS])]
    if not inputs.is_floating_point():
        flat = inputs.flatten(1)
        more = " …" if flat.shape[1] > TOKENS else ""
        return [{"text": " ".join(map(str, each)) + more} for each in flat[:, :TOKENS].tolist()]
    kind = f"{' x '.join(map(str, inputs.shape[1:]))} numbers"
    flat = inputs.flatten(1).float()
    each = zip(flat.amin(1).tolist(), flat.mean(1).tolist(), flat.amax(1).tolist(), strict=True)
    return [{"text": f"{kind}, from {low:.3g} to {high:.3g}, mean {mean:.3g}"} for low, mean, high in each]


def _small_pngs(images: Tensor, budget: int) -> list[str]:
    """Each image `[C, H, W]` of `[M, C, H, W]` as base64 of a PNG file."""
    seen = as_pictures(images).float()
    low, high = seen.amin(), seen.amax()
    if low < 0 or high > 1:  # normalised images, as many encoders want them
        seen = (seen - low) / (high - low).clamp_min(1e-9)
    pixels = (255 * seen).round().byte().permute(0, 2, 3, 1).numpy(force=True)  # [M, H, W, C]
    side = min(SIDE, max(pixels.shape[1:3]))
    while True:
        found = [_png(each, side) for each in pixels]
        size = sum(map(len, found))
        if size <= budget or side <= LEAST:
            return found
        side = max(LEAST, min(side - 1, int(0.95 * side * math.sqrt(budget / size))))


def _png(pixels: Any, side: int) -> str:
    """Of one image `[H, W, C]`, no side longer than that."""
    from PIL import Image

    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((side, side))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def _rounded(rows: Tensor) -> list[list[float]]:
    return [[float(f"{value:.3g}") for value in row] for row in rows.tolist()]
