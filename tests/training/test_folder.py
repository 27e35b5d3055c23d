"""The run folder: whole files, a manifest that is always right, one writer."""

import os
import subprocess
import sys

import pytest
import torch

from softpnet.errors import InputError, StorageError
from softpnet.storage import digest, from_safetensors, read_plain, safetensors_pieces, to_safetensors, write_whole
from softpnet.training import folder as folders
from softpnet.training.folder import MANIFEST, RunFolder, free_run_folder, last_run_folder, plain_name
from softpnet.training.lock import LOCK, hold


class PowerCut(BaseException):
    pass


def test_at_every_moment_of_a_write_the_folder_holds_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    """The power fails before each change of the disk in turn; the next start reads one of the two, and nothing else."""
    seen = set()
    for moment in range(20):
        path = tmp_path / str(moment)
        with RunFolder.to_write(path) as run:
            run.write("config.json", b"old")
        made = []

        def fail(operation, *arguments, made=made, moment=moment):
            if len(made) == moment:
                raise PowerCut
            made.append(operation)
            return operation(*arguments)

        with monkeypatch.context() as patched:
            for name in ("replace", "fsync"):
                real = getattr(os, name)
                patched.setattr(os, name, lambda *arguments, real=real: fail(real, *arguments))
            try:
                with RunFolder.to_write(path) as run:
                    run.write("config.json", b"new")
            except PowerCut:
                pass
        with RunFolder.to_write(path) as run:
            seen.add(run.read("config.json"))
            assert len(run.listed["config.json"]) == 1
        assert sorted(os.listdir(path)) == ["config.json", MANIFEST]
    assert seen == {b"old", b"new"} and len(made) < moment, "the write ended before the last moment that was tried"


def test_the_manifest_is_one_that_sha256sum_reads(tmp_path):
    with RunFolder.to_write(tmp_path) as run:
        run.write("one.json", b"1")
        run.write("two.json", b"2")
    assert f"{digest(b'1')}  one.json\n{digest(b'2')}  two.json\n" in (tmp_path / MANIFEST).read_text()
    done = subprocess.run(["sha256sum", "-c", MANIFEST], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "one.json: OK" in done.stdout


def test_files_of_a_crash_are_swept_and_those_of_others_left(tmp_path):
    with RunFolder.to_write(tmp_path) as run:
        run.write("config.json", b"{}")
    for name in ("model.safetensors.part", "checkpoint-1-process0.safetensors", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    with RunFolder.to_write(tmp_path):
        assert sorted(os.listdir(tmp_path)) == ["config.json", LOCK, MANIFEST, "notes.txt"]


def test_files_of_a_run_without_a_manifest_are_not_touched(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"precious")
    with pytest.raises(InputError, match=f"holds model.safetensors but no {MANIFEST}"), RunFolder.to_write(tmp_path):
        pass
    assert (tmp_path / "model.safetensors").read_bytes() == b"precious"


def test_no_file_of_the_user_is_touched(tmp_path):
    for name in ("data.part", "notes.txt", "checkpoint-backup.safetensors"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "folder.part").mkdir()
    with RunFolder.to_write(tmp_path) as run:
        run.write("config.json", b"{}")
        with pytest.raises(InputError, match="is not a file of this run"):
            run.write("notes.txt", b"ours")
    assert {(tmp_path / n).read_text() for n in ("data.part", "notes.txt", "checkpoint-backup.safetensors")} == {"mine"}
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / LOCK).write_text("mine")
    with pytest.raises(InputError, match="is not the lock of a run"), RunFolder.to_write(tmp_path / "theirs"):
        pass
    assert (tmp_path / "theirs" / LOCK).read_text() == "mine"
    (tmp_path / LOCK).symlink_to(tmp_path / "empty")
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match=r"lock cannot be locked: .*; name another folder"), hold(tmp_path):
        pass
    assert (tmp_path / "empty").read_bytes() == b""


def test_a_lock_that_another_process_made_anew_is_left_to_it(tmp_path):
    with hold(tmp_path):
        (tmp_path / LOCK).unlink()
        (tmp_path / LOCK).write_text("another's")
    assert (tmp_path / LOCK).read_text() == "another's"


def test_a_file_that_was_written_again_in_between_is_not_called_damaged(tmp_path):
    with RunFolder.to_write(tmp_path) as run:
        run.write("epochs.jsonl", b"1")
        reader = RunFolder(tmp_path)
        run.write("epochs.jsonl", b"2")
        assert reader.read("epochs.jsonl") == b"2"


def test_a_task_of_any_name_has_a_folder(tmp_path):
    long = free_run_folder(tmp_path, "a/b [x] " + 300 * "y")
    assert long.parent == tmp_path and len(long.name) <= 100
    for expected in ("b_x_", "b_x_-2"):
        assert free_run_folder(tmp_path, "b [x]").name == expected
        (tmp_path / expected).mkdir()
    os.utime(tmp_path / "b_x_", (1, 1))
    assert last_run_folder(tmp_path, "b [x]").name == "b_x_-2"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    write_whole(tmp_path / "file", b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="could not be written: No space left on device; what was there before"):
        write_whole(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", ".hidden", "", "two  words"])
def test_a_manifest_names_files_of_its_folder_only(tmp_path, name):
    lines = f"{digest(b'')}  {name}\n"
    (tmp_path / MANIFEST).write_text(f"{lines}{folders.LAST}{digest(lines.encode())}\n")
    with pytest.raises(InputError, match="expected the plain name of a file in the folder"):
        RunFolder(tmp_path)


def test_links_pipes_and_folders_are_not_read(tmp_path):
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("link", "symbolic link"), ("pipe", "not a plain file"), (".", "not a plain file")):
        with pytest.raises(InputError, match=words):
            read_plain(tmp_path / name)
    with pytest.raises(InputError, match="has 1 bytes, expected at most 0"):
        read_plain(tmp_path / "real", limit=0)


HOLDER = """
import sys
from pathlib import Path
from softpnet.training.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_who_holds_the_folder_and_a_crash_frees_it(tmp_path):
    import socket

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], **pipes)
    assert holder.stdout.readline() == "held\n"
    named = f"in use by process {holder.pid} on {socket.gethostname()}"
    with pytest.raises(InputError, match=named), RunFolder.to_write(tmp_path):
        pass
    holder.kill()
    holder.wait()
    assert (tmp_path / LOCK).exists()
    with RunFolder.to_write(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


WITHOUT_UNIX = """
import os, signal, sys
sys.modules |= dict.fromkeys(["fcntl", "grp", "pwd", "resource", "termios"])
del os.O_NOFOLLOW, os.O_NONBLOCK, os.pread, os.pwrite, signal.SIGHUP
import torch
import softpnet as sp
from pathlib import Path
from softpnet.training.lock import hold
task = sp.Task(sp.ConceptSpace(slots=2, values=3), lambda c: c.sum(-1))
concepts, small = task.space.all(), dict(epochs=1, warmup_steps=1, threads=1)
model = sp.Learner(task, encoder=torch.nn.Linear(3, 4), **small)
model.fit(torch.eye(3)[concepts], concepts.sum(-1), sp.Anchors(torch.eye(3), torch.arange(3)), run="run")
with hold(Path("run")):
    try:
        with hold(Path("run")):
            print("two writers")
    except sp.InputError as error:
        print(error)
"""


def test_a_run_folder_has_one_writer_also_without_what_only_unix_has(tmp_path):
    done = subprocess.run([sys.executable, "-c", WITHOUT_UNIX], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "run is in use by another process; wait for it or name another folder\n"
    assert "model.safetensors" in os.listdir(tmp_path / "run") and LOCK not in os.listdir(tmp_path / "run")


def test_the_last_folder_of_a_name_is_the_newest_of_its_numbers(tmp_path):
    assert last_run_folder(tmp_path, "run") == tmp_path / "run"
    for at, name in enumerate(("run", "run-2", "run-other", "running")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (at, at))
    assert last_run_folder(tmp_path, "run") == tmp_path / "run-2"


@pytest.mark.parametrize("name, folder", [("..", "_."), (".", "_"), (".a", "_a"), ("a/b", "a_b"), ("2 bars", "2_bars")])
def test_a_folder_named_after_a_task_is_a_plain_one(name, folder):
    assert plain_name(name) == folder


@pytest.mark.parametrize("seed", range(3))
def test_tensors_in_pieces_are_read_as_those_that_the_library_writes(tmp_path, seed):
    generator = torch.Generator().manual_seed(seed)
    kinds = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    kinds += [torch.bfloat16, torch.float16, torch.float32, torch.float64]
    shapes = [(), (0,), (3,), (5, 7)]
    given = {f"{kind} {shape}": torch.rand(shape, generator=generator).mul(9).to(kind)
             for kind in kinds for shape in shapes}  # fmt: skip
    given |= {"ünïcode": torch.rand(3, 4, generator=generator).T, "tied": given["torch.float32 (3,)"]}
    notes = {"numbers": '{"a": [1, 2]}'}
    with RunFolder.to_write(tmp_path) as run:
        run.write("model.safetensors", safetensors_pieces(given, notes))
        data = run.read("model.safetensors")  # as the manifest lists it
    written, found = from_safetensors(data, tmp_path)
    expected, _ = from_safetensors(to_safetensors(given, notes), tmp_path)
    assert found == notes and written.keys() == expected.keys()
    for name, tensor in expected.items():
        assert written[name].dtype == tensor.dtype and torch.equal(written[name], tensor)


def test_a_file_within_whose_writing_another_one_fails_is_not_left_half_written(tmp_path, monkeypatch):
    with RunFolder.to_write(tmp_path) as run:
        run.write("config.json", b"old")

        def full(changes):
            raise StorageError("the manifest could not be written")

        monkeypatch.setattr(run, "_list", full)
        with pytest.raises(StorageError, match=r"^the manifest could not be written$"):
            run.write("config.json", b"new")
        assert run.read("config.json") == b"old" and not list(tmp_path.glob("*.part"))
