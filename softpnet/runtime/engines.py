"""Engines: whatever computes an exported network, and the notes that its file carries."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softpnet.catalogue import optional_package
from softpnet.errors import InputError
from softpnet.runtime.notes import KEY

Engine = Callable[[np.ndarray], dict[str, np.ndarray]]
"""Inputs `[B, n, *shape]` -> what the network gives, by name."""

OUTPUTS = ("concepts", "log_probabilities", "labels")
"""What a network gives, in this order; the last where the rule has no diagram but could be traced."""


def of_onnx(data: bytes, threads: int | None) -> tuple[Engine, str | None]:
    runtime = optional_package("onnxruntime", "runtime")
    options = runtime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
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
    try:
        return ENGINES[path.suffix](data, threads)
    except InputError:
        raise
    except Exception as error:  # each library has its own
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path} cannot be opened ({said}); it is damaged or no export: export the run again"
        ) from error
