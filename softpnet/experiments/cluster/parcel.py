"""A run folder on its way between two hosts that share no disk: what has changed since it was sent last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from softpnet.errors import InputError
from softpnet.storage import digest
from softpnet.training.folder import CONFIG, EPOCHS, RunFolder


@dataclass(frozen=True)
class Parcel:
    listed: dict[str, str]
    """The sha256 of every file of the run, by name."""
    files: dict[str, bytes]
    """Those that the other side has not yet."""


def pack(folder: Path, known: Mapping[str, str] | None = None) -> Parcel:
    """The run as it is now, each file verified, but for what is `known`; raises while a file is being replaced."""
    run = RunFolder(folder)
    unlike = {name: digests for name, digests in run.listed.items() if digests != [(known or {}).get(name)]}
    files = {name: run.read(name) for name in unlike}
    found = {name: digests[0] for name, digests in run.listed.items() if name not in files}
    return Parcel(found | {name: digest(data) for name, data in files.items()}, files)


def unpack(parcel: Parcel, folder: Path) -> None:
    """Make the folder hold the run, in the order in which a training writes: a stop at any moment leaves a run that can
    be resumed."""
    with RunFolder.to_write(folder) as run:
        for name in sorted(parcel.listed, key=lambda name: (name != CONFIG, name != EPOCHS, name)):
            if run.listed.get(name) == [parcel.listed[name]]:
                continue
            if name not in parcel.files or digest(parcel.files[name]) != parcel.listed[name]:
                raise InputError(f"{name} for {folder} was lost or damaged on its way; run the command again")
            run.write(name, parcel.files[name])
        run.remove([name for name in run.listed if name not in parcel.listed])
