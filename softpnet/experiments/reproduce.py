"""Run what has no record yet, side by side; what was cut off goes on from its last checkpoint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from pathlib import Path

from softpnet.errors import TrainingError
from softpnet.experiments.records import missing, write_record
from softpnet.experiments.rows import Row

UNFINISHED = "unfinished"
"""Folder beside the records where runs live until they are finished."""


class Processes:
    """Those that run at the moment; once stopped, none is started any more."""

    def __init__(self) -> None:
        self.running: set[subprocess.Popen[str]] = set()
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Exit code and what was written to the standard error."""
        with self.lock:
            if self.stopped:
                raise CancelledError
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
            self.running.add(process)
        _, error = process.communicate()
        self.running.discard(process)
        return process.returncode, error

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for process in list(self.running):
                process.terminate()


def run_missing(
    rows: Sequence[Row], seeds: Sequence[int], records: Path, jobs: int
) -> Generator[tuple[Row, int], None, None]:
    """Run what has no record, `jobs` processes of one thread at a time; yields each as it is done.

    Closing the iterator asks the runs under way to stop; each makes a checkpoint, and the next call goes on from it.
    A run that fails does not keep the others from running; what failed is raised at the end.
    """
    records.mkdir(parents=True, exist_ok=True)
    processes, failed = Processes(), []
    with ThreadPoolExecutor(jobs) as pool:
        wanted = missing(rows, seeds, records)
        futures = {pool.submit(_run, row, seed, records, processes): (row, seed) for row, seed in wanted}
        try:
            for future in as_completed(futures):
                try:
                    future.result()
                except TrainingError as error:
                    failed.append(str(error))
                else:
                    yield futures[future]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.stop()
    if failed:
        raise TrainingError(f"{len(failed)} of {len(wanted)} runs failed:\n" + "\n".join(failed))


def _run(row: Row, seed: int, records: Path, processes: Processes) -> None:
    folder = records / UNFINISHED / f"{row.name}-seed{seed}"
    command = [sys.executable, "-m", "softpnet.cli.main", *row.command(seed)]
    code, error = processes.run([*command, "--out", str(folder), "--resume", "--threads", "1", "--no-pictures"])
    if code != 0:
        raise TrainingError(f"{' '.join(row.command(seed))} ended with {code}: {error[-2000:].strip()}")
    write_record(row, seed, folder, records)
    shutil.rmtree(folder)
