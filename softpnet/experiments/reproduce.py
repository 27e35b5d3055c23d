"""Run what has no record yet, side by side; what was cut off goes on from its last checkpoint."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import warnings
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from softpnet.errors import InputError, SoftPNetError, TrainingError
from softpnet.experiments import engines
from softpnet.experiments.engines.base import Engine
from softpnet.experiments.records import choices, compared, missing, record_path, write_record
from softpnet.experiments.rows import Row
from softpnet.training.config import parse_config
from softpnet.training.environment import differences, versions
from softpnet.training.folder import CONFIG, RunFolder
from softpnet.training.lock import InUseError, hold, holder

UNFINISHED = "unfinished"
"""Folder beside the records where runs live until they are finished."""


def run_missing(
    rows: Sequence[Row],
    seeds: Sequence[int],
    records: Path,
    jobs: int | None = None,
    on: str = engines.LOCAL,
    device: str = "cpu",
) -> Generator[tuple[Row, int], None, None]:
    """Run what has no record, `jobs` processes of one thread at a time, or as many as the engine has room for; yields
    each as it is done.

    Closing the iterator asks the runs under way to stop; each makes a checkpoint, and the next call goes on from it.
    A run that fails does not keep the others from running; what failed is raised at the end.
    """
    wanted, failed = missing(rows, seeds, records), []
    _sweep(rows, seeds, records)
    if not wanted:
        return
    with engines.opened(on, records, device) as engine, ThreadPoolExecutor(jobs or engine.places) as pool:
        _make_folders(rows, records)  # only now: what is refused leaves none
        futures = {pool.submit(_run, row, seed, records, engine): (row, seed) for row, seed in wanted}
        try:
            for future in as_completed(futures):
                try:
                    future.result()
                except (SoftPNetError, OSError) as error:
                    failed.append(str(error))
                else:
                    yield futures[future]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            engine.stop()
    if failed:
        raise TrainingError(f"{len(failed)} of {len(wanted)} runs failed:\n" + "\n".join(dict.fromkeys(failed)))


def _make_folders(rows: Sequence[Row], records: Path) -> None:
    try:
        for row in rows:
            record_path(records, row).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        folder = error.filename
        raise InputError(f"{folder} cannot be a folder for records: {error.strerror}; name another one") from error


def _run(row: Row, seed: int, records: Path, engine: Engine) -> None:
    """Make the record, unless another process has made it; one that is at work on it is waited for."""
    folder = _folder(records, row, seed)
    folder.parent.mkdir(exist_ok=True)
    warned = False
    while missing([row], [seed], records):
        try:
            with hold(folder.parent, f"{folder.name}.lock"):  # from before the run until its record is there
                other = holder(folder)  # a run whose `reproduce` was killed goes on without it
                if other is None and missing([row], [seed], records):
                    _make(row, seed, folder, records, engine)
        except InUseError as error:
            other = error.holder
        if other is not None:
            if not warned:
                warnings.warn(f"{folder} is in use by {other}; waiting for it", stacklevel=2)
            warned = True
            engine.pause()


def _make(row: Row, seed: int, folder: Path, records: Path, engine: Engine) -> None:
    """Run to the end, from the last checkpoint where there is one, and make the record."""
    _forget_unlike(folder, row)
    device = [] if engine.device == "cpu" else ["--device", engine.device]
    code, said = engine.run([*row.command(seed), *device, "--resume", "--threads", "1", "--no-pictures"], folder)
    if code != 0:
        raise TrainingError(f"{row.command_line(seed)} ended with {code}: {said[-2000:].strip()}")
    write_record(row, seed, folder, records)
    shutil.rmtree(folder)
    if said:
        warnings.warn(f"{row.command_line(seed)}: {said.strip()}", stacklevel=2)


def _sweep(rows: Sequence[Row], seeds: Sequence[int], records: Path) -> None:
    """Remove the run folders whose record is there: of processes that were killed between the two."""
    for row, seed in itertools.product(rows, seeds):
        folder = _folder(records, row, seed)
        if folder.exists() and not missing([row], [seed], records):
            with contextlib.suppress(InUseError), hold(folder.parent, f"{folder.name}.lock"):
                if holder(folder) is None:
                    shutil.rmtree(folder, ignore_errors=True)


def _folder(records: Path, row: Row, seed: int) -> Path:
    return record_path(records, row).parent / UNFINISHED / f"{row.name}-seed{seed}"


def _forget_unlike(folder: Path, row: Row) -> None:
    """Remove a run that was cut off under another commit, other versions or other choices: a record is of one code."""
    run = RunFolder(folder)
    if CONFIG not in run:
        return
    found, now = run.read(CONFIG), versions()
    try:
        config = parse_config(found, folder / CONFIG)
    except InputError as error:
        unlike = [str(error)]
    else:
        then = config.versions | {"platform": now["platform"]}  # another kernel computes the same
        unlike = differences(compared(msgspec.to_builtins(config)), choices(row)) + differences(then, now)
    if unlike:
        warnings.warn(f"the run in {folder} is begun again, since {'; '.join(unlike)}", stacklevel=2)
        shutil.rmtree(folder)
