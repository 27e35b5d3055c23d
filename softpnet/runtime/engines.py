"""Engines: whatever computes an exported network, and the notes that its file carries."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softpnet.catalogue import optional_package
from softpnet.errors import InputError
from softpnet.runtime.notes import KEY
from softpnet.storage import digest

Engine = Callable[[np.ndarray], dict[str, np.ndarray]]
"""Inputs `[B, n, *shape]` -> what the network gives, by name."""

OUTPUTS = ("concepts", "log_probabilities", "labels")
"""What a network gives, in this order; the last where the rule has no diagram but could be traced."""

SEALS = {".onnx": b"\x72\x53\x0a\x0fsoftpnet_sha256\x12\x40", ".pt2": b"softpnet_sha256 "}
"""A file ends in this and the sha256 of all before it: of ONNX an entry of the metadata, of a zip the comment."""
DIGITS = 64


def sealed(data: bytes, ending: str) -> bytes:
    """What an export is written as, so that damage is noticed before anything is made of it."""
    if ending == ".pt2":
        data = data[:-2] + (len(SEALS[ending]) + DIGITS).to_bytes(2, "little")  # the length of a zip's comment
    return data + SEALS[ending] + digest(data).encode()


def check_seal(data: bytes, path: Path) -> None:
    """Raise for a file that is not as it was written; `path` is for its ending and the error."""
    seal = SEALS[path.suffix]
    end = len(data) - len(seal) - DIGITS
    if data[max(0, end) : -DIGITS] != seal:
        raise InputError(
            f"{path} does not end in its sha256: it is damaged, not an export, or written by an older softpnet; "
            "export the run again"
        )
    if digest(memoryview(data)[:end]).encode() != data[-DIGITS:]:
        raise InputError(f"{path} is damaged: its content has another sha256 than it ends in; export the run again")


def of_onnx(data: bytes, threads: int | None) -> tuple[Engine, str | None]:
    runtime = optional_package("onnxruntime", "runtime")
    options = runtime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    # Weights are inside; those of other files would be looked for in the current folder.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(None, {"inputs": inputs}), strict=True))

    return run, session.get_modelmeta().custom_metadata_map.get(KEY)


def of_torch(data: bytes, threads: int | None) -> tuple[Engine, str | None]:
    torch: Any = optional_package("torch", "runtime")
    found = {KEY: ""}
    program = torch.export.load(io.BytesIO(data), extra_files=found)
    module = program.module()

    @torch.inference_mode()
    def run(inputs: np.ndarray) -> dict[str, np.ndarray]:
        made = module(torch.from_numpy(inputs))
        return {name: each.numpy() for name, each in zip(OUTPUTS, made, strict=False)}

    return run, found[KEY]


ENGINES = {".onnx": of_onnx, ".pt2": of_torch}
"""By the ending of a file's name."""


def engine(data: bytes, path: Path, threads: int | None = None) -> tuple[Engine, str | None]:
    """The engine for what a file holds, and its notes; `path` is for its ending and the error."""
    if path.suffix not in ENGINES:
        raise InputError(f"{path} ends in {path.suffix!r}, expected {' or '.join(ENGINES)}: what softpnet export wrote")
    check_seal(data, path)
    try:
        return ENGINES[path.suffix](data, threads)
    except InputError:
        raise
    except Exception as error:  # each library has its own
        raise InputError(
            f"{path} cannot be opened ({one_line(error)}); upgrade what runs it, or export the run again"
        ) from error


def one_line(error: Exception) -> str:
    """The beginning of what a library says."""
    return " ".join(str(error).split())[:200]
