"""Processes that train together: where one is killed, the others end with a sentence."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_extending import TASK
from torture.subject import PATIENCE_S, wait_for


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
