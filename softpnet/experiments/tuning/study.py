"""The study: a folder with Optuna's journal, which several processes and hosts share, and who works on which trial."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from softpnet.catalogue import optional_package
from softpnet.errors import InputError
from softpnet.experiments.tuning.outcome import STATES, Outcome
from softpnet.experiments.tuning.plan import Plan
from softpnet.experiments.tuning.space import default_values
from softpnet.storage import read_plain
from softpnet.task.hardware import SINGLE
from softpnet.training.environment import differences, versions
from softpnet.training.lock import InUseError, hold
from softpnet.training.streams import stream_seed

JOURNAL, TRIALS, NAME = "journal.log", "trials", "softpnet search"
LINE = b'{"op_code":'
"""How every line of Optuna's journal begins."""
PRUNED, ERROR, HARDWARE = "pruned", "error", "hardware"
"""What is noted of a trial: the epochs after which it was pruned; why it failed; where it was made."""
EARLIER = {"precision": SINGLE}
"""Of the plan of a study that was begun before plans named it."""
PATIENT_TRIALS, PATIENT_EPOCHS = 5, 1
"""Pruning begins after so many complete trials, and in each trial after so many epochs."""


class Study:
    """A plan and the trials made of it so far. Trial 0 is always that of the default settings."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Open the study in a folder, if there is one: the first trial begins it, so that a search which is refused
        leaves nothing. Raises where the folder holds another one."""
        self.plan, self.folder = plan, folder
        self.optuna = optional_package("optuna", "search")
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        self.inner: Any = None
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} cannot hold a study: it is a file; name another folder")
        if self.trials():
            self._warn_of_changes()

    def _look(self) -> None:
        """Open the study, if another process has begun it by now."""
        if self.inner is None and (self.folder / JOURNAL).exists():
            with self._alone():
                self.inner = self._opened()
                self._check_same()

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """No other process takes a trial while inside."""
        return hold(self.folder, "study.lock", wait=True)

    def trials(self) -> list[Outcome]:
        """All so far, by number."""
        return [_outcome(trial) for trial in self._begun()]

    def finished(self) -> list[Outcome]:
        return [outcome for outcome in self.trials() if outcome.is_finished]

    def unfinished(self, count: int) -> int:
        """Trials that are still to be finished, or to be begun, so that there are `count`."""
        trials = self.trials()
        return max(count, len(trials)) - sum(trial.is_finished for trial in trials)

    def tell(self, number: int, value: float | None) -> None:
        """How a trial came out; without a value, it was pruned."""
        state = self.optuna.trial.TrialState
        self.inner.tell(number, value, state=state.PRUNED if value is None else state.COMPLETE)

    def tell_failed(self, trial: Any, error: str) -> None:
        trial.set_user_attr(ERROR, error)
        self.inner.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)

    def _begun(self) -> list[Any]:
        self._look()
        if self.inner is None:
            return []
        return [trial for trial in self.inner.get_trials(deepcopy=False) if trial.state.name in STATES]

    def run_folder(self, number: int) -> Path:
        return self.folder / TRIALS / f"{number:04}"

    @contextlib.contextmanager
    def next_trial(self, count: int) -> Iterator[Any]:
        """A trial of Optuna's for this process alone while inside: one that another process has left unfinished, or a
        new one unless there are `count`; None where nothing is left to do."""
        try:
            (self.folder / TRIALS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.folder} cannot hold a study: {error.strerror}; name another folder") from error
        with contextlib.ExitStack() as stack:
            with self._alone():
                self.inner = self.inner or self._opened()
                self._check_same()
                trial = self._left(stack) or self._new(stack, count)
                if trial is not None:
                    trial.set_user_attr(HARDWARE, self.plan.noted_hardware())
            yield trial
            if trial is not None and self.trials()[trial.number].is_finished:
                shutil.rmtree(self.run_folder(trial.number), ignore_errors=True)

    def _left(self, stack: contextlib.ExitStack) -> Any:
        """A trial that is said to run, but by no process: the system gives up the lock of one that was killed."""
        for seen in self._begun():
            folder = self.run_folder(seen.number)
            if seen.state.is_finished() and not folder.exists():
                continue
            try:
                stack.enter_context(hold(folder.parent, f"{folder.name}.lock"))
            except InUseError:
                continue
            trial = self._begun()[seen.number]  # its process may have ended it between the look and the lock
            if trial.state.is_finished():
                shutil.rmtree(folder, ignore_errors=True)  # of one that was killed before it could clear away
                stack.close()
                continue
            # Optuna marks such trials as failed, and counts anew; here they go on, as the same trial.
            return self._with_values(self.optuna.trial.Trial(self.inner, trial._trial_id))
        return None

    def _new(self, stack: contextlib.ExitStack, count: int) -> Any:
        known = self.inner.get_trials(deepcopy=False)
        if not known:
            self.inner.set_user_attr("versions", versions())
            self.inner.set_user_attr("plan", self.plan.identity())
            # What is searched may leave the default out; then the trial is without that value, which others may have.
            self.inner.enqueue_trial(default_values(self.plan.space, self.plan.settings))
        if len(self.trials()) >= count:
            return None
        folder = self.run_folder(len(self.trials()))
        stack.enter_context(hold(folder.parent, f"{folder.name}.lock"))
        return self._with_values(self.inner.ask())

    def _with_values(self, trial: Any) -> Any:
        """Draw what is searched; each value by a generator of its own, so that it depends on the trials before alone,
        and not on how often the search was stopped."""
        space, seed = self.plan.space, self.plan.seed
        wanted = space if trial.number else default_values(space, self.plan.settings)
        for name in wanted:
            drawn = stream_seed(seed, f"trial {trial.number}, {name}") % 2**32
            self.inner.sampler = self.optuna.samplers.TPESampler(seed=drawn)
            space[name].drawn(trial)
        return trial

    def _opened(self) -> Any:
        journal = self.optuna.storages.journal
        path = str(self.folder / JOURNAL)
        lock = journal.JournalFileOpenLock(path)  # holds on NFS too
        try:
            _mend(Path(path), lock)
            storage = self.optuna.storages.JournalStorage(journal.JournalFileBackend(path, lock))
            median = self.optuna.pruners.MedianPruner(PATIENT_TRIALS, PATIENT_EPOCHS)
            known = NAME in self.optuna.get_all_study_names(
                storage
            )  # to be asked to make it again would be a line more
            chosen = {"storage": storage, "study_name": NAME, "pruner": median}
            opened = (
                self.optuna.load_study(**chosen) if known else self.optuna.create_study(direction="maximize", **chosen)
            )
            opened.get_trials(deepcopy=False)
            return opened
        except Exception as error:  # whatever a damaged file leads to
            raise InputError(
                f"{path} is damaged, or no journal of a study: {type(error).__name__}: {error}; restore it "
                "from a copy, or name another folder (--study)"
            ) from error

    def _check_same(self) -> None:
        """Hold the study against the plan; one without trials may be replaced."""
        if not self.inner.get_trials(deepcopy=False):
            return
        unlike = _differences(self.inner.user_attrs.get("plan"), self.plan.identity())
        if unlike:
            raise InputError(f"{self.folder} holds another study: {unlike[0]}; name another folder (--study)")

    def _warn_of_changes(self) -> None:
        made_by = versions()
        then = {**self.inner.user_attrs.get("versions", made_by), "platform": made_by["platform"]}
        if changed := differences(then, made_by):
            warnings.warn(f"the study in {self.folder} was begun otherwise: {'; '.join(changed)}", stacklevel=2)


def _outcome(trial: Any) -> Outcome:
    notes, state = trial.user_attrs, STATES[trial.state.name]
    return Outcome(
        trial.number,
        state,
        dict(trial.params),
        trial.value,
        dict(trial.intermediate_values),
        notes.get(PRUNED),
        notes.get(ERROR, ""),
        notes.get(HARDWARE),
    )


def _differences(then: Any, now: dict[str, Any]) -> list[str]:
    """What of the plan is not what it was, in words; of settings and ranges only those."""
    if not isinstance(then, dict):
        return [f"its plan is {then!r:.100}"]
    found = []
    for name, value in now.items():
        was = then.get(name, EARLIER.get(name))
        if isinstance(was, dict) and isinstance(value, dict):
            found += [f"in its {name} {each}" for each in differences(was, value)]
        elif was != value:
            found.append(f"its {name} was {was}, is {value}")
    return found


def _mend(path: Path, lock: Any) -> None:
    """Raise where a line is damaged, and cut off a last one that a process was killed in the midst of."""
    if not path.exists():
        return
    lock.acquire()
    try:
        *lines, last = read_plain(path).split(b"\n")
        for line in lines:
            json.loads(line)
        if last and not last.startswith(LINE[: len(last)]):
            raise ValueError("its last line is no line of a study")
        if last:
            os.truncate(path, path.stat().st_size - len(last))
    finally:
        lock.release()
