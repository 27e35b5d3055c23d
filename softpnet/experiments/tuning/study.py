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
from softpnet.training.environment import differences, versions
from softpnet.training.lock import InUseError, hold
from softpnet.training.streams import stream_seed

JOURNAL, TRIALS, NAME = "journal.log", "trials", "softpnet search"
LINE = b'{"op_code":'
"""How every line of Optuna's journal begins."""
PRUNED, ERROR = "pruned", "error"
"""What is noted of a trial: the epochs after which it was pruned; why it failed."""
PATIENT_TRIALS, PATIENT_EPOCHS = 5, 1
"""Pruning begins after so many complete trials, and in each trial after so many epochs."""


class Study:
    """A plan and the trials made of it so far. Trial 0 is always that of the default settings."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Open the study in a folder, or begin one; raises where the folder holds another one."""
        self.plan, self.folder = plan, folder
        self.optuna = optional_package("optuna", "search")
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        try:
            (folder / TRIALS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder} cannot hold a study: {error.strerror}; name another folder") from error
        with hold(folder, "study.lock", wait=True):
            self.inner = self._opened()
            self._check_same()

    def trials(self) -> list[Outcome]:
        """All so far, by number."""
        return [_outcome(trial) for trial in self._begun()]

    def finished(self) -> list[Outcome]:
        return [outcome for outcome in self.trials() if outcome.is_finished]

    def tell(self, number: int, value: float | None) -> None:
        """How a trial came out; without a value, it was pruned."""
        state = self.optuna.trial.TrialState
        self.inner.tell(number, value, state=state.PRUNED if value is None else state.COMPLETE)

    def tell_failed(self, trial: Any, error: str) -> None:
        trial.set_user_attr(ERROR, error)
        self.inner.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)

    def _begun(self) -> list[Any]:
        return [trial for trial in self.inner.get_trials(deepcopy=False) if trial.state.name in STATES]

    def run_folder(self, number: int) -> Path:
        return self.folder / TRIALS / f"{number:04}"

    @contextlib.contextmanager
    def next_trial(self, count: int) -> Iterator[Any]:
        """A trial of Optuna's for this process alone while inside: one that another process has left unfinished, or a
        new one unless there are `count`; None where nothing is left to do."""
        with contextlib.ExitStack() as stack:
            with hold(self.folder, "study.lock", wait=True):  # so that no two processes take one
                trial = self._left(stack) or self._new(stack, count)
            yield trial
            if trial is not None and self.trials()[trial.number].is_finished:
                shutil.rmtree(self.run_folder(trial.number), ignore_errors=True)

    def _left(self, stack: contextlib.ExitStack) -> Any:
        """A trial that is said to run, but by no process: the system gives up the lock of one that was killed."""
        for trial in self._begun():
            folder = self.run_folder(trial.number)
            if trial.state.is_finished() and not folder.exists():
                continue
            try:
                stack.enter_context(hold(folder.parent, f"{folder.name}.lock"))
            except InUseError:
                continue
            if trial.state.is_finished():  # killed before it could clear away
                shutil.rmtree(folder, ignore_errors=True)
                stack.close()
                continue
            # Optuna marks such trials as failed, and counts anew; here they go on, as the same trial.
            return self._with_values(self.optuna.trial.Trial(self.inner, trial._trial_id))
        return None

    def _new(self, stack: contextlib.ExitStack, count: int) -> Any:
        known = self.inner.get_trials(deepcopy=False)
        if not known:
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
        """Hold the study against the plan; a new one is given the plan's."""
        now, known = self.plan.identity(), self.inner.user_attrs
        if "plan" not in known:
            self.inner.set_user_attr("versions", versions())
            self.inner.set_user_attr("plan", now)
            return
        unlike = _differences(known["plan"], now)
        if unlike:
            raise InputError(f"{self.folder} holds another study: {unlike[0]}; name another folder (--study)")
        made_by = versions()
        then = {**known.get("versions", {}), "platform": made_by["platform"]}
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
    )


def _differences(then: Any, now: dict[str, Any]) -> list[str]:
    """What of the plan is not what it was, in words; of settings and ranges only those."""
    if not isinstance(then, dict):
        return [f"its plan is {then!r:.100}"]
    found = []
    for name, value in now.items():
        was = then.get(name)
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
