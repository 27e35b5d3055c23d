"""Formats: a traced network and its notes as the bytes of one file."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from softpnet.catalogue import optional_package
from softpnet.errors import InputError
from softpnet.export.network import quiet
from softpnet.runtime.engines import OUTPUTS, sealed
from softpnet.runtime.notes import KEY


def to_onnx(program: Any, notes: str) -> bytes:
    """ONNX, weights inside; the notes are an entry of its metadata."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        optional_package(name, "export")
    given = len(program.graph_signature.user_outputs)
    names = {"input_names": ["inputs"], "output_names": list(OUTPUTS[:given])}
    try:
        with quiet():
            made = torch.onnx.export(program, **names, verbose=False)
        made.model.metadata_props[KEY] = notes
        return sealed(made.model_proto.SerializeToString(), ENDINGS["onnx"])
    except Exception as error:  # an operation that ONNX lacks, or more than 2 GB
        lacking = re.search(r"op='([\w.]+)'", str(error))
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        said = f"ONNX lacks {lacking[1]}" if lacking else first
        raise InputError(f"the network cannot be written as ONNX: {said}; export it with --to torch") from error


def to_torch(program: Any, notes: str) -> bytes:
    """A program of torch.export; the notes are a file inside the archive."""
    data = io.BytesIO()
    with quiet():
        torch.export.save(program, data, extra_files={KEY: notes})
    return sealed(data.getvalue(), ENDINGS["torch"])


ENDINGS = {"onnx": ".onnx", "torch": ".pt2"}
FORMATS: dict[str, Callable[[Any, str], bytes]] = {".onnx": to_onnx, ".pt2": to_torch}
"""By the ending of the file's name."""


def named(path: Path, to: str) -> Path:
    """The path with the ending of a format, which it may have already."""
    if path.suffix and path.suffix != ENDINGS[to]:
        raise InputError(f"the export is named {str(path)!r}, but --to {to} writes a file that ends in {ENDINGS[to]}")
    return path.with_suffix(ENDINGS[to])


def writer(path: Path) -> Callable[[Any, str], bytes]:
    if path.suffix not in FORMATS:
        raise InputError(f"the export is named {str(path)!r}, expected a name that ends in {' or '.join(FORMATS)}")
    return FORMATS[path.suffix]
