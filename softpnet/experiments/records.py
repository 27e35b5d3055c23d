"""Records: a file per row with a line per seed, and the guards that keep unlike ones apart."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from softpnet import tasks
from softpnet.errors import InputError
from softpnet.experiments.rows import Row
from softpnet.experiments.sealed import read_lines, seal, unseal, write_lines
from softpnet.learner import Learner
from softpnet.metrics import common
from softpnet.storage import digest
from softpnet.task.hardware import SINGLE
from softpnet.task.settings import Settings
from softpnet.training.folder import CONFIG, EPOCHS, METRICS, RunFolder
from softpnet.training.lock import hold

T = TypeVar("T")


class Versions(msgspec.Struct, frozen=True):
    commit: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What the tables need of a line; it holds more."""

    row: str
    command: str
    configuration: str | None = None
    task: str
    origin: dict[str, Any]
    method: str
    encoder: Any = None  # where it was given by name
    hardware: dict[str, Any] = {}
    seed: int
    settings: dict[str, Any]
    versions: Versions
    interrupted: bool = False
    seconds_per_epoch: Annotated[float, msgspec.Meta(ge=0, lt=1e9)]
    model_sha256: str | None = None
    weights_sha256: str | None = None
    data_sha256: str | None = None
    tests: dict[str, dict[str, Any]]
    curve: list[dict[str, Any]]


def record_path(records: Path, row: Row) -> Path:
    return records / (row.folder or row.task) / f"{row.name}.jsonl"


def missing(rows: Sequence[Row], seeds: Sequence[int], records: Path) -> list[tuple[Row, int]]:
    """What has no record yet, seed by seed, so that every row has some seeds early."""
    there = [(row, _lines_by_seed(record_path(records, row))) for row in rows]
    return [(row, seed) for seed in seeds for row, lines in there if seed not in lines]


def write_record(row: Row, seed: int, run: Path, records: Path) -> None:
    """Make the record of a finished run."""
    folder = RunFolder(run)
    config, metrics = (json.loads(folder.read(name)) for name in (CONFIG, METRICS))
    record = {
        "row": row.name,
        "command": row.command_line(seed),
        "configuration": configuration(config),
        **config,
        "origin": config["origin"] | {"task": row.task},  # as the command names it, not where this machine has it
        **metrics,
        "curve": [json.loads(line) for line in folder.read(EPOCHS).splitlines()],
    }
    put_line(record_path(records, row), seed, seal(record))


def put_line(path: Path, seed: int, line: bytes) -> None:
    """Write a seed's line to its place, beside those that other processes may be writing at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold(path.parent, f"{path.stem}.lock", wait=True):
        lines = _lines_by_seed(path) | {seed: line}
        write_lines(path, [lines[each] for each in sorted(lines)])


def configuration(config: Mapping[str, Any]) -> str:
    """One sha256 for all that was chosen for a run but its seed."""
    options = (config["origin"] or {}).get("options")
    kept = {"task": config["task"], "options": options, "method": config["method"], "settings": config["settings"]}
    kept |= {"encoder": named} if (named := config.get("encoder")) else {}  # none, before it could be named
    return digest(json.dumps(kept, sort_keys=True).encode())


def read_records(row: Row, seeds: Sequence[int], records: Path) -> list[Record]:
    """The records of a row, in the order of the seeds; raises where they are not the row's or cannot be averaged."""
    path = record_path(records, row)
    lines = read_lines(path)
    chosen = choices(row) if lines else {}
    found: dict[int, Record] = {}
    unfit: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            record = _opened(line)
            if record.seed in seeds:
                _add(found, record.seed, record)
                _check(record, row, chosen)
                _check_alike(record.tests, next(iter(found.values())).tests)
        except InputError as error:
            unfit.append(f"{path}, line {number}, is not averaged with others: {error}")
    if unfit:
        more = f", and so for {len(unfit) - 1} more of {row.name}" if unfit[1:] else ""
        raise InputError(f"{unfit[0]}; remove the line to make it again, or name another folder (--records){more}")
    for one, other in itertools.combinations(found.values(), 2):
        if _same_training(one, other):
            raise InputError(f"seeds {one.seed} and {other.seed} of {row.name} gave identical weights; make them again")
    return [found[seed] for seed in seeds if seed in found]


def _lines_by_seed(path: Path) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for number, line in enumerate(read_lines(path), 1):
        try:
            _add(found, _opened(line).seed, line)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}; remove the line to make it again") from error
    return found


def _add(found: dict[int, T], seed: int, what: T) -> None:
    if seed in found:
        raise InputError(f"it is a second record of seed {seed}")
    found[seed] = what


def _opened(line: bytes) -> Record:
    """The record of a line, if it is what was written."""
    content = unseal(line)
    try:
        return msgspec.json.decode(content, type=Record)
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is damaged: {error}") from error


def _check(record: Record, row: Row, chosen: Mapping[str, Any]) -> None:
    """Raise unless the record is of a finished run of this row, with numbers that can be."""
    if record.row != row.name:
        raise InputError(f"it is a record of {record.row}")
    if record.interrupted:
        raise InputError("its run was not finished")
    config = msgspec.structs.asdict(record)
    if record.configuration not in (None, configuration(config)):
        raise InputError("it was changed after it was made, since its configuration's sha256 is another one")
    made = compared(config)
    for name, expected in chosen.items():
        if made[name] != expected:
            raise InputError(f"it was made with a different configuration ({name} {made[name]}, expected {expected})")
    epochs, patient = record.settings.get("epochs"), record.settings.get("patience")
    if epochs not in (None, len(record.curve)) and not (patient and 0 < len(record.curve) < epochs):
        raise InputError(f"it is damaged, since its curve has {len(record.curve)} of {epochs} epochs")
    for test, metrics in record.tests.items():
        if "label_accuracy" not in metrics:
            raise InputError(f"it is damaged, since it has no label accuracy on {test!r}")
        for metric, value in metrics.items():
            lowest = -1 if metric == "gap" else 0
            if type(value) not in (int, float) or not lowest <= value <= 1:
                raise InputError(f"it is damaged, since {metric} on {test!r} is {value!r}")


def _check_alike(tests: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Raise where a record was not judged on the test sets, and by the metrics, of the others.

    Accuracies of single groups, attributes and entries of labels, and calibration errors, may be missing: older
    records have none.
    """
    judged, expected = ({test: common(metrics) for test, metrics in each.items()} for each in (tests, others))
    if not judged or judged != expected:
        raise InputError(f"it holds the test sets and metrics {judged}, the other seeds {expected}")


def choices(row: Row) -> dict[str, Any]:
    """What a run of this row, made now, would be made with."""
    task = tasks.load(row.task, row.options)
    model = Learner(task, method=row.method, preset=row.preset, **row.settings)
    made = {"task": task.name, "method": row.method, "origin": task.origin, "encoder": row.encoder or None}
    computed = {"hardware": {"precision": row.precision}, "settings": dataclasses.asdict(model.settings)}
    return compared(made | computed)


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
        "encoder": config.get("encoder"),
        "precision": config.get("hardware", {}).get("precision", SINGLE),  # the only one, before it was recorded
        "options": origin.get("options"),
        "settings": settings,
    }


def _same_training(one: Record, other: Record) -> bool:
    """Whether two records are of one training, by the digests that both have: older ones lack that of the weights, or
    of the model too, and are told apart by their curves."""
    digests = [(one.weights_sha256, other.weights_sha256), (one.model_sha256, other.model_sha256)]
    shared = [pair for pair in digests if all(pair)]
    if shared:
        return any(mine == theirs for mine, theirs in shared)
    first, second = ([{**epoch, "seconds": None} for epoch in record.curve] for record in (one, other))
    return first == second
