"""A run: training in a folder, with checkpoints, that can be stopped at any time and gone on with."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softpnet.errors import InputError, SoftPNetError, StopTraining
from softpnet.storage import refuse_code
from softpnet.task.hardware import Hardware
from softpnet.training.checkpoint import Checkpoints, check_checkpoint_times
from softpnet.training.config import Config, read_config
from softpnet.training.folder import CONFIG, EPOCHS, RunFolder
from softpnet.training.history import write_epochs
from softpnet.training.identity import check_alike, check_same_run
from softpnet.training.interrupt import ENDINGS, Stop, graceful_stop
from softpnet.training.launcher import is_first, is_restarted
from softpnet.training.lock import InUseError, is_signed, signature
from softpnet.training.loop import Progress, Training
from softpnet.training.memory import step_memory_errors_named
from softpnet.training.model_file import holds_finished_model, mark_unfinished
from softpnet.training.processes import agreed, any_process, launched, lost_processes_named, totals
from softpnet.training.validation import METRICS, is_exhausted

if TYPE_CHECKING:
    from lightning_fabric import Fabric

ENDING_S = 60.0
"""So long may the last holder of a folder take to end."""


class Run:
    """What a training needs around it: a folder if one is named, checkpoints in it, signals and exit codes."""

    folder: RunFolder | None = None
    """While `opened`, where a path is named."""

    def __init__(
        self, path: str | Path | None, resume: bool, checkpoint_steps: int | None, checkpoint_seconds: float | None
    ) -> None:
        check_checkpoint_times(checkpoint_steps, checkpoint_seconds)
        if path is not None and not isinstance(path, str | Path):
            raise InputError(f"run is {path!r}, expected the path of a folder, or none")
        # What torchrun starts again goes on by itself: the command is the same, but the folder is there.
        self.path, self.resume = None if path is None else Path(path), resume or is_restarted()
        self.times = checkpoint_steps, checkpoint_seconds
        self.stop = Stop()

    def is_finished(self, epochs: int) -> bool:
        """Whether there is nothing left to train of so many epochs: asked before anything is built."""
        if self.path is None or not self.resume:
            return False
        folder = RunFolder(self.path)
        return holds_finished_model(folder) and (CONFIG not in folder or epochs <= read_config(folder).settings.epochs)

    @contextlib.contextmanager
    def opened(self, config: Callable[[], Config], fabric: Fabric) -> Iterator[None]:
        """The folder is this run's alone while inside, and signals are only noted."""
        # Without a folder there is nothing to save, and what ends the process does so as it always does.
        signals = (signal.SIGINT,) if self.path is None else (signal.SIGINT, *ENDINGS)
        with lost_processes_named(fabric), contextlib.ExitStack() as stack:
            self.stop = stack.enter_context(graceful_stop(signals))
            # One host may have been started anew, and another by torchrun again.
            self.resume = any_process(fabric, self.resume)
            if self.path is not None:
                described = config()
                check_alike(fabric, described)  # before there is a folder: what is refused leaves none
                self.folder = stack.enter_context(opened(self.path, fabric))
                begin(self.folder, described, self.resume, fabric)
            yield

    @contextlib.contextmanager
    def opened_finished(self, config: Callable[[], Config]) -> Iterator[RunFolder]:
        """The folder of a finished run; it is the first process's alone while inside, and the others only look.

        None waits for another: where torchrun starts one again, the others may have ended, since all was done.
        """
        assert self.path is not None, "there is a finished run in it"
        if not is_first():
            yield RunFolder(self.path)
            return
        with self.opened(config, launched(Hardware())):
            assert self.folder is not None, "it has a path"
            yield self.folder

    def follow(
        self, training: Training, progress: Callable[[Progress], None] | None, after_epoch: Callable[[], None]
    ) -> bool:
        """Train, from the last checkpoint where there is one, to the end or until a stop is asked for: whether it is
        the end."""
        checkpoints = None if self.folder is None else Checkpoints(self.folder, training, *self.times)
        if checkpoints is not None and self.resume:
            checkpoints.restore()
        with step_memory_errors_named():
            return follow(training, progress or (lambda step: None), checkpoints, self.stop, after_epoch)

    def leave(self, finished: bool) -> None:
        """End the process as the signal that came would have ended it."""
        if self.stop.signal in ENDINGS:
            raise SystemExit(128 + self.stop.signal)
        if self.stop.signal == signal.SIGINT and finished:  # it came while the end was being saved
            raise KeyboardInterrupt


@contextlib.contextmanager
def opened(path: Path, fabric: Fabric) -> Iterator[RunFolder]:
    """The run's folder; of several processes only the first one owns it, and the others see it once that is so."""
    refuse_code(path)
    with contextlib.ExitStack() as stack:
        folder, failed = None, None
        if fabric.is_global_zero:
            try:
                folder = stack.enter_context(_owned(path))
            except SoftPNetError as error:
                failed = error
        agreed(fabric, failed)  # or the others would wait for ever
        if fabric.world_size > 1:
            _check_shared(path, fabric)
        yield folder or RunFolder(path)
        fabric.barrier()


@contextlib.contextmanager
def _owned(path: Path) -> Iterator[RunFolder]:
    """The folder, to write. Where torchrun has started all processes again, the last holder may be ending still."""
    until = time.monotonic() + (ENDING_S if is_restarted() else 0)
    with contextlib.ExitStack() as stack:
        folder = None
        while folder is None:
            try:
                folder = stack.enter_context(RunFolder.to_write(path))
            except InUseError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.2)
        yield folder


def _check_shared(path: Path, fabric: Fabric) -> None:
    """Raise where a process does not see the folder that the first one has opened."""
    host, holder = fabric.broadcast((socket.gethostname(), signature()))
    other = InputError(
        f"{path} on {socket.gethostname()} is not the folder that process 0 writes on {host}; name one on a disk that "
        "all hosts share"
    )
    agreed(fabric, None if is_signed(path, holder) else other)


def begin(folder: RunFolder, config: Config, resume: bool, fabric: Fabric) -> bool:
    """Write the configuration of a new run, or hold it against the one that is there; True if that run is finished."""
    there = CONFIG in folder
    fabric.barrier()  # when all have looked, the first one may write
    if not there:
        if fabric.is_global_zero:
            folder.write(CONFIG, config.to_bytes())
        return False
    failed = None
    if fabric.is_global_zero:
        try:
            if not resume:
                raise InputError(f"{folder.path} already holds a run; resume it, name another folder or remove it")
            folder.verify()
            longer = check_same_run(folder, config)
            if longer is not None:
                mark_unfinished(folder)  # first: a crash in between leaves a run that may become longer
                folder.write(CONFIG, longer.to_bytes())
        except SoftPNetError as error:
            failed = error
    agreed(fabric, failed)
    finished = holds_finished_model(folder)
    # The epochs of a finished run stay listed: they are never made again, but a copy of them can be put back.
    removed = [name for name in folder.removed() if not (finished and name == EPOCHS)]
    fabric.barrier()  # all have looked before the list is changed
    if removed and fabric.is_global_zero:
        folder.remove(removed)
        warnings.warn(f"{', '.join(removed)} was removed from {folder.path}; the run goes on without", stacklevel=2)
    fabric.barrier()
    return finished


def check_callbacks(**given: Any) -> None:
    """What is called between steps must be callable, or None."""
    for name, function in given.items():
        if function is not None and not callable(function):
            raise InputError(f"{name} is {function!r:.100}, expected a function, or None")


def follow(
    training: Training,
    progress: Callable[[Progress], None],
    checkpoints: Checkpoints | None,
    stop: Stop,
    after_epoch: Callable[[], None] = lambda: None,
) -> bool:
    """Train to the end, or until a stop is asked for; then the answer is False. A checkpoint is made in both cases.

    What is found after an epoch joins that epoch's record, before anything is written.
    """
    fabric = training.fabric
    if checkpoints is not None and training.records and EPOCHS not in checkpoints.folder and fabric.is_global_zero:
        write_epochs(checkpoints.folder, training.records)  # someone has removed it, but the checkpoint knows
    # A run may have been cut off when its patience was at an end, but before it was saved.
    training.ended = is_exhausted(training.records, training.settings.patience)
    due = True  # there is one already, if no step is left
    for step in training.steps():
        if step.epoch_done:
            asked = _asks_to_end(after_epoch)  # which may end it too
            training.ended |= asked
            if checkpoints is not None and fabric.is_global_zero:
                write_epochs(checkpoints.folder, training.records)
            found = {name: value for name, value in training.records[-1].items() if name in METRICS}
            step = dataclasses.replace(step, means=step.means | found)
        ending = _asks_to_end(progress, step) or training.ended
        due = checkpoints is not None and checkpoints.due()
        training.ended, stopping, due = (found > 0 for found in totals(fabric, [ending, stop.requested, due]))
        if checkpoints is not None and (due or stopping):
            training.check_finite()
            checkpoints.save()
        if stopping:
            return training.ended or training.at.epoch == training.settings.epochs
    if checkpoints is not None and not due:
        training.check_finite()
        checkpoints.save()  # from which it can go on, if it is to have more epochs
    return True


def _asks_to_end(callback: Callable[..., None], *given: Any) -> bool:
    """Call it, and say whether it wants training to end."""
    try:
        callback(*given)
    except StopTraining:
        return True
    return False
