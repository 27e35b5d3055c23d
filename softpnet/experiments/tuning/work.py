"""Work on a study: take trials until there are enough, in this process or in several."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from softpnet.errors import SoftPNetError, StorageError, TrainingError, describe
from softpnet.experiments import engines
from softpnet.experiments.engines.base import PAUSE_S
from softpnet.experiments.tuning.outcome import Outcome
from softpnet.experiments.tuning.study import Study
from softpnet.experiments.tuning.trial import Subject
from softpnet.training.lock import InUseError


def work(study: Study, count: int) -> Generator[Outcome, None, None]:
    """Make trials, until there are `count` in all or others work on the rest; yields each as it is done."""
    # Before a trial is begun, so that what would fail them all is raised, and nothing is written.
    subject = Subject(study.plan) if study.unfinished(count) else None
    while True:
        with study.next_trial(count) as trial:
            if trial is None:
                return
            subject = subject or Subject(study.plan)
            try:
                value = subject.run(trial, study.run_folder(trial.number))
            except (InUseError, StorageError):  # the folder's fault: the trial may be made later
                raise
            except SoftPNetError as error:  # these settings cannot be trained with
                study.tell_failed(trial, str(error))
            except Exception as error:  # out of a user's code: left under way, it would be met again at every start
                study.tell_failed(trial, describe(error))
            else:
                study.tell(trial.number, value)
        yield study.trials()[trial.number]


def work_side_by_side(
    study: Study, count: int, command: Sequence[str], jobs: int, on: str
) -> Generator[Outcome, None, None]:
    """Start `jobs` processes of the command, here or on hosts that see the folder, each of which works on the study by
    itself; yields what is done by them."""
    told = {trial.number for trial in study.finished()}
    words = [*command, "--study", str(study.folder.resolve())]
    device = study.plan.hardware.get("device", "cpu")
    with engines.opened(on, study.folder, device) as engine, ThreadPoolExecutor(jobs) as pool:
        workers = [pool.submit(engine.run, words) for _ in range(jobs)]
        try:
            going = True
            while going:
                going = bool(wait(workers, timeout=PAUSE_S).not_done)
                for trial in (each for each in study.finished() if each.number not in told):
                    told.add(trial.number)
                    yield trial
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            engine.stop()
    ended = [(code, said[-2000:].strip()) for code, said in (each.result() for each in workers) if code]
    if ended:
        code, said = ended[0]
        raise TrainingError(
            f"{len(ended)} of {jobs} processes of the search failed, the first one with {code}{said and f' ({said})'}; "
            "others, or the same command, go on with what it left"
        )
