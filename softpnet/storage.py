"""Files that are written whole or not at all, and read only if they are plain, of the expected size and undamaged."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import operator
import os
import re
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from softpnet.errors import InputError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Not follow links, not wait for pipes: flags of `os.open` that Windows, which has neither in a folder, lacks."""

PART = ".part"
"""Ending of a file that is still being written."""

Content = bytes | Sequence[bytes | memoryview]
"""What a file is to hold; in pieces, where a copy of the whole would take long."""

SIZE_LIMIT = 2**36
"""No file of ours has more bytes (64 GB)."""

CODE = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".bin")
"""Endings of files that are usually pickles, which run code when they are read."""


def digest(*pieces: bytes | memoryview) -> str:
    """The sha256 of what the pieces are together."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def write_whole(path: Path, data: Content) -> None:
    """Write a file so that at every moment, power cuts included, either the old or the new one is there."""
    with replacing(path, data):
        pass


@contextlib.contextmanager
def replacing(path: Path, data: Content) -> Iterator[str]:
    """Within, the new file waits beside the old one, and its sha256 is known; at the end it takes its place."""
    refuse_code(path)  # it could not be read again
    temporary = path.with_name(path.name + PART)
    try:
        yield _write(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, StorageError):  # of another file, written within
            raise
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}; what was there before is still whole"
        ) from error


def _write(path: Path, data: Content) -> str:
    """Write it to the disk; its sha256, which is computed while the disk works."""
    pieces = [data] if isinstance(data, bytes) else data
    with ThreadPoolExecutor(1) as beside:
        found = beside.submit(digest, *pieces)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_FOLLOW, 0o666), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        return found.result()


def sync_folder(folder: Path) -> None:
    """Make renames and removals in the folder last, where a folder can be opened for that."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_plain(path: Path, limit: int = SIZE_LIMIT) -> bytes:
    """The content of a regular file; links, pipes, devices and files beyond the limit are refused unread.

    A missing file raises FileNotFoundError; everything else that is wrong an InputError.
    """
    refuse_code(path)
    try:
        # A pipe would block the open; a link may point anywhere.
        handle = os.open(path, os.O_RDONLY | NO_FOLLOW | NO_WAIT)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from None
    except OSError as error:
        what = "is a symbolic link, expected a plain file" if error.errno == errno.ELOOP else error.strerror
        raise InputError(f"{path} cannot be read: it {what}" if what else f"{path} cannot be read") from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} is not a plain file")
        if found.st_size > limit:
            raise InputError(f"{path} has {found.st_size:,} bytes, expected at most {limit:,}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def refuse_pipe(path: Path) -> None:
    """What is there but is no file, as a pipe or a device, could be waited for, perhaps for ever."""
    try:
        plain = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return  # opening it will say what is wrong
    if not plain:
        raise InputError(f"{path} cannot be read: it is no file, but a folder, a pipe or a device; save it as a file")


def refuse_code(path: Path) -> None:
    """Pickles are never opened."""
    if path.suffix.lower() in CODE:
        raise InputError(
            f"{path} is refused: files ending in {path.suffix} are usually pickles, which can run code when read; "
            "give a run folder, safetensors or .npy"
        )


def to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False, default=_plain) + "\n").encode()


def _plain(value: Any) -> int:
    """Whole numbers of other libraries, such as numpy's."""
    return operator.index(value)


def from_json(data: bytes, path: Path) -> Any:
    """The value of a JSON text; `path` is for the error."""
    try:
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def write_json(path: Path, value: Any) -> None:
    write_whole(path, to_json(value))


def read_json(path: Path) -> Any:
    try:
        return from_json(read_plain(path), path)
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error


def to_safetensors(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> bytes:
    from safetensors.torch import save

    return save(_apart(tensors), dict(notes))


def safetensors_pieces(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> list[bytes | memoryview]:
    """What `to_safetensors` gives, without a copy: a header, and each tensor where it lies in memory.

    The library writes without a copy too, but to a file of its own name, which a crash would leave behind.
    """
    whole = sorted(_apart(tensors).items(), key=lambda item: (-item[1].element_size(), item[0]))  # aligned, as there
    header: dict[str, Any] = {"__metadata__": dict(notes)}
    at = 0
    for name, tensor in whole:
        end = at + tensor.nbytes
        header[name] = {"dtype": _dtype_name(tensor), "shape": [*tensor.shape], "data_offsets": [at, end]}
        at = end
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    return [len(written).to_bytes(8, "little"), written, *(_memory(tensor) for _, tensor in whole)]


def _dtype_name(tensor: Tensor) -> str:
    """As safetensors says it: torch.int64 is I64, torch.bfloat16 is BF16, torch.bool is BOOL."""
    name = str(tensor.dtype).removeprefix("torch.")
    return re.sub(r"^(bf|f|i|u|c)[a-z]*(\d+)$", r"\1\2", name).upper()


def _memory(tensor: Tensor) -> memoryview:
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    whole: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        # Tensors that share memory, as tied weights do, are refused; all others need no copy, since they may be large.
        whole[name] = plain.clone() if plain.untyped_storage().data_ptr() in seen else plain
        seen.add(plain.untyped_storage().data_ptr())
    return whole


def from_safetensors(data: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and notes; `path` is for the error."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        # Cloned, because what is loaded lies in `data`, wherever the header puts it.
        tensors = {name: tensor.clone() for name, tensor in load(data).items()}
        length = int.from_bytes(data[:8], "little")
        notes = from_json(data[8 : 8 + length], path).get("__metadata__", {})
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, MemoryError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    return tensors, notes
