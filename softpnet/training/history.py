"""What is known of every epoch that is done: epochs.jsonl, a line per epoch."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import msgspec

from softpnet.errors import InputError
from softpnet.storage import from_json
from softpnet.training.folder import EPOCHS, RunFolder


def write_epochs(folder: RunFolder, records: list[dict[str, float]]) -> None:
    """One line of JSON each; a number that is none becomes null, since JSON has no NaN."""
    plain = [{name: value if math.isfinite(value) else None for name, value in each.items()} for each in records]
    folder.write(EPOCHS, "".join(json.dumps(each) + "\n" for each in plain).encode())


def read_epochs(folder: RunFolder) -> list[dict[str, float]]:
    """The records of the epochs that are done; none, with a warning, where someone has removed them."""
    path = folder.path / EPOCHS
    if EPOCHS not in folder:
        return []
    if EPOCHS in folder.removed():
        warnings.warn(
            f"{path} was removed, and with it the history of the run; all else is kept as it is, "
            "and a copy of the file can be put back",
            stacklevel=2,
        )
        return []
    lines = [from_json(line, path) for line in folder.read(EPOCHS).splitlines()]
    try:
        return checked_records(lines)
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}; restore it from a copy, or remove it") from error


def checked_records(found: Any) -> list[dict[str, float]]:
    """Records as they were read from a file; a ValueError where they are not those of epochs 1, 2, ..."""
    try:
        records: list[dict[str, Any]] = msgspec.convert(found, list[dict[str, int | float | None]])
    except msgspec.ValidationError as error:
        raise ValueError(f"it does not hold the records of epochs: {error}") from error
    for epoch, record in enumerate(records, start=1):
        seconds = record.get("seconds")
        if record.get("epoch") != epoch or not isinstance(seconds, float) or not 0 <= seconds < math.inf:
            raise ValueError(f"the record of epoch {epoch} has epoch {record.get('epoch')!r}, seconds {seconds!r}")
    return records
