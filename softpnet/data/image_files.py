"""Image files that are read when a batch asks for them, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from softpnet.data.files import check_shape, open_image, pixels
from softpnet.errors import InputError

Unreadable = Literal["raise", "skip"]


class ImageFiles:
    """Examples that are image files, one per slot: `model.fit(ImageFiles(paths, shape), labels, anchors)`.

    Args:
        paths: one list per example, a file per slot.
        shape: channels (1: grey, 3: colour), height and width; `resize` scales images of another size.
        unreadable: "raise" names a file that cannot be read; "skip" leaves its example out, with a warning.
    """

    def __init__(
        self,
        paths: Sequence[Sequence[str | Path]],
        shape: Sequence[int],
        resize: bool = False,
        unreadable: Unreadable = "raise",
    ) -> None:
        check_shape(shape)
        if unreadable not in get_args(Unreadable):
            raise InputError(f"unreadable is {unreadable!r}, expected 'raise' or 'skip'")
        self.paths = [tuple(map(str, each)) for each in paths]
        self.shape, self.resize, self.unreadable = tuple(shape), resize, unreadable

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Tensor | None:
        """One example `[n, C, H, W]` of bytes, or None for one that is to be skipped."""
        images = []
        for path in map(Path, self.paths[number]):
            try:
                image = open_image(path, self.shape[0])
            except InputError:
                if self.unreadable == "skip":
                    return None
                raise
            images.append(pixels(image, self.shape, self.resize, path))  # a wrong size is no damage
        return torch.stack(images)

    def cell_of(self, example: int, slot: int) -> dict[str, str]:
        """The file of a slot."""
        return {"file": self.paths[example][slot]}

    def why(self, number: int) -> str:
        """Why an example is to be skipped: the first of its files that cannot be read, and what is wrong with it."""
        for path in map(Path, self.paths[number]):
            try:
                open_image(path, self.shape[0])
            except InputError as error:
                return str(error)
        return ""
