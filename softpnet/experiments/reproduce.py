"""Run what has no record yet, side by side; what was cut off goes on from its last checkpoint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from pathlib import Path

from softpnet.errors import TrainingError
from softpnet.experiments.records import missing, write_record
from softpnet.experiments.rows import Row

UNFINISHED = "unfinished"
"""Folder beside the records where runs live until they are finished."""


def run_missing(
    rows: Sequence[Row], seeds: Sequence[int], records: Path, jobs: int
) -> Generator[tuple[Row, int], None, None]:
    """Run what has no record, `jobs` processes of one thread at a time; yields each as it is done.

    Closing the iterator asks the runs under way to stop; each makes a checkpoint, and the next call goes on from it.
    """
    records.mkdir(parents=True, exist_ok=True)
    running: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        wanted = missing(rows, seeds, records)
        futures = {pool.submit(_run, row, seed, records, running): (row, seed) for row, seed in wanted}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except CancelledError:
            pass
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()


def _run(row: Row, seed: int, records: Path, running: set[subprocess.Popen[str]]) -> None:
    folder = records / UNFINISHED / f"{row.name}-seed{seed}"
    command = [sys.executable, "-m", "softpnet.cli.main", *row.command(seed)]
    command += ["--out", str(folder), "--resume", "--threads", "1", "--no-pictures"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    running.add(process)
    _, error = process.communicate()
    running.discard(process)
    if process.returncode != 0:
        raise TrainingError(f"{' '.join(row.command(seed))} ended with {process.returncode}: {error[-2000:].strip()}")
    write_record(row, seed, folder, records)
    shutil.rmtree(folder)
