"""Driving scenes with actions and their reasons: BDD-OIA, from a folder that the user has.

The folder is that of the usual preprocessed files (`bdd2048`): `train_BDD_OIA.pkl`, `val_BDD_OIA.pkl` and
`test_BDD_OIA.pkl` list the images with their actions and reasons, `inputs/NAME.pt` has the 2,048 features of an image.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from softpnet.data.plain_pickles import read_pickle, read_tensor
from softpnet.errors import InputError

FOLDER_VARIABLE = "SOFTPNET_BDD_OIA"
FEATURES = 2048
ACTIONS = ("forward", "stop", "left", "right")
OBSTACLES = ("car", "person", "rider", "other obstacle")
AHEAD = ("green light", "follow traffic", "road clear", "red light", "traffic sign", *OBSTACLES)
TURNS = {
    "no left": ("no lane left", "obstacle left", "solid line left"),
    "left": ("left-turn lane", "green light left", "car turns left"),
    "no right": ("no lane right", "obstacle right", "solid line right"),
    "right": ("right-turn lane", "green light right", "car turns right"),
}
CONCEPTS = (*AHEAD, *(name for names in TURNS.values() for name in names))

Order = Literal["published", "named", "ruled"]
ORDERS: dict[Order, tuple[str, ...]] = {
    "published": ("no left", "left", "no right", "right"),
    "named": ("no left", "right", "no right", "left"),
    "ruled": ("left", "no left", "right", "no right"),
}
"""Which reasons columns 9 to 20 of a file hold. Public code disagrees: the list of the data set's authors, the names
in the rsbench code, and the columns that the rule of the same code reads."""

Split = Literal["train", "val", "test"]


class Scenes(NamedTuple):
    """Images of a split, in the order of its file."""

    features: Tensor  # float32 [N, 2048]
    actions: Tensor  # int64 [N, 4], in the order of ACTIONS
    concepts: Tensor  # int64 [N, 21], in the order of CONCEPTS


def load(split: Split, folder: str | Path | None = None, order: Order = "published") -> Scenes:
    """A split from the folder, or else from the one that SOFTPNET_BDD_OIA names."""
    if order not in get_args(Order):
        raise InputError(f"order is {order!r}, expected one of {', '.join(get_args(Order))}")
    home = _folder(folder)
    path = home / f"{split}_BDD_OIA.pkl"
    if not path.is_file():
        raise InputError(f"there is no {path}, expected the preprocessed files of BDD-OIA; name the folder they are in")
    rows = [_row(record, number, path) for number, record in enumerate(_records(path))]
    actions, columns = (torch.tensor([row[part] for row in rows]) for part in (1, 2))  # [N, 4], [N, 21]
    _check_order(actions, columns, order, path)
    features = torch.stack([_features(home / "inputs" / row[0]) for row in rows])
    return Scenes(features, actions, _ordered(columns, order))


def _folder(folder: str | Path | None) -> Path:
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise InputError(
            "no folder with the preprocessed files of BDD-OIA (bdd_2048.zip) is named; unpack them and add --option "
            f"bdd_oia=FOLDER, or set {FOLDER_VARIABLE}"
        )
    return Path(named).expanduser()


def _records(path: Path) -> list[Any]:
    records = read_pickle(path)
    if not isinstance(records, list) or not records:
        raise InputError(f"{path} holds {type(records).__name__}, expected a list with a dict per image")
    return records


def _row(record: Any, number: int, path: Path) -> tuple[str, list[int], list[int]]:
    """File of the features, actions [4] and reasons [21]; a fifth action, "confused", is left out as usual."""
    entries = record if isinstance(record, Mapping) else {}
    name = PurePosixPath(str(entries.get("img_path", "")))
    actions, reasons = _bits(entries.get("class_label")), _bits(entries.get("attribute_label"))
    inside = name.name and not name.is_absolute() and ".." not in name.parts
    if not inside or len(actions) not in (4, 5) or len(reasons) != len(CONCEPTS):
        raise InputError(
            f"image {number} of {path} is {record!r:.200}, expected a dict with img_path (a name inside the folder), "
            f"class_label (4 or 5 of 0 and 1) and attribute_label ({len(CONCEPTS)} of 0 and 1)"
        )
    return str(name.with_suffix(".pt")), actions[:4], reasons


def _bits(given: Any) -> list[int]:
    """A list or array of 0 and 1 as plain numbers; empty if it is anything else."""
    try:
        found = torch.as_tensor(given.tolist() if hasattr(given, "tolist") else given).flatten().tolist()
    except (TypeError, ValueError, RuntimeError):
        return []
    return [int(bit) for bit in found] if all(bit in (0, 1) for bit in found) else []


def _features(path: Path) -> Tensor:
    found = read_tensor(path)
    if found.numel() != FEATURES or not found.is_floating_point():
        raise InputError(f"{path} holds {found.dtype} {list(found.shape)}, expected {FEATURES:,} real numbers")
    return found.reshape(FEATURES).float()


def _ordered(columns: Tensor, order: Order) -> Tensor:
    """Reasons `[N, 21]` as a file has them -> in the order of CONCEPTS."""
    blocks = dict(zip(ORDERS[order], columns[:, len(AHEAD) :].split(3, -1), strict=True))  # [N, 3] each
    return torch.cat([columns[:, : len(AHEAD)], *(blocks[name] for name in TURNS)], -1)


def _check_order(actions: Tensor, columns: Tensor, order: Order, path: Path) -> None:
    """Raise where the reasons of turns fit the turns better in another order of the columns."""
    fits = {}
    for each in ORDERS:
        no_left, left, no_right, right = _ordered(columns, each)[:, len(AHEAD) :].split(3, -1)
        turns = torch.stack([left.any(1) & ~no_left.any(1), right.any(1) & ~no_right.any(1)], 1)  # [N, 2]
        fits[each] = (turns == actions[:, 2:].bool()).double().mean().item()
    best = max(fits, key=lambda each: fits[each])
    if fits[best] > fits[order]:
        raise InputError(
            f"in the order {order!r} the reasons of {path} explain {fits[order]:.0%} of left and right turns, in the "
            f"order {best!r} {fits[best]:.0%}; add --option order={best}"
        )
