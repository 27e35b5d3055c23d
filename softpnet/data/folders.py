"""Anchors from a folder per class: anchors/low/*.png, anchors/high/*.png."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from softpnet.data.files import check_shape, read_image
from softpnet.data.values import value_number
from softpnet.errors import InputError, about
from softpnet.task.data import Anchors


def read_anchors(
    folder: str | Path, shape: Sequence[int], names: Sequence[str], *, resize: bool = False, limit: int | None = None
) -> Anchors:
    """All images of the folder's folders, one folder per class, in the order of classes and of file names.

    Hidden files, which begin with a dot, are not looked at.

    Args:
        shape: channels (1: grey, 3: colour), height and width; `resize` scales images of another size.
        names: of the classes, in the order of their numbers; a folder is called by its class's name or number. Those
            of a space are `space.groups[0].primitive_names`.
        limit: at most so many images per class, the first ones.
    """
    folder = Path(folder)
    check_shape(shape)
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}, expected at least 1 image per class, or None for all of them")
    classes: dict[int, Path] = {}
    for each in _inside(folder, "a folder of images per class"):
        if not each.is_dir():
            raise InputError(f"{each} is no folder, expected one per class in {folder}; move it into its class's")
        with about(f"class folder {each}"):
            number = value_number(each.name, names)
        if number in classes:
            raise InputError(f"{classes[number]} and {each} are of one class, {names[number]!r}; make them one folder")
        classes[number] = each
    files = {number: _inside(classes[number], "an image of its class")[:limit] for number in sorted(classes)}
    found = [(read_image(path, shape, resize), number) for number, paths in files.items() for path in paths]
    return Anchors(torch.stack([image for image, _ in found]), torch.tensor([number for _, number in found]))


def _inside(folder: Path, expected: str) -> list[Path]:
    """What is in the folder, sorted, without what is hidden."""
    try:
        found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder} cannot be read as a folder: {error}") from error
    if not found:
        raise InputError(f"{folder} is empty, expected {expected}")
    return found
