"""Notes: all that an exported file says beside its network, as one JSON text inside it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from softpnet.errors import InputError
from softpnet.runtime.diagram import Diagram

KEY = "softpnet"
"""What the notes are called inside a file."""
FORMAT = 2
"""A newer version of softpnet that writes other notes counts on."""
LARGEST = 2**28
"""No rule in the notes has more numbers, which take 8 bytes each."""

Positive = Annotated[int, Meta(ge=1)]
Names = Annotated[tuple[str, ...], Meta(min_length=1)]


class Notes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model reads and what it may be asked."""

    format: int = FORMAT
    task: str
    slots: Positive
    input_shape: tuple[Positive, ...]  # of one slot
    input_type: Literal["float32", "int64"]  # the latter for token ids
    table_rows: np.ndarray | None  # of whole numbers, as Reader.table_rows has it
    unit_pixels: bool  # whether the inputs are images of 0 to 1
    value_names: Annotated[tuple[Names, ...], Meta(min_length=1)]  # of each concept
    # of what was read in training, highest first; None without a calibration
    confidences: Annotated[tuple[Annotated[float, Meta(ge=0, le=1)], ...], Meta(min_length=1)] | None
    rule: Diagram | None
    rule_said: str  # how the rule was compiled, or why it has no diagram
    traced_rule: bool  # whether the network gives labels, since the rule has no diagram

    def __post_init__(self) -> None:
        if self.rule is not None:
            self.rule.check([len(names) for names in self.value_names])
        if self.table_rows is not None and self.table_rows.shape != (self.slots, *self.input_shape):
            raise ValueError("its tables are not of its inputs")

    def to_text(self) -> str:
        return msgspec.json.encode(self, enc_hook=_packed).decode()

    @classmethod
    def from_text(cls, text: str | None, path: Path) -> Notes:
        """What `to_text` made; `path` is for the error."""
        if not text:
            raise InputError(f"{path} was not written by softpnet: it has no notes; make it with softpnet export RUN")
        try:
            written = msgspec.json.decode(text, type=_Format).format
            if written > FORMAT:
                raise InputError(
                    f"{path} was written by a newer softpnet, in format {written}, and this one reads {FORMAT}; "
                    "upgrade softpnet, or export the run with this version"
                )
            return msgspec.json.decode(text, type=cls, dec_hook=_unpacked)
        except InputError:
            raise
        except (ValueError, RecursionError, zlib.error) as error:
            raise InputError(f"{path} is damaged: its notes cannot be read ({error}); export the run again") from error


class _Format(msgspec.Struct):
    """The one entry that notes of every version have."""

    format: int


class _Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whole numbers in the smallest type that holds them, compressed."""

    type: Literal["<i1", "<i2", "<i4", "<i8"]
    shape: tuple[Annotated[int, Meta(ge=0)], ...]
    data: bytes


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A diagram, packed."""

    order: tuple[int, ...]
    edges: tuple[_Array, ...]
    labels: _Array


def _packed(value: Any) -> _Rule | _Array:
    if isinstance(value, Diagram):
        return _Rule(value.order, tuple(map(_packed_array, value.edges)), _packed_array(value.labels))
    return _packed_array(value)


def _packed_array(array: np.ndarray) -> _Array:
    kinds: tuple[Literal["<i1", "<i2", "<i4", "<i8"], ...] = ("<i1", "<i2", "<i4", "<i8")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    kind = next(k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    return _Array(kind, array.shape, zlib.compress(array.astype(kind).tobytes(), 9))


def _unpacked(kind: type, plain: Any) -> Diagram | np.ndarray:
    if kind is Diagram:
        rule = msgspec.convert(plain, _Rule)
        *edges, labels = _arrays([*rule.edges, rule.labels])
        return Diagram(rule.order, edges, labels)
    return _arrays([msgspec.convert(plain, _Array)])[0]


def _arrays(packed: Sequence[_Array]) -> list[np.ndarray]:
    """As int64. Their sizes are known, and limited, before any is expanded, and no more is made of their data."""
    sizes = [math.prod(each.shape) for each in packed]
    if sum(sizes) > LARGEST:
        raise ValueError(f"an entry has {sum(sizes):,} numbers, expected at most {LARGEST:,}")
    data = [
        zlib.decompressobj().decompress(each.data, size * np.dtype(each.type).itemsize + 1)
        for each, size in zip(packed, sizes, strict=True)
    ]
    return [
        np.frombuffer(own, each.type).reshape(each.shape).astype(np.int64)
        for each, own in zip(packed, data, strict=True)
    ]
