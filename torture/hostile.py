"""Files made to run code, to fill the memory, or to lead elsewhere: refused with a sentence."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from softpnet.storage import digest
from softpnet.training.folder import LAST, MANIFEST, RunFolder
from torture import tiny
from torture.subject import PATIENCE_S, Result, one_line

MEMORY = 6 * 2**30
CANARY = "executed"


class Payload:
    """Unpickling this makes the canary file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.canary), "w")


def bomb(canary: Path) -> bytes:
    return pickle.dumps(Payload(canary))


Attack = Callable[[Path, Path], list[str]]
"""Given a scratch folder with a sound run in `run` and the canary's path, spoils something; the command to try."""

EVALUATE = ["evaluate", "run", "--task", "tiny.py"]
RESUME = ["train", "tiny.py", "--out", "run", "--resume"]


def _replaced(name: str, data: Callable[[Path], bytes], command: list[str]) -> Attack:
    """The run's file replaced by the data, with a manifest that fits it: only the content can give it away."""

    def attack(home: Path, canary: Path) -> list[str]:
        path = max((home / "run").glob(name))  # the last checkpoint is the one that is used
        path.write_bytes(data(canary))
        forge(home / "run")
        return command

    return attack


def forge(run: Path, more: str = "") -> None:
    """Make the manifest fit whatever is there."""
    names = [name for name in RunFolder(run).listed if (run / name).exists()]
    lines = "".join(f"{digest((run / name).read_bytes())}  {name}\n" for name in sorted(names)) + more
    (run / MANIFEST).write_text(f"{lines}{LAST}{digest(lines.encode())}\n")


def _file(name: str, data: Callable[[Path], bytes], command: list[str]) -> Attack:
    def attack(home: Path, canary: Path) -> list[str]:
        (home / name).write_bytes(data(canary))
        return command

    return attack


def _link(home: Path, canary: Path) -> list[str]:
    (home / "run/model.safetensors").rename(home / "elsewhere")
    (home / "run/model.safetensors").symlink_to(home / "elsewhere")
    return EVALUATE


def _pipe(home: Path, canary: Path) -> list[str]:
    (home / "run/model.safetensors").unlink()
    os.mkfifo(home / "run/model.safetensors")
    return EVALUATE


def _traversal(home: Path, canary: Path) -> list[str]:
    (home / "outside.txt").write_text("outside")
    forge(home / "run", f"{digest(b'outside')}  ../outside.txt\n")
    return RESUME


def _endless_manifest(home: Path, canary: Path) -> list[str]:
    with (home / "run" / MANIFEST).open("wb") as file:
        file.truncate(2**40)
    return EVALUATE


def _task_in_the_folder(home: Path, canary: Path) -> list[str]:
    (home / "run/evil.py").write_text(f"open({str(canary)!r}, 'w')")
    config = json.loads((home / "run/config.json").read_text())
    config["origin"] = {"task": str(home / "run/evil.py"), "options": {}}
    (home / "run/config.json").write_text(json.dumps(config))
    forge(home / "run")
    return ["evaluate", "run"]


def _mnist_bomb(home: Path, canary: Path) -> list[str]:
    (home / "mnist").mkdir()
    with gzip.open(home / "mnist/train-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
        for _ in range(400):
            file.write(bytes(2**20))
    return ["train", "mnist_evenodd", "--option", "mnist=mnist", "--out", "new"]


def _huge_header(_: Path) -> bytes:
    return struct.pack("<Q", 2**60) + b"{}"


def _lying_header(_: Path) -> bytes:
    header = json.dumps({"module.x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    return struct.pack("<Q", len(header)) + header


def _deep(_: Path) -> bytes:
    return b"[" * 200_000


def _zip_bomb(_: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("images.npy", "w") as file:
        for _block in range(512):
            file.write(bytes(2**20))
    return packed.getvalue()


def _huge_array(_: Path) -> bytes:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 2, 1, 8, 8), }"
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def _object_array(canary: Path) -> bytes:
    import numpy

    packed = io.BytesIO()
    numpy.save(packed, numpy.array([Payload(canary)], dtype=object), allow_pickle=True)
    return packed.getvalue()


def _picture_bomb(_: Path) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 12_000, 12_000, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(12_001 * 12_000))) + chunk(b"IEND", b"")


def _predict(name: str) -> list[str]:
    return ["predict", "run", name, "--task", "tiny.py"]


ATTACKS: dict[str, Attack] = {
    "pickle as the model": _replaced("model.safetensors", bomb, EVALUATE),
    "pickle as the configuration": _replaced("config.json", bomb, EVALUATE),
    "pickle as a checkpoint": _replaced("checkpoint-*", bomb, RESUME),
    "pickle as the epochs": _replaced("epochs.jsonl", bomb, EVALUATE),
    "pickle as the manifest": _file(f"run/{MANIFEST}", bomb, EVALUATE),
    "pickle in place of the run folder": _file("model.pt", bomb, ["evaluate", "model.pt"]),
    "pickle to resume from": _file("model.pkl", bomb, ["train", "tiny.py", "--out", "model.pkl", "--resume"]),
    "pickle as images": _file("images.pt", bomb, _predict("images.pt")),
    "pickle in a .npy file": _file("images.npy", bomb, _predict("images.npy")),
    "pickled objects in an array": _file("images.npy", _object_array, _predict("images.npy")),
    "pickle as an image": _file("image.png", bomb, ["predict", "run", "image.png", "image.png", "--task", "tiny.py"]),
    "header of 2^60 bytes": _replaced("model.safetensors", _huge_header, EVALUATE),
    "header that claims 4 TB": _replaced("checkpoint-*", _lying_header, RESUME),
    "JSON 200,000 levels deep": _replaced("config.json", _deep, EVALUATE),
    "link out of the run folder": _link,
    "pipe in place of a file": _pipe,
    "path out of the folder in the manifest": _traversal,
    "manifest of 1 TB": _endless_manifest,
    "task file in the run folder": _task_in_the_folder,
    "zip bomb as a data set": _file("images.npy", _zip_bomb, _predict("images.npy")),
    "array that claims 512 TB": _file("images.npy", _huge_array, _predict("images.npy")),
    "picture of 144 megapixels": _file(
        "image.png", _picture_bomb, ["predict", "run", "image.png", "image.png", "--task", "tiny.py"]
    ),
    "gzip bomb as MNIST": _mnist_bomb,
}


def files(names: list[str] | None = None) -> Result:
    result = Result("hostile files", "nothing is executed, and each is refused with one sentence")
    with tempfile.TemporaryDirectory() as scratch:
        sound = Path(scratch, "sound")
        tiny.interrupted(sound / "run", pictures=False)
        (sound / "tiny.py").write_text(tiny.FILE)
        for name in names or ATTACKS:
            home = Path(scratch, "home")
            shutil.copytree(sound, home)
            command = ATTACKS[name](home, home / CANARY)
            result.add([f"{name}: {fault}" for fault in _try(home, command)])
            shutil.rmtree(home)
    return result


def _try(home: Path, command: list[str]) -> list[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    here = str(Path(__file__).parents[1])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "softpnet", *command],
            cwd=home,
            env=os.environ | {"PYTHONPATH": here, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        return [f"no end after {PATIENCE_S:.0f} s"]
    complaints = ["code was executed"] if (home / CANARY).exists() else []
    complaints += [] if done.returncode == 2 else [f"exit code {done.returncode}"]
    return complaints + ([] if one_line(done.stderr) else [f"said {done.stderr[-400:]!r}"])
