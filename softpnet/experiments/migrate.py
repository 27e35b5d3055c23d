"""`python -m softpnet.experiments.migrate FOLDER`: records of older versions become today's; no number changes.

Once a record was a file of its own, FOLDER/ROW-seedS.json, and some names were others. All are read and checked before
anything is written, and nothing is removed before all is written: the command may be stopped, and run again.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import tyro

from softpnet.errors import InputError
from softpnet.experiments.records import Record, configuration
from softpnet.experiments.sealed import read_lines, seal, unseal, write_lines
from softpnet.storage import read_json
from softpnet.task.settings import Settings
from softpnet.terminal import harmless, say
from softpnet.training.folder import plain_name

SETTINGS = {
    "candidates": "targets",
    "kept": "working_set",
    "pool": "kbest_pool",
    "weight": "rule_weight",
    "weight_delay": "rule_delay",
    "weight_ramp": "rule_ramp",
}
ENTRIES = {"image_shape": "input_shape"}
EPOCH = {"weight": "rule_weight"}
"""Names of settings, of a record's entries and of an epoch's: once, and today."""
ONCE_AUTO, KBEST = "auto", "kbest"
"""Before there was a setting cache_rows, targets "auto" were the K best feasible assignments: today's "kbest"."""
FLAGS = {f"--{old.replace('_', '-')}": f"--{new.replace('_', '-')}" for old, new in SETTINGS.items()}


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
        home = path.parent if path.suffix == ".jsonl" else folder / plain_name(record["task"])
        target = home / f"{record['row']}.jsonl"
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
    """The record with the names of today, if it is one that is as it was made."""
    try:
        msgspec.convert(record, Record)
    except msgspec.ValidationError as error:
        raise InputError(f"{path} is not a record: {error}") from error
    if path.suffix == ".json" and path.name != f"{record['row']}-seed{record['seed']}.json":
        raise InputError(f"{path} is the record of {record['row']}, seed {record['seed']}; give it that name")
    if record.get("configuration", configuration(record)) != configuration(record):
        raise InputError(f"{path} was changed after it was made, since its configuration's sha256 is another one")
    settings = _renamed(path, record["settings"], SETTINGS)
    valid = [field.name for field in dataclasses.fields(Settings)]
    unknown = [name for name in settings if name not in valid]
    if unknown:
        raise InputError(f"{path} has the unknown setting {unknown[0]!r}; there are {', '.join(valid)}")
    words = [FLAGS.get(word, word) for word in shlex.split(record["command"])]
    if "cache_rows" not in settings and settings.get("targets") == ONCE_AUTO:
        settings["targets"] = KBEST
        words = [KBEST if before == "--targets" else word for before, word in zip(["", *words], words, strict=False)]
    if "preset" not in record and "--preset" not in words:  # there was no other once
        at = words.index("--seed") if "--seed" in words else len(words)
        words[at:at] = ["--preset", "paper"]
    changed = {
        "command": shlex.join(words),
        "settings": settings,
        "curve": [_renamed(path, epoch, EPOCH) for epoch in record["curve"]],
    }
    record = _renamed(path, record, ENTRIES) | changed
    return record | ({"configuration": configuration(record)} if "configuration" in record else {})


def _renamed(path: Path, entries: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The same values in the same order."""
    if any(old in entries and new in entries for old, new in names.items()):
        raise InputError(f"{path} holds {str(entries)[:100]}, expected no entry under two names")
    return {names.get(name, name): value for name, value in entries.items()}


def main(folder: tyro.conf.Positional[Path]) -> None:
    """Make today's records of older ones; no number changes.

    Args:
        folder: The records, such as `results` or `comparisons`.
    """
    try:
        say(f"{migrate(folder)} records")
    except InputError as error:
        sys.exit(harmless(error))


if __name__ == "__main__":
    tyro.cli(main)
