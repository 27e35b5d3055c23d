"""`python -m softpnet.experiments.migrate FOLDER`: records of older versions become today's; no value changes.

Once a record was a file of its own, FOLDER/ROW-seedS.json. All are read and checked before anything is written, and
nothing is removed before all is written: the command may be stopped, and run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softpnet.errors import InputError
from softpnet.experiments.records import configuration
from softpnet.experiments.sealed import read_lines, seal, unseal, write_lines
from softpnet.storage import read_json
from softpnet.training.folder import plain_name


def migrate(folder: Path) -> int:
    """How many records there are, all of them as today's from now on."""
    old = sorted([*folder.glob("*-seed*.json"), *folder.glob("*/*-seed*.json")])
    found = [(path, read_json(path)) for path in old]
    for path in sorted(folder.glob("*/*.jsonl")):
        for number, line in enumerate(read_lines(path), 1):
            try:
                found.append((path, json.loads(unseal(line))))
            except InputError as error:
                raise InputError(f"{path}, line {number}: {error}; restore it from a copy") from error
    files: dict[Path, dict[int, bytes]] = {}
    for path, record in found:
        line = seal(_today(path, record))
        target = folder / plain_name(record["task"]) / f"{record['row']}.jsonl"
        if path.suffix == target.suffix and path != target:
            raise InputError(f"{path} holds a record of {target}; move it there")
        lines = files.setdefault(target, {})
        if lines.setdefault(record["seed"], line) != line:
            raise InputError(f"{path} holds another record of seed {record['seed']} than {target.name}; keep one")
    for path, lines in files.items():
        path.parent.mkdir(exist_ok=True)
        write_lines(path, [lines[seed] for seed in sorted(lines)])
    for path in old:
        path.unlink()
    return sum(map(len, files.values()))


def _today(path: Path, record: Any) -> Mapping[str, Any]:
    """The record, if it is one."""
    for name, kind in {"row": str, "seed": int, "task": str, "origin": dict, "method": str, "settings": dict}.items():
        if not isinstance(record, dict) or not isinstance(record.get(name), kind):
            raise InputError(f"{path} is not a record: it has no entry {name!r} of the right kind")
    if path.suffix == ".json" and path.name != f"{record['row']}-seed{record['seed']}.json":
        raise InputError(f"{path} is the record of {record['row']}, seed {record['seed']}; give it that name")
    if record.get("configuration", configuration(record)) != configuration(record):
        raise InputError(f"{path} was changed after it was made, since its configuration's sha256 is another one")
    return record


def main(folder: str) -> None:
    try:
        print(f"{migrate(Path(folder))} records")
    except InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
