"""Notes: all that an exported file says beside its network, as one JSON text inside it."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softpnet.errors import InputError
from softpnet.runtime.diagram import Diagram

KEY = "softpnet"
"""What the notes are called inside a file."""
FORMAT = 1
"""A newer version of softpnet that writes other notes counts on."""
LARGEST = 2**31
"""No array in the notes has more bytes."""


@dataclass(frozen=True)
class Notes:
    """What a model reads and what it may be asked."""

    task: str
    slots: int
    input_shape: tuple[int, ...]  # of one slot
    input_type: str  # "float32", or "int64" for token ids
    value_names: tuple[tuple[str, ...], ...]  # of each concept
    confidences: tuple[float, ...] | None  # of what was read in training, highest first; None without a calibration
    rule: Diagram | None
    rule_said: str  # how the rule was compiled, or why it has no diagram
    traced_rule: bool  # whether the network gives labels, since the rule has no diagram

    def to_text(self) -> str:
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return json.dumps({"format": FORMAT, **plain, "rule": None if self.rule is None else _packed_rule(self.rule)})

    @classmethod
    def from_text(cls, text: str | None, path: Path) -> Notes:
        """What `to_text` made; `path` is for the error."""
        if not text:
            raise InputError(f"{path} was not written by softpnet: it has no notes; make it with softpnet export RUN")
        try:
            found = json.loads(text)
            written = int(found.pop("format"))
            if written > FORMAT:
                raise InputError(
                    f"{path} was written by a newer softpnet, in format {written}, and this one reads {FORMAT}; "
                    "upgrade softpnet, or export the run with this version"
                )
            found["rule"] = None if found["rule"] is None else _unpacked_rule(found["rule"])
            found["value_names"] = tuple(map(tuple, found["value_names"]))
            found["input_shape"] = tuple(map(int, found["input_shape"]))
            found["confidences"] = None if found["confidences"] is None else tuple(map(float, found["confidences"]))
            notes = cls(**found)
            if notes.rule is not None:
                notes.rule.check([len(names) for names in notes.value_names])
            return notes
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is damaged: its notes cannot be read ({error}); export the run again") from error


def _packed_rule(rule: Diagram) -> dict[str, Any]:
    return {"order": list(rule.order), "edges": [*map(packed, rule.edges)], "labels": packed(rule.labels)}


def _unpacked_rule(found: dict[str, Any]) -> Diagram:
    edges = [unpacked(layer) for layer in found["edges"]]
    return Diagram([int(each) for each in found["order"]], edges, unpacked(found["labels"]))


def packed(array: np.ndarray) -> dict[str, Any]:
    """An array of whole numbers as text: in the smallest type that holds them, compressed."""
    kinds = ("<i1", "<i2", "<i4", "<i8")
    kind = next(k for k in kinds if array.size == 0 or _holds(k, int(array.min()), int(array.max())))
    data = zlib.compress(np.ascontiguousarray(array.astype(kind)).tobytes(), 9)
    return {"type": kind, "shape": list(array.shape), "data": base64.b64encode(data).decode()}


def _holds(kind: str, low: int, high: int) -> bool:
    return bool(np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def unpacked(found: dict[str, Any]) -> np.ndarray:
    """What `packed` made, as int64. What a forged text would swell to is never made."""
    data = zlib.decompressobj().decompress(base64.b64decode(found["data"], validate=True), LARGEST)
    return np.frombuffer(data, np.dtype(found["type"])).reshape(found["shape"]).astype(np.int64)
