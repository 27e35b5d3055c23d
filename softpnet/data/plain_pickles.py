"""Pickles of plain values, read without running anything that they hold.

A pickle names the functions that rebuild its values. This reader has functions of its own in the place of the few that
rebuild arrays and numbers, and refuses a file that names any other. Nothing is imported because a file says so.
"""

from __future__ import annotations

import pickle
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.storage import refuse_pipe

SIZE_LIMIT = 2**30
"""No pickle that is read has more bytes (1 GB)."""

SAFE_TORCH = (2, 6)
"""Earlier versions of torch can be made to run code by a tensor file, whatever they are asked for (CVE-2025-32434)."""


class _Kind:
    """Stands in for a NumPy dtype, whose own way to be rebuilt trusts the file: real and whole numbers only."""

    def __init__(self, name: str, *_: Any) -> None:
        self.numbers = numpy.dtype(str(name))
        if self.numbers.kind not in "biuf":
            raise pickle.UnpicklingError(f"it holds an array of {name!r}, expected numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.numbers = self.numbers.newbyteorder(state[1])


class _Array:
    """Stands in for a NumPy array while a file rebuilds it."""

    def __init__(self, *_: Any) -> None:
        self.values = numpy.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, columns_first, data = state
        self.values = _from_buffer(data, kind, shape, "F" if columns_first else "C")

    def tolist(self) -> Any:
        return self.values.tolist()


def _from_buffer(data: Any, kind: _Kind, shape: Any, order: Any) -> Any:
    return numpy.frombuffer(data, kind.numbers).reshape(shape, order=order)


def _number(kind: _Kind, data: bytes) -> int | float | bool:
    """A NumPy number as a plain one."""
    return numpy.frombuffer(data, kind.numbers)[0].item()


def _latin1(text: str, encoding: str) -> bytes:
    """How old protocols write bytes; a codec of the file's choice is not looked up."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are written as {encoding!r}, expected latin1")
    return text.encode("latin1")


KNOWN: dict[str, Any] = {
    "numpy.ndarray": _Array,
    "numpy.dtype": _Kind,
    "numpy.core.multiarray._reconstruct": _Array,
    "numpy.core.multiarray.scalar": _number,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "_codecs.encode": _latin1,
}
"""What a pickle may call, by the name in it, and what is called instead; NumPy 2 writes `_core` for `core`."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return KNOWN[f"{module.replace('numpy._core', 'numpy.core')}.{name}"]
        except KeyError:
            raise pickle.UnpicklingError(f"it would call {module}.{name}") from None


def read_pickle(path: Path) -> Any:
    """The lists, dicts, numbers and texts of a pickle, and its arrays as what has `tolist`; all else is refused."""
    data = _content(path)
    try:
        return _Plain(BytesIO(data)).load()
    except Exception as error:  # a damaged pickle raises whatever its next byte leads to
        raise InputError(
            f"{path} cannot be read as a pickle of plain values: {error}; expected lists, dicts, numbers and arrays"
        ) from error


def read_tensor(path: Path) -> Tensor:
    """The tensor that `torch.save` wrote; a file that holds anything else is refused."""
    _check_torch(torch.__version__)
    data = _content(path)
    try:
        found = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"{path} cannot be read as a tensor: {said:.200}; expected one written by torch.save"
        ) from error
    if not isinstance(found, Tensor):
        raise InputError(f"{path} holds {type(found).__name__}, expected one tensor")
    return found.detach()


def _check_torch(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:2]) < SAFE_TORCH:
        raise InputError(
            f"torch {version} can be made to run code by a tensor file (CVE-2025-32434); update it to "
            f"{'.'.join(map(str, SAFE_TORCH))} or later to read .pt files"
        )


def _content(path: Path) -> bytes:
    refuse_pipe(path)
    try:
        size = path.stat().st_size
        if size > SIZE_LIMIT:
            raise InputError(f"{path} has {size:,} bytes, expected at most {SIZE_LIMIT:,}")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
