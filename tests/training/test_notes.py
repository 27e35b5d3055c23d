"""A host that cannot begin: the other one ends soon and says why, once, instead of waiting for it."""

import json
import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from softpnet.cli import main as command
from softpnet.errors import EchoedError
from softpnet.training.meeting import agreed_name
from softpnet.training.notes import NOTE, leave_note, raise_noted
from tests.training.test_hosts import TORCHRUN, Kept
from torture import tiny
from torture.subject import PATIENCE_S

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


def free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


def on_two_hosts(folders, *words, each=1):
    """What two torchruns say that run the command, in a folder each."""
    launch = ["--nnodes", "2", "--nproc-per-node", str(each), "--master-addr", "127.0.0.1"]
    launch += ["--master-port", str(free_port())]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                *launch,
                "--node-rank",
                str(host),
                "-m",
                "softpnet",
                *words,
            ],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "said").open("w"),
            env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )
        for host, folder in enumerate(folders)
    ]
    try:
        codes = [each.wait(PATIENCE_S) for each in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    said = [(folder / "said").read_text().splitlines() for folder in folders]
    return codes, [[line for line in lines if line.startswith("softpnet: ")] for lines in said]


@pytest.fixture
def folders(tmp_path):
    made = [tmp_path / "a", tmp_path / "b"]
    for folder in made:
        folder.mkdir()
        (folder / "mine.py").write_text(tiny.FILE)
    return made


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_file_that_one_host_lacks_ends_the_other_with_its_sentence_said_once(folders, tmp_path, lacking):
    (folders[lacking] / "mine.py").unlink()
    words = [
        "train",
        "mine.py",
        "--epochs",
        "1",
        "--out",
        str(tmp_path / "run"),
        "--wait-seconds",
        str(int(PATIENCE_S)),
    ]
    codes, said = on_two_hosts(folders, *words, each=2)
    assert all(codes)
    assert said[lacking] and all("mine.py" in line for line in said[lacking])
    why = said[lacking][0].removeprefix("softpnet: ")
    told = [line for line in said[1 - lacking] if "cannot begin" in line]
    assert len(told) <= 1 and all(line.endswith(f" of those that train together cannot begin: {why}") for line in told)
    # Where the first host's torchrun has gone, and its store with it, that is what can be said.
    assert told or (not lacking and "did not find each other within" in said[1][0])
    assert not (tmp_path / "run").exists()


def test_another_task_file_on_one_host_is_refused_and_both_say_why(folders, tmp_path):
    (folders[1] / "mine.py").write_text(tiny.FILE + "\n# the same rule\n")
    codes, said = on_two_hosts(folders, "train", "mine.py", "--epochs", "1", "--out", str(tmp_path / "run"))
    assert all(codes) and [len(lines) for lines in said] == [1, 1]
    assert "would train on something else than process 0: sha256 of the task's file was" in said[1][0]
    assert said[0][0] == "softpnet: process 1 of those that train together cannot begin: " + said[1][0][10:]
    assert not (tmp_path / "run").exists()


class Counting(Kept):
    def add(self, key, amount):
        self.held[key] = self.held.get(key, 0) + amount
        return self.held[key]


def note(rank, restarts):
    store = Counting()
    store.set(NOTE, json.dumps({"rank": rank, "restarts": restarts, "why": "no such file"}))
    return store


@pytest.mark.parametrize("rank", [0, 1])
def test_who_waits_to_meet_reads_the_note(rank):
    with pytest.raises(EchoedError, match="process 3 of those that train together cannot begin: no such file"):
        agreed_name(note(3, 0), rank, 4, 2, timedelta(seconds=PATIENCE_S))


def test_of_each_other_host_one_says_it_aloud():
    store, aloud = note(3, 0), []
    for rank in (5, 0, 4, 1, 2):
        with pytest.raises(EchoedError) as raised:
            raise_noted(store, rank, 2)
        aloud.append(raised.value.aloud)
    assert aloud == [True, True, False, False, False]  # the last one's host has said it itself


def test_a_note_of_before_all_were_started_again_is_old(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    raise_noted(note(1, 0), 0, 1)
    with pytest.raises(EchoedError):
        raise_noted(note(1, 1), 0, 1)


def test_the_first_process_waits_no_longer_than_it_is_told_to():
    with pytest.raises(RuntimeError, match="timed out waiting for the others"):
        agreed_name(Counting(), 0, 2, 1, timedelta(seconds=0.2))


def test_a_note_that_cannot_be_left_is_no_error(monkeypatch):
    for name, value in (TORCHRUN | {"MASTER_ADDR": "", "MASTER_PORT": ""}).items():
        monkeypatch.setenv(name, value)
    leave_note("too late")


def test_an_echo_is_printed_where_it_is_to_be_heard(monkeypatch, capsys):
    def echo(*_):
        raise EchoedError(1, "no such file", aloud=True)

    monkeypatch.setattr(command, "_parsed", echo)
    with pytest.raises(SystemExit, match="2"):
        command.main()
    said = capsys.readouterr().err
    assert said == "softpnet: process 1 of those that train together cannot begin: no such file\n"
