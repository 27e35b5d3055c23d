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


@pytest.mark.parametrize("lost_at", [1, 2, 3])  # when the folder is opened, when the run begins, at the end
def test_a_process_that_is_lost_before_or_after_training_is_a_sentence_too(tmp_path, lost_at):
    run = Run(tmp_path / "run", False, None, None)
    config = SimpleNamespace(to_bytes=lambda: b"{}")
    with (
        pytest.raises(TrainingError, match="one of the 2 processes that train together has ended"),
        run.opened(lambda: config, Together(lost_at)),
    ):
        pass


@pytest.mark.parametrize("victim", ["the first", "the second"])
def test_a_killed_process_ends_the_other_with_a_sentence(tmp_path, victim):
    (tmp_path / "task.py").write_text(TASK)
    words = ["train", "task.py", "--processes", "2", "--threads", "1", "--epochs", "1000000", "--batch-size", "4"]
    with subprocess.Popen(
        [sys.executable, "-m", "softpnet", *words, "--no-pictures", "--out", "run"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as first:
        assert wait_for((tmp_path / "run/epochs.jsonl").exists, first), "no epoch was trained"
        (second,) = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        os.kill({"the first": first.pid, "the second": int(second)}[victim], signal.SIGKILL)
        _, said = first.communicate(timeout=PATIENCE_S)  # both write there, so that both have ended
    rank = {"the first": 1, "the second": 0}[victim]
    assert "Traceback" not in said
    assert said.strip().splitlines()[-1] == (
        f"softpnet: one of the 2 processes that train together has ended, so that process {rank} cannot go on; "
        "resume from the last checkpoint"
    )
    assert first.returncode == (-signal.SIGKILL if victim == "the first" else 2)
