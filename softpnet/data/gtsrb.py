"""Photographs of traffic signs: the German Traffic Sign Recognition Benchmark (GTSRB), from a folder that the user has.

The folder holds the official `Final_Training/Images/CLASS/TRACK_FRAME.ppm` with a `GT-CLASS.csv` per class. The frames
of a track show one sign from nearer and nearer: data is split by track, never by frame.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.data.digits import Digits
from softpnet.data.files import read_image
from softpnet.errors import InputError, quoted
from softpnet.storage import refuse_pipe

FOLDER_VARIABLE = "SOFTPNET_GTSRB"
SHAPE = (3, 32, 32)
CORNERS = ("Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2")
HELD_OUT = 5
"""One of so many tracks of a class is for testing, and one of so many of the others for validation."""


class Signs(NamedTuple):
    """Regions of interest in the order of classes, tracks and frames."""

    images: Tensor  # float32 [N, 3, 32, 32] in [0, 1]
    classes: Tensor  # int64 [N], the place of the sign's class among those asked for
    tracks: Tensor  # int64 [N], numbered through all classes

    def where(self, chosen: Tensor) -> Signs:
        """Some of them, `[N]` true for those."""
        return Signs(*(part[chosen] for part in self))


class Pools(NamedTuple):
    train: Digits
    test: Digits
    anchors: Tensor  # [P, 3, 32, 32], of training tracks


def load(classes: Sequence[int], folder: str | Path | None = None) -> Signs:
    """The signs of these classes (0 to 42) from the folder, or else from the one that SOFTPNET_GTSRB names."""
    home = _images_folder(folder)
    rows = [(at, *row) for at, number in enumerate(classes) for row in _listed(home / f"{number:05}")]
    images = torch.stack([read_image(path, SHAPE, resize=True, box=box) for _, _, path, box in rows])
    names = [(at, track) for at, track, *_ in rows]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return Signs(images, torch.tensor([at for at, _ in names]), torch.tensor([numbers[name] for name in names]))


def pools(split: Literal["test", "validation"], classes: Sequence[int], folder: str | Path | None = None) -> Pools:
    """Signs to train and to judge on, of different tracks; "validation" judges on held-out training tracks.

    Which tracks those are never changes: what is chosen on validation tracks has seen no test track.
    """
    signs, generator = load(classes, folder), Generator().manual_seed(0)
    unseen = held_out(signs, generator)
    if split == "validation":
        signs = signs.where(~unseen)
        unseen = held_out(signs, generator)
    train, test = signs.where(~unseen), signs.where(unseen)
    return Pools(Digits(train.images, train.classes), Digits(test.images, test.classes), train.images[nearest(train)])


def held_out(signs: Signs, generator: Generator) -> Tensor:
    """Which signs `[N]` are of the tracks that are held out: of every class a fifth, drawn, and at least one track."""
    chosen = []
    for number in range(int(signs.classes.max()) + 1):
        tracks = signs.tracks[signs.classes == number].unique()
        if len(tracks) < 3:
            raise InputError(
                f"the class in place {number} has {len(tracks)} tracks, expected at least 3: for training, validation "
                "and test; choose another class"
            )
        chosen.append(tracks[torch.randperm(len(tracks), generator=generator)][: max(1, len(tracks) // HELD_OUT)])
    return torch.isin(signs.tracks, torch.cat(chosen))


def nearest(signs: Signs) -> Tensor:
    """The last frame of every class's first track, where the sign is nearest: `[P]`, numbers of signs."""
    first = torch.searchsorted(signs.classes, signs.classes.unique())  # [P], where a class begins
    return torch.searchsorted(signs.tracks, signs.tracks[first], right=True) - 1


def _images_folder(folder: str | Path | None) -> Path:
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    what = "the training images of the German Traffic Sign Recognition Benchmark (GTSRB_Final_Training_Images.zip)"
    if not named:
        raise InputError(
            f"no folder with {what} is named; unpack them and add --option gtsrb=FOLDER, or set {FOLDER_VARIABLE}"
        )
    home = Path(named).expanduser() / "Final_Training" / "Images"
    if not home.is_dir():
        raise InputError(f"{named} has no folder Final_Training/Images, expected {what}; name the folder it is in")
    return home


def _listed(folder: Path) -> list[tuple[int, Path, tuple[int, int, int, int]]]:
    """Track, file and region of interest of every frame of a class, in order."""
    path = folder / f"GT-{folder.name}.csv"
    if not path.is_file():
        there = ", ".join(sorted(str(int(each.name)) for each in folder.parent.iterdir() if each.name.isdecimal()))
        raise InputError(f"class {int(folder.name)} has no {path}; the classes in this folder are {there or 'none'}")
    refuse_pipe(path)
    rows = []
    with path.open(newline="", encoding="ascii", errors="replace") as file:
        for row in csv.DictReader(file, delimiter=";"):
            try:
                name = Path(row["Filename"]).name  # a path in it leads nowhere else
                track, frame = map(int, Path(name).stem.split("_"))
                left, top, right, bottom = (int(row[corner]) for corner in CORNERS)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"{path} has a row {quoted(row)} that cannot be read; expected Filename (TRACK_FRAME.ppm) and "
                    f"{', '.join(CORNERS)}, separated by semicolons"
                ) from error
            rows.append((track, frame, folder / name, (left, top, right, bottom)))
    if not rows:
        raise InputError(f"{path} lists no image; unpack the benchmark anew")
    return [(track, file, box) for track, _, file, box in sorted(rows)]
