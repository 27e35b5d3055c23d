"""Processes that train together: where one is killed, the others end with a sentence."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from softpnet import TrainingError
from softpnet.training.run import Run
from tests.test_extending import TASK
from torture.subject import PATIENCE_S, wait_for

pytestmark = pytest.mark.processes


class Together:
    """What a run asks of a fabric, where the other process ends at the n-th time that it is waited for."""

    world_size, global_rank, is_global_zero = 2, 0, True

    def __init__(self, lost_at):
        self.left = lost_at

    def _wait(self):
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("[/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:29500")

    def barrier(self):
        self._wait()

    def all_reduce(self, value, reduce_op):
        self._wait()
        return value

    def broadcast(self, value):
        self._wait()
        return value


@pytest.mark.parametrize("lost_at", [1, 2, 3])  # when the folder is opened, when the run begins, at the end
def test_a_process_that_is_lost_before_or_after_training_is_a_sentence_too(tmp_path, lost_at):
    run = Run(tmp_path / "run", False, None, None)
    config = SimpleNamespace(to_bytes=lambda: b"{}")
    with (
        pytest.raises(TrainingError, match="one of the 2 processes that train together has ended"),
        run.opened(lambda: config, Together(lost_at)),
    ):
        pass


def trained(folder):
    """How many epochs are in the run folder."""
    path = folder / "epochs.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture(scope="module", params=["the first", "the second"])
def killed(request, tmp_path_factory):
    """Two processes that train together, of which one is killed: which, exit code of the first, stdout, stderr."""
    folder, victim = tmp_path_factory.mktemp("killed"), request.param
    (folder / "task.py").write_text(TASK)
    words = ["train", "task.py", "--processes", "2", "--threads", "1", "--epochs", "1000000", "--batch-size", "4"]
    with subprocess.Popen(
        [sys.executable, "-m", "softpnet", *words, "--no-pictures", "--out", "run"],
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},  # what a killed process has said is not lost
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as first:
        assert wait_for(lambda: trained(folder / "run") >= 2, first), "no two epochs were trained"
        (second,) = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        os.kill({"the first": first.pid, "the second": int(second)}[victim], signal.SIGKILL)
        out, said = first.communicate(timeout=PATIENCE_S)  # both write there, so that both have ended
    return victim, first.returncode, out, said


def test_a_log_of_two_processes_has_every_epoch_once(killed):
    assert killed[2].count("epoch 1/1000000: ") == 1


def test_a_killed_process_ends_the_other_with_a_sentence(killed):
    victim, code, _, said = killed
    rank = {"the first": 1, "the second": 0}[victim]
    assert "Traceback" not in said
    assert said.strip().splitlines()[-1] == (
        f"softpnet: one of the 2 processes that train together has ended, so that process {rank} cannot go on; "
        "resume from the last checkpoint"
    )
    assert code == (-signal.SIGKILL if victim == "the first" else 2)
