"""Random damage to every kind of file: noticed before it is used, and nothing is written over it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from softpnet.data.rows import read_rows
from softpnet.errors import SoftPNetError
from softpnet.learner import Learner
from softpnet.rules.make_cache import make_cache
from torture import tiny
from torture.subject import Result


def flips(count: int = 1000, seed: int = 3) -> Result:
    """One byte changed, or the end cut off, in turn for every file of a run and of a cache."""
    result = Result(
        "random byte flips and truncations over every kind of file", "noticed before use, one line, untouched"
    )
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        run, cache = Path(scratch, "run"), Path(scratch, "cache")
        tiny.interrupted(run, pictures=True)
        cache.mkdir()
        make_cache(tiny.TASK, torch.Generator().manual_seed(0)).save(cache / "rows.safetensors")
        targets = [*sorted(run.iterdir()), *sorted(cache.iterdir())]
        result.notes = {"kinds": ", ".join(sorted({path.name.split("-")[0] for path in targets}))}
        for at in range(count):
            target = targets[at % len(targets)]
            copy = Path(scratch, "copy")
            shutil.copytree(target.parent, copy)
            harm = _harm(copy / target.name, dice)
            result.add([f"{target.name}, {harm}: {fault}" for fault in _uses(copy, target.name)])
            shutil.rmtree(copy)
    return result


def _harm(path: Path, dice: random.Random) -> str:
    data = bytearray(path.read_bytes())
    if dice.random() < 0.5:
        place = dice.randrange(len(data))
        data[place] ^= dice.randrange(1, 256)
        path.write_bytes(data)
        return f"byte {place} changed"
    length = dice.randrange(len(data))
    path.write_bytes(data[:length])
    return f"cut to {length} bytes"


def _uses(folder: Path, name: str) -> list[str]:
    """Use the folder in every way that reads the file; what is wrong with the answers."""
    uses: dict[str, Callable[[], object]] = {"resuming": lambda: tiny.fit(folder, resume=True)}
    if name in ("config.json", "model.safetensors", "manifest.sha256"):
        uses["loading"] = lambda: Learner.load(folder, task=tiny.TASK)
    if name.startswith("rows"):
        uses = {"reading": lambda: read_rows(folder / "rows.safetensors")}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    complaints = []
    for what, use in uses.items():
        try:
            use()
            complaints.append(f"{what} did not notice")
        except SoftPNetError as error:
            complaints += [f"{what} said {error}"] if "\n" in str(error) else []
        except BaseException as error:
            complaints.append(f"{what} ended with {error!r}")
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    return complaints + ([] if after == before else ["files were changed"])
