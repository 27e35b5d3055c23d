"""The run folder: what was asked for, what happened, what came out, and a manifest with the sha256 of every file.

`manifest.sha256` has a line "digest  name" per file, as `sha256sum` writes them, and a last line with the digest of the
lines before it. Files appear first and are listed then; a file that is replaced is listed with both digests in between.
So after a stop at any moment every listed file is what the manifest says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from softpnet.errors import InputError
from softpnet.storage import PART, digest, read_plain, sync_folder, write_whole
from softpnet.training.lock import LOCK, hold

CONFIG, EPOCHS, METRICS, MODEL = "config.json", "epochs.jsonl", "metrics.json", "model.safetensors"
MANIFEST = "manifest.sha256"
MANIFEST_LIMIT = 2**20
LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9_][A-Za-z0-9_.-]*)")
LAST = "# sha256 of the lines above: "


class RunFolder:
    """Files of one run, each verified against the manifest whenever it is read."""

    def __init__(self, path: Path) -> None:
        """Read the manifest; a folder without one has no files."""
        self.path = path
        self.listed = _read_manifest(path)

    @classmethod
    @contextmanager
    def to_write(cls, path: Path) -> Iterator[RunFolder]:
        """The folder, made if there is none, for this process alone, cleared of what a crash left half-written."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path} cannot be a run folder: {error.strerror}; name another one") from error
        with hold(path):
            folder = cls(path)
            folder._sweep()
            yield folder

    def __contains__(self, name: str) -> bool:
        return name in self.listed

    def names(self, pattern: str) -> list[str]:
        """Listed files whose whole name matches, sorted."""
        return sorted(name for name in self.listed if re.fullmatch(pattern, name))

    def read(self, name: str) -> bytes:
        """A file's content, if it is what the manifest says."""
        if name not in self.listed:
            lacking = f"is not a run folder: {MANIFEST} is missing" if not self.listed else f"holds no {name} yet"
            raise InputError(f"{self.path} {lacking}")
        try:
            data = read_plain(self.path / name)
        except FileNotFoundError as error:
            raise InputError(f"{self.path / name} is missing, although the manifest lists it") from error
        if digest(data) not in self.listed[name]:
            raise InputError(
                f"{self.path / name} is damaged: its sha256 is not the one in {MANIFEST}; "
                "restore it from a copy, or run again in another folder"
            )
        return data

    def verify(self, may_lack: str) -> None:
        """Raise for the first file that is not what the manifest says; those that match may have been removed."""
        for name in self.listed:
            if (self.path / name).exists() or not re.fullmatch(may_lack, name):
                self.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Write a file and list it."""
        new = digest(data)
        if name in self.listed:
            self._list({name: [*self.listed[name], new]})
        write_whole(self.path / name, data)
        self._list({name: [new]})

    def adopt(self, names: list[str]) -> None:
        """List files that the processes of this run have written here."""
        self._list({name: [digest(read_plain(self.path / name))] for name in names})

    def remove(self, names: list[str]) -> None:
        self._list({name: [] for name in names})
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        sync_folder(self.path)

    def _list(self, changes: dict[str, list[str]]) -> None:
        listed = {name: digests for name, digests in (self.listed | changes).items() if digests}
        lines = "".join(f"{each}  {name}\n" for name, digests in sorted(listed.items()) for each in digests)
        write_whole(self.path / MANIFEST, f"{lines}{LAST}{digest(lines.encode())}\n".encode())
        self.listed = listed

    def _sweep(self) -> None:
        """Remove what a crash left: half-written or unlisted files, and the second digest of a replaced one."""
        found = [entry.name for entry in os.scandir(self.path) if entry.name not in (LOCK, MANIFEST)]
        ours = re.compile(rf"(checkpoint-.*\.safetensors|{CONFIG}|{EPOCHS}|{METRICS}|{MODEL})")
        unlisted = [name for name in found if ours.fullmatch(name) and name not in self.listed]
        if not self.listed and any(name != CONFIG for name in unlisted):
            raise InputError(f"{self.path} holds {sorted(unlisted)[0]} but no {MANIFEST}; name another folder")
        for name in [*unlisted, *(name for name in found if name.endswith(PART))]:
            (self.path / name).unlink()
        for name in [name for name, digests in self.listed.items() if len(digests) > 1]:
            self._list({name: [digest(self.read(name))]})


def _read_manifest(path: Path) -> dict[str, list[str]]:
    manifest = path / MANIFEST
    try:
        text = read_plain(manifest, MANIFEST_LIMIT).decode("ascii")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise InputError(f"{manifest} is damaged: {error}") from error
    lines, _, last = text.rpartition(LAST)
    if last != digest(lines.encode()) + "\n":
        raise InputError(f"{manifest} is damaged: its own sha256 does not fit; restore it from a copy")
    listed: dict[str, list[str]] = {}
    for line in lines.splitlines():
        found = LINE.fullmatch(line)
        if found is None:
            raise InputError(f"{manifest} lists {line[66:]!r}, expected the plain name of a file in the folder")
        listed.setdefault(found[2], []).append(found[1])
    return listed


def free_run_folder(parent: Path, name: str) -> Path:
    """`parent/name`, or the first free `parent/name-2`, `-3`, ..."""
    candidates = [parent / name] + [parent / f"{name}-{i}" for i in range(2, 10_000)]
    return next(path for path in candidates if not path.exists())


def last_run_folder(parent: Path, name: str) -> Path:
    """The newest of `parent/name`, `parent/name-2`, ...; `parent/name` if there is none."""
    made = [path for path in parent.glob(f"{name}*") if re.fullmatch(rf"{re.escape(name)}(-\d+)?", path.name)]
    return max(made, key=lambda path: path.stat().st_mtime, default=parent / name)
