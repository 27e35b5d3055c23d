"""Images from files."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softpnet.errors import InputError, quoted
from softpnet.runtime.inputs import FINITE, not_finite
from softpnet.storage import refuse_code, refuse_pipe
from softpnet.task.integers import tensor_as_array

if TYPE_CHECKING:
    from PIL import Image

    from softpnet.data.image_files import ImageFiles

PIXEL_LIMIT = 50_000_000
"""A small file can claim to be a huge image; beyond this none is decoded."""
LONGEST_PATH = 4096  # no system has longer ones
BITS_PER_SAMPLE = 258  # of a TIFF
FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "PPM")
"""No others are tried: some of Pillow's start a program (EPS), or fail in ways of their own."""
Box = Sequence[int]
"""Left, top, right, bottom in pixels, the last two just outside it."""


def read_images(paths: Sequence[Path], slots: int, shape: Sequence[int], resize: bool = False) -> Tensor | ImageFiles:
    """Image files, `slots` per example in turn, to be read when asked for; or the numbers of one .npy array."""
    from softpnet.data.image_files import ImageFiles

    for path in paths:
        refuse_code(path)
    if len(paths) == 1 and paths[0].suffix.lower() == ".npy":
        return read_array(paths[0])
    if not paths or len(paths) % slots:
        raise InputError(f"{len(paths)} image files were given; expected a multiple of the {slots} slots of an example")
    return ImageFiles([paths[at : at + slots] for at in range(0, len(paths), slots)], shape, resize)


def read_array(path: Path) -> Tensor:
    """One .npy file of finite numbers -> a tensor of the type that it holds, whose numbers stay in the file."""
    import numpy

    refuse_pipe(path)
    try:
        # Mapped, also since a header that claims more than the file holds then takes no memory; what is written to the
        # tensor stays out of the file ("c"). A zip or a pickle, which `numpy.load` would open, is not looked into.
        array = torch.from_numpy(numpy.lib.format.open_memmap(path, mode="c"))
    except Exception as error:  # whatever a crafted header leads to
        raise InputError(f"{path} cannot be read as an array of numbers: {error}; write it by numpy.save") from error
    lost, place, value = not_finite(tensor_as_array(array)) if array.dim() else ([], [], "")
    if lost:
        raise InputError(f"{path} holds {value} at {[lost[0], *place]}, expected {FINITE}; clean or drop row {lost[0]}")
    return array


def read_image(path: Path, shape: Sequence[int], resize: bool = False, box: Box | None = None) -> Tensor:
    """One image file -> float32 `[C, H, W]` in [0, 1], in grey where there is one channel, in colour where three.

    Of the image, only the box is read where one is given.
    """
    image = open_image(path, shape[0])
    return pixels(image if box is None else cut_out(image, box, path), shape, resize, path).float() / 255


def check_shape(shape: Sequence[int]) -> None:
    """Raise where image files cannot be read as this."""
    if len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1:
        raise InputError(
            f"shape is {tuple(shape)}, expected (channels, height, width), with 1 or 3 channels, as tables name image "
            "files; a model of other inputs, such as vectors, reads one .npy array: softpnet predict RUN new.npy"
        )


def open_image(path: Path, channels: int) -> Image.Image:
    """The image of a file, decoded: in grey where there is one channel, in colour where three."""
    from PIL import Image, UnidentifiedImageError

    if channels not in (1, 3):
        raise InputError(
            f"{channels} channels are asked for, expected 1 (grey) or 3 (colour) from an image file; use a .npy array"
        )
    if len(str(path)) > LONGEST_PATH:
        raise InputError(f"{quoted(str(path))} has {len(str(path)):,} characters, expected the name of an image file")
    refuse_pipe(path)
    try:
        with Image.open(path, formats=FORMATS) as file:
            if file.width * file.height > PIXEL_LIMIT:
                raise ValueError(f"its {file.width}x{file.height} pixels are more than {PIXEL_LIMIT:,}")
            return _as_shown(file).convert("L" if channels == 1 else "RGB")
    except UnidentifiedImageError as error:
        raise InputError(f"{path} cannot be read as an image: damaged, or none of {', '.join(FORMATS)}") from error
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as an image: {error}") from error


def cut_out(image: Image.Image, box: Box, path: Path) -> Image.Image:
    """What is in the box; the path is for the error."""
    left, top, right, bottom = box
    if not (0 <= left < right <= image.width and 0 <= top < bottom <= image.height):
        raise InputError(
            f"the box {tuple(box)} is empty or is not inside {path}, which is {image.width}x{image.height}; "
            "expected left, top, right and bottom, in pixels"
        )
    return image.crop((left, top, right, bottom))


def pixels(image: Image.Image, shape: Sequence[int], resize: bool, path: Path) -> Tensor:
    """An image in grey or colour -> bytes `[C, H, W]`; the path is for the error."""
    import numpy
    from PIL import Image

    channels, height, width = shape
    if image.size != (width, height):
        if not resize:
            raise InputError(
                f"{path} is {image.size[0]}x{image.size[1]}, expected {width}x{height}; "
                "resize it (--resize on the command line; resize=True in Python)"
            )
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    found = torch.from_numpy(numpy.array(image))  # [H, W] or [H, W, 3]
    return found[None] if channels == 1 else found.permute(2, 0, 1)


def _as_shown(file: Image.Image) -> Image.Image:
    """The image as a viewer shows it, in 8 bits; raises for one that would lose what it shows on the way."""
    import numpy
    from PIL import Image, ImageOps

    image: Image.Image = ImageOps.exif_transpose(file)
    if image.has_transparency_data and numpy.asarray(image.convert("RGBA"))[..., 3].min() < 255:
        raise ValueError("it has transparent pixels; lay it on a background first")
    if image.mode not in ("F", "I") and not image.mode.startswith("I;"):
        return image
    values = numpy.asarray(image)  # convert would cut them off at 255
    odd = set(getattr(file, "tag_v2", {}).get(BITS_PER_SAMPLE, ())) - {8, 16}  # a TIFF of 12 or 32 bits, say
    if image.mode == "F" or odd or values.min() < 0 or values.max() >= 2**16:
        raise ValueError("its pixels are no numbers of 8 or 16 bits; convert it first")
    return Image.fromarray((values // 257).astype(numpy.uint8))
