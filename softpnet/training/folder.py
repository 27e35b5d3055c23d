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
from softpnet.storage import PART, Content, digest, read_plain, refuse_code, replacing, sync_folder, write_whole
from softpnet.training.lock import hold

CONFIG, EPOCHS, METRICS, MODEL = "config.json", "epochs.jsonl", "metrics.json", "model.safetensors"
MANIFEST = "manifest.sha256"
MANIFEST_LIMIT = 2**20
NAME = r"[A-Za-z0-9_%][A-Za-z0-9_%.-]*"
LINE = re.compile(rf"([0-9a-f]{{64}})  ({NAME})")
CHECKPOINT = r"checkpoint-[\d-]+-process\d+(of\d+)?\.safetensors"
OURS = re.compile(
    rf"(({CONFIG}|{EPOCHS}|{METRICS}|{MODEL}|{MANIFEST}|{CHECKPOINT})"
    rf"|(learned|curves|accuracy)[A-Za-z0-9_%-]*\.(png|svg))({re.escape(PART)})?"
)
"""Files that a run makes; no other is ever removed."""
LAST = "# sha256 of the lines above: "


class RunFolder:
    """Files of one run, each verified against the manifest whenever it is read."""

    def __init__(self, path: Path) -> None:
        """Read the manifest; a folder without one has no files."""
        self.path = path
        self.listed = _read_manifest(path) or {}

    @classmethod
    @contextmanager
    def to_write(cls, path: Path) -> Iterator[RunFolder]:
        """The folder, made if there is none, for this process alone, cleared of what a crash left half-written."""
        refuse_code(path)  # it could not be read again
        try:
            made = [each for each in (path, *path.parents) if not each.exists()]
            path.mkdir(parents=True, exist_ok=True)
            for each in made:
                sync_folder(each.parent)
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
        command = f"`softpnet train TASK --out {self.path}"
        if name not in self.listed:
            if not self.path.exists():
                raise InputError(f"there is no folder {self.path}; {command}` makes one")
            if not (self.path / MANIFEST).exists():
                raise InputError(f"{self.path} is not a run folder: {MANIFEST} is missing; name the folder of a run")
            raise InputError(f"{self.path} holds no {name} yet; {command} --resume` goes on with the run")
        try:
            data = read_plain(self.path / name)
        except FileNotFoundError as error:
            again = "" if name == CONFIG else f", or make it again with {command} --resume`"
            raise InputError(
                f"{self.path / name} is missing, although the manifest lists it; restore it from a copy{again}"
            ) from error
        if digest(data) not in self.listed[name]:
            self.listed = _read_manifest(self.path) or {}  # it may have been written again in between
        if digest(data) not in self.listed.get(name, []):
            raise InputError(
                f"{self.path / name} is damaged: its sha256 is not the one in {MANIFEST}; "
                f"restore it from a copy, or, unless it is {CONFIG}, remove it and resume"
            )
        return data

    def verify(self) -> None:
        """Raise for the first file that is there, but is not what the manifest says."""
        removed = self.removed()
        for name in [name for name in self.listed if name not in removed]:
            self.read(name)

    def removed(self) -> list[str]:
        """Listed files that someone has removed, except the configuration: without it there is no run."""
        return [name for name in self.listed if name != CONFIG and not os.path.lexists(self.path / name)]

    def write(self, name: str, data: Content) -> None:
        """Write a file and list it."""
        if name not in self.listed and os.path.lexists(self.path / name):
            raise InputError(f"{self.path / name} is not a file of this run; move it, or name another folder")
        with replacing(self.path / name, data) as new:
            if name in self.listed:
                self._list({name: [*self.listed[name], new]})
        self._list({name: [new]})

    def adopt(self, names: list[str]) -> None:
        """List files that the processes of this run have written here."""
        self._list({name: [digest(read_plain(self.path / name))] for name in names})

    def remove(self, names: list[str]) -> None:
        if not names:
            return
        self._list({name: [] for name in names})
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        sync_folder(self.path)

    def _list(self, changes: dict[str, list[str]]) -> None:
        listed = {name: digests for name, digests in (self.listed | changes).items() if digests}
        lines = "".join(f"{each}  {name}\n" for name, digests in sorted(listed.items()) for each in digests)
        assert all(map(LINE.fullmatch, lines.splitlines())), f"a name in {list(changes)} could not be read back"
        write_whole(self.path / MANIFEST, f"{lines}{LAST}{digest(lines.encode())}\n".encode())
        self.listed = listed

    def _sweep(self) -> None:
        """Remove what a crash left: half-written or unlisted files, and the second digest of a replaced one."""
        ours = [entry.name for entry in os.scandir(self.path) if OURS.fullmatch(entry.name) and entry.is_file()]
        if _read_manifest(self.path) is None:
            others = sorted(name for name in ours if not name.endswith(PART))
            if others:
                raise InputError(f"{self.path} holds {others[0]} but no {MANIFEST}; name another folder")
            self._list({})  # from here on, what is ours and not listed is of a crash
        for name in ours:
            if name not in self.listed and name != MANIFEST:
                (self.path / name).unlink(missing_ok=True)
        for name in [name for name, digests in self.listed.items() if len(digests) > 1]:
            self._list({name: [digest(self.read(name))]})


def _read_manifest(path: Path) -> dict[str, list[str]] | None:
    """Digests by name; None where there is no manifest."""
    manifest = path / MANIFEST
    try:
        text = read_plain(manifest, MANIFEST_LIMIT).decode("ascii")
    except FileNotFoundError:
        return None
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
    plain = plain_name(name)
    candidates = [parent / plain] + [parent / f"{plain}-{i}" for i in range(2, 10_000)]
    return next(path for path in candidates if not path.exists())


def last_run_folder(parent: Path, name: str) -> Path:
    """The newest of `parent/name`, `parent/name-2`, ...; `parent/name` if there is none."""
    plain = plain_name(name)
    there = list(parent.iterdir()) if parent.is_dir() else []
    made = [path for path in there if re.fullmatch(rf"{re.escape(plain)}(-\d+)?", path.name)]
    return max(made, key=lambda path: path.stat().st_mtime, default=parent / plain)


def plain_name(name: str) -> str:
    """The name as one folder's, whatever a task is called."""
    return re.sub(r"^\.", "_", re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[-100:])  # no hidden folder, nor one above
