"""Run the rows of the result table that have no record yet, side by side, and write them up."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from softpnet.errors import TrainingError
from softpnet.experiments.rows import Row
from softpnet.storage import read_json, write_json
from softpnet.training.folder import CONFIG, EPOCHS, METRICS, RunFolder

SHOWN = ("concept_accuracy", "primitive_accuracy", "label_accuracy", "label_f1")


def record_path(records: Path, row: Row, seed: int) -> Path:
    return records / f"{row.name}-seed{seed}.json"


def missing(rows: Sequence[Row], records: Path) -> list[tuple[Row, int]]:
    pairs = [(row, seed) for row in rows for seed in row.seeds]
    return [(row, seed) for row, seed in pairs if not record_path(records, row, seed).exists()]


def run_missing(rows: Sequence[Row], records: Path, jobs: int) -> Iterator[tuple[Row, int]]:
    """Run what has no record, `jobs` processes of one thread at a time; yields each as it is done."""
    records.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(_run, row, seed, records): (row, seed) for row, seed in missing(rows, records)}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        finally:
            pool.shutdown(cancel_futures=True)


def _run(row: Row, seed: int, records: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        command = [sys.executable, "-m", "softpnet.cli.main", *row.command(seed)]
        command += ["--out", str(folder), "--threads", "1", "--no-pictures"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise TrainingError(f"{' '.join(row.command(seed))} ended with {done.returncode}: {done.stderr[-2000:]}")
        record: dict[str, Any] = {"row": row.name, "command": " ".join(["softpnet", *row.command(seed)])}
        run = RunFolder(folder)
        record |= json.loads(run.read(CONFIG)) | json.loads(run.read(METRICS))
        record["curve"] = [json.loads(line) for line in run.read(EPOCHS).splitlines()]
    write_json(record_path(records, row, seed), record)


def read_records(row: Row, records: Path) -> list[dict[str, Any]]:
    paths = [record_path(records, row, seed) for seed in row.seeds]
    return [read_json(path) for path in paths if path.exists()]


def write_up(rows: Sequence[Row], records: Path) -> str:
    """The records as Markdown: a table of means, and every seed by itself."""
    lines = _head("run", "seeds", "concept", "min", "primitive", "label", "min", "label F1", "paper", "to reach")
    each = _head("run", "seed", "concept", "primitive", "label", "s / epoch", "commit")
    for row in rows:
        found = read_records(row, records)
        if not found:
            continue
        tests = [next(iter(record["tests"].values())) for record in found]
        values = {name: [100 * test[name] for test in tests] for name in SHOWN}
        mean = {name: sum(v) / len(v) for name, v in values.items()}
        concept, primitive, label, f1 = (_mean_std(values[name]) for name in SHOWN)
        lines.append(
            f"| {row.title} | {len(found)} | {concept} | {min(values['concept_accuracy']):.2f} | {primitive} | {label} "
            f"| {min(values['label_accuracy']):.2f} | {f1} | {_paper(row)} | {_verdict(row, mean, values)} |"
        )
        for record, test in zip(found, tests, strict=True):
            numbers = " | ".join(f"{100 * test[name]:.2f}" for name in SHOWN[:3])
            seconds = record["seconds_per_epoch"]
            each.append(
                f"| {row.title} | {record['seed']} | {numbers} | {seconds:.1f} | {record['versions']['commit'][:10]} |"
            )
    return "\n".join([*lines, "", *each]) + "\n"


def _head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _mean_std(values: list[float]) -> str:
    mean = sum(values) / len(values)
    std = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
    return f"{mean:.2f} ± {std:.2f}"


def _paper(row: Row) -> str:
    return ", ".join(f"{row.paper[name]:.2f}" for name in ("concept_accuracy", "label_accuracy") if name in row.paper)


def _verdict(row: Row, mean: dict[str, float], values: dict[str, list[float]]) -> str:
    """Each figure to reach, with whether it was."""
    parts = []
    for name, least in row.mean_at_least.items():
        parts.append(f"{name.split('_')[0]} mean >= {least}: {_reached(mean[name], least)}")
    for name, least in row.each_at_least.items():
        parts.append(f"{name.split('_')[0]} each >= {least}: {_reached(min(values[name]), least)}")
    return "; ".join(parts) or "reported as it is"


def _reached(value: float, least: float) -> str:
    return "reached" if value >= least else f"short by {least - value:.2f}"
