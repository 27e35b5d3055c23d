"""The files of `bdd_oia.py`: driving scenes with actions and their reasons, from a folder that the user has.

The folder is that of the usual preprocessed files (`bdd2048`): `train_BDD_OIA.pkl`, `val_BDD_OIA.pkl` and
`test_BDD_OIA.pkl` list the images with their actions and reasons, `inputs/NAME.pt` has the 2,048 features of an image.
They are pickles: read as lists, dicts, strings, numbers and plain tensors, and nothing that they name is called.
"""

from __future__ import annotations

import math
import os
import pickle
import pickletools
import zipfile
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from softpnet.errors import InputError, quoted
from softpnet.runtime.inputs import FINITE, not_finite
from softpnet.storage import refuse_pipe
from softpnet.task.integers import tensor_as_array

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

SIZE_LIMIT = 2**24
"""Bytes of a file; the list of 16,000 images has about 4 million, their features have 8,192 each."""
TENSOR_LIMIT = 2**14
"""Bytes of a pickle that describes a tensor; usual ones have 400."""
LISTS_LIMIT = 10**6
"""Lists and dicts of a file; a byte of a pickle makes one, which takes 64."""
PLAIN = set(
    "PROTO FRAME MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 BINFLOAT SHORT_BINUNICODE BINUNICODE "
    "BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET".split()
)
RECORDS = PLAIN | set("EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS".split())
TENSOR = PLAIN | set("EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 GLOBAL REDUCE BINPERSID".split())
"""What a pickle may do, in the words of `pickletools`. None has both dicts and tuples: as keys these can take for ever
to look up, as large integers can."""
KINDS = {"torch.FloatStorage": torch.float32, "torch.DoubleStorage": torch.float64, "torch.HalfStorage": torch.float16}


class Scenes(NamedTuple):
    """Images of a split, in the order of its file."""

    features: Tensor  # float32 [N, 2048]
    actions: Tensor  # int64 [N, 4], in the order of ACTIONS
    concepts: Tensor  # int64 [N, 21], in the order of CONCEPTS


Split = Literal["train", "val", "test"]


def load(split: Split, folder: str | Path | None = None, order: Order = "published") -> Scenes:
    """A split from the folder, or else from the one that SOFTPNET_BDD_OIA names."""
    if order not in get_args(Order):
        raise InputError(f"order is {order!r}, expected one of {', '.join(get_args(Order))}")
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise InputError(
            "no folder with the preprocessed files of BDD-OIA (bdd_2048.zip) is named; unpack them and add --option "
            f"bdd_oia=FOLDER, or set {FOLDER_VARIABLE}"
        )
    path = Path(named).expanduser() / f"{split}_BDD_OIA.pkl"
    if not path.is_file():
        raise InputError(f"there is no {path}, expected the preprocessed files of BDD-OIA; name the folder they are in")
    rows = [_row(record, number, path) for number, record in enumerate(_records(path))]
    actions, columns = (torch.tensor([row[part] for row in rows]).long() for part in (1, 2))  # [N, 4], [N, 21]
    _check_order(actions, columns, order, path)
    features = torch.stack([_features(path.parent / "inputs" / row[0]) for row in rows])
    return Scenes(features, actions, _ordered(columns, order))


class Call:
    """What a pickle would call, by its name and arguments; nothing is looked up."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, *arguments: Any) -> None:
        self.name, self.arguments = name, arguments

    def __call__(self, *arguments: Any) -> Call:
        return Call(self.name, *arguments)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Call:
        return Call(f"{module}.{name}")

    def persistent_load(self, name: Any) -> Any:
        return name  # of a tensor's numbers


def _unpickled(data: bytes, allowed: set[str]) -> Any:
    lists = 0
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name not in allowed:
            raise ValueError(f"its operation {opcode.name} {argument or ''} makes no plain value")
        lists += opcode.name in ("EMPTY_LIST", "EMPTY_DICT")
        # A value that is used again has a number, and the table of these is as long as the largest of them.
        if lists > LISTS_LIMIT or (opcode.name.endswith("BINPUT") and int(argument or 0) > len(data)):
            raise ValueError("it would take far more memory than the file has bytes")
    return _Unpickler(BytesIO(data)).load()


def _content(path: Path) -> bytes:
    refuse_pipe(path)
    try:
        size = path.stat().st_size
        if size > SIZE_LIMIT:
            raise InputError(f"{path} has {size:,} bytes, expected at most {SIZE_LIMIT:,}")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # the latter for a name that no file can have
        said = getattr(error, "strerror", None) or error
        raise InputError(f"{str(path)!r:.300} cannot be read: {said}") from error


def _records(path: Path) -> list[Any]:
    data = _content(path)
    try:
        records = _unpickled(data, RECORDS)
    except Exception as error:  # a damaged pickle raises whatever its next byte leads to
        raise InputError(
            f"{path} cannot be read: {error!s:.200}; expected lists, dicts, numbers and strings"
        ) from error
    if not isinstance(records, list) or not records:
        raise InputError(f"{path} holds {type(records).__name__}, expected a list with a dict per image")
    return records


def _row(record: Any, number: int, path: Path) -> tuple[str, list[int], list[int]]:
    """File of the features, actions [4] and reasons [21]; a fifth action, "confused", is left out as usual."""
    entries: dict[str, Any] = record if isinstance(record, dict) else {}
    actions, reasons = entries.get("class_label", []), entries.get("attribute_label", [])
    image = entries.get("img_path")
    name = PurePosixPath(image if isinstance(image, str) else "")
    inside = name.name and not name.is_absolute() and ".." not in name.parts
    if not (inside and _are_bits(actions, 4, 5) and _are_bits(reasons, len(CONCEPTS))):
        raise InputError(
            f"image {number} of {path} is {quoted(record)}, expected a dict with img_path (a name inside the folder), "
            f"class_label (4 or 5 of 0 and 1) and attribute_label ({len(CONCEPTS)} of 0 and 1)"
        )
    return str(name.with_suffix(".pt")), actions[:4], reasons


def _are_bits(values: Any, *counts: int) -> bool:
    plain = isinstance(values, list) and len(values) in counts
    return plain and all(isinstance(bit, (int, float)) and bit in (0, 1) for bit in values)


def _features(path: Path) -> Tensor:
    """The 2,048 numbers of a file that `torch.save` wrote."""
    data = _content(path)
    try:
        found = _tensor(data)
    except Exception as error:  # whatever a damaged file leads to
        raise InputError(
            f"{path} cannot be read as {FEATURES:,} real numbers: {error!s:.200}; write it by torch.save"
        ) from error
    lost, place, value = not_finite(tensor_as_array(found[None]))
    if lost:
        raise InputError(f"{path} holds {value} at {place}, expected {FINITE}; leave the image out")
    return found.float()


def _tensor(data: bytes) -> Tensor:
    with zipfile.ZipFile(BytesIO(data)) as file:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in file.infolist()):
            raise ValueError("it is compressed, which could expand to any size")
        parts = {entry.filename.partition("/")[2]: entry for entry in file.infolist()}
        made = _unpickled(file.read(parts["data.pkl"])[:TENSOR_LIMIT], TENSOR)
        if not isinstance(made, Call) or made.name != "torch._utils._rebuild_tensor_v2":
            raise ValueError("it holds no tensor")
        (_, kind, key, *_), start, shape, strides, *_ = made.arguments
        whole = all(isinstance(number, int) for number in (start, *shape, *strides))
        if not whole or kind.name not in KINDS or math.prod(shape) != FEATURES:
            raise ValueError(f"it holds the shape {quoted(shape)} of {kind.name}")
        numbers = torch.frombuffer(bytearray(file.read(parts["data/" + key])), dtype=KINDS[kind.name])
    return numbers.as_strided(shape, strides, start).reshape(FEATURES)


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
