"""Records: one JSON file per row and seed, and the guards that keep unlike ones apart."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from softpnet import tasks
from softpnet.errors import InputError
from softpnet.experiments.rows import Row
from softpnet.learner import SoftPNet
from softpnet.metrics import without_parts
from softpnet.settings import Settings
from softpnet.storage import digest, read_json, write_json
from softpnet.training.folder import CONFIG, EPOCHS, METRICS, RunFolder


def record_path(records: Path, row: Row, seed: int) -> Path:
    return records / f"{row.name}-seed{seed}.json"


def missing(rows: Sequence[Row], seeds: Sequence[int], records: Path) -> list[tuple[Row, int]]:
    """What has no record yet, seed by seed, so that every row has some seeds early."""
    pairs = [(row, seed) for seed in seeds for row in rows]
    return [(row, seed) for row, seed in pairs if not record_path(records, row, seed).exists()]


def write_record(row: Row, seed: int, run: Path, records: Path) -> None:
    """Make the record of a finished run."""
    folder = RunFolder(run)
    config, metrics = (json.loads(folder.read(name)) for name in (CONFIG, METRICS))
    record = {
        "row": row.name,
        "command": row.command_line(seed),
        "configuration": configuration(config),
        **config,
        **metrics,
        "curve": [json.loads(line) for line in folder.read(EPOCHS).splitlines()],
    }
    write_json(record_path(records, row, seed), record)


def configuration(config: Mapping[str, Any]) -> str:
    """One sha256 for all that was chosen for a run but its seed."""
    options = (config["origin"] or {}).get("options")
    kept = {"task": config["task"], "options": options, "method": config["method"], "settings": config["settings"]}
    return digest(json.dumps(kept, sort_keys=True).encode())


def read_records(row: Row, seeds: Sequence[int], records: Path) -> list[dict[str, Any]]:
    """The records of a row, in the order of the seeds; raises where they are not the row's or cannot be averaged."""
    found: list[dict[str, Any]] = []
    unfit: list[str] = []
    paths = {seed: record_path(records, row, seed) for seed in seeds}
    there = {seed: path for seed, path in paths.items() if path.exists()}
    chosen = choices(row) if there else {}
    for seed, path in there.items():
        try:
            record = _sound(read_json(path), row, seed, chosen)
            found.append(record)
            _check_alike(record["tests"], found[0]["tests"])
        except InputError as error:
            unfit.append(f"{path} is not averaged with others: {error}")
    if unfit:
        more = f", and so for {len(unfit) - 1} more of {row.name}" if unfit[1:] else ""
        raise InputError(f"{unfit[0]}; remove it to make it again, or name another folder (--records){more}")
    for one, other in itertools.combinations(found, 2):
        if _same_training(one, other):
            same = f"seeds {one['seed']} and {other['seed']} of {row.name}"
            raise InputError(f"{same} gave identical weights; make them again")
    return found


ENTRIES: dict[str, type | tuple[type, ...]] = {
    "row": str,
    "seed": int,
    "task": str,
    "origin": dict,
    "method": str,
    "settings": dict,
    "tests": dict,
    "curve": list,
    "versions": dict,
    "seconds_per_epoch": (int, float),
}
"""What a record must have for the tables, and of what kind."""


def _sound(record: Any, row: Row, seed: int, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The record, if it is one of a finished run of this row and seed, with numbers that can be."""
    for name, kind in ENTRIES.items():
        if not isinstance(record, dict) or not isinstance(record.get(name), kind):
            raise InputError(f"it is damaged, since it has no entry {name!r} of the right kind")
    if not isinstance(record["versions"].get("commit"), str) or not all(isinstance(e, dict) for e in record["curve"]):
        raise InputError("it is damaged, since its versions or its curve are not what a run writes")
    if (record["row"], record["seed"]) != (row.name, seed):
        raise InputError(f"it is the record of {record['row']}, seed {record['seed']}")
    if record.get("interrupted"):
        raise InputError("its run was not finished")
    if record.get("configuration", configuration(record)) != configuration(record):
        raise InputError("it was changed after it was made, since its configuration's sha256 is another one")
    for name, expected in chosen.items():
        made = compared(record)[name]
        if made != expected:
            raise InputError(f"it was made with a different configuration ({name} {made}, expected {expected})")
    epochs, seconds = record["settings"].get("epochs"), record["seconds_per_epoch"]
    if epochs not in (None, len(record["curve"])):
        raise InputError(f"it is damaged, since its curve has {len(record['curve'])} of {epochs} epochs")
    if isinstance(seconds, bool) or not 0 <= seconds < 1e9:
        raise InputError(f"it is damaged, since its seconds per epoch are {str(seconds)[:20]}")
    for test, metrics in record["tests"].items():
        if not isinstance(metrics, dict) or "label_accuracy" not in metrics:
            raise InputError(f"it is damaged, since it has no label accuracy on {test!r}")
        for metric, value in metrics.items():
            lowest = -1 if metric == "gap" else 0
            if type(value) not in (int, float) or not lowest <= value <= 1:
                raise InputError(f"it is damaged, since {metric} on {test!r} is {value!r}")
    return record


def _check_alike(tests: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Raise where a record was not judged on the test sets, and by the metrics, of the others.

    Accuracies of single groups, attributes and entries of labels may be missing: older records have none.
    """
    judged, expected = ({test: without_parts(metrics) for test, metrics in each.items()} for each in (tests, others))
    if not judged or judged != expected:
        raise InputError(f"it holds the test sets and metrics {judged}, the other seeds {expected}")


def choices(row: Row) -> dict[str, Any]:
    """What a run of this row, made now, would be made with."""
    task = tasks.load(row.task, row.options)
    model = SoftPNet(task, method=row.method, **row.settings)
    settings = dataclasses.asdict(model.settings)
    return compared({"task": task.name, "method": row.method, "origin": task.origin, "settings": settings})


def compared(config: Mapping[str, Any]) -> dict[str, Any]:
    """What all seeds of a row share.

    Settings at their defaults are left out: a setting that came after a record was made has by default what was done
    before.
    """
    defaults = dataclasses.asdict(Settings())
    settings = {name: value for name, value in config["settings"].items() if value != defaults.get(name)}
    origin = config["origin"] or {}
    return {
        "task": config["task"],
        "task file's sha256": origin.get("sha256"),
        "method": config["method"],
        "options": origin.get("options"),
        "settings": settings,
    }


def _same_training(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records are of one training, by the digests that both have: older ones lack that of the weights, or
    of the model too, and are told apart by their curves."""
    shared = [name for name in ("weights_sha256", "model_sha256") if one.get(name) and other.get(name)]
    if shared:
        return any(one[name] == other[name] for name in shared)
    first, second = ([{**epoch, "seconds": None} for epoch in record["curve"]] for record in (one, other))
    return first == second
