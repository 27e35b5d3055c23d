"""The configuration of a run: what config.json holds, written from it and read strictly into it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from softpnet import targets
from softpnet.errors import InputError
from softpnet.rules.compile import How, compiled_already
from softpnet.rules.diagram import Diagram
from softpnet.storage import from_json, to_json
from softpnet.task.hardware import Hardware
from softpnet.task.settings import Giver, Preset, Settings
from softpnet.task.task import Task
from softpnet.training.environment import version_of
from softpnet.training.folder import CONFIG, RunFolder
from softpnet.training.typed import typed

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Encoders = Annotated[dict[str, str | None], Meta(min_length=1)]
Length = Annotated[int, Meta(ge=1, le=2**31)]

SINCE = {"batch_norm": "synchronised", "wait_seconds": 300}
"""Entries of the hardware that runs may lack which were begun before there were any; one process has no use of them."""


class Origin(Struct, frozen=True):
    """Where the task was found: its name, or its file with what that held, and the options it was made with."""

    task: str
    options: dict[str, Any]
    sha256: Sha256 | None = None  # of the file


class Compiled(Struct, frozen=True):
    """What became of the rule."""

    how: How
    nodes: Length | None  # of its diagram; None where it has none, as a machine that sees labels
    width: Length | None  # nodes of the widest layer

    def __str__(self) -> str:
        return (
            self.how if self.nodes is None else f"{self.how}, {self.nodes:,} nodes, at most {self.width:,} in a layer"
        )

    @classmethod
    def of(cls, task: Task) -> Compiled | None:
        """None where training did not ask for it: compiling only to say so could take minutes."""
        found = compiled_already(task)
        if found is None:
            return None
        diagram = found.rule
        return cls(found.how, *(diagram.nodes, max(diagram.widths)) if isinstance(diagram, Diagram) else (None, None))


class Init(Struct, frozen=True):
    """Where the first weights came from: a run's folder, or a model in memory, named by its task."""

    source: str
    sha256: Sha256  # of all its weights


class Config(Struct, frozen=True, kw_only=True):
    """All that was chosen for a run, and what its bits depend on beside that."""

    task: str
    origin: Origin | None  # None for a task that was made in Python
    method: str
    preset: Preset
    seed: int
    encoder: str | Encoders | None  # those given by name; None for the task's, and for what has no name
    init: Init | None
    settings: Settings
    given_by: dict[str, Giver]  # of every setting
    hardware: Hardware
    input_shape: Annotated[tuple[Length, ...], Meta(max_length=8)]  # of the input of one slot
    versions: dict[str, str]
    machine: dict[str, str | int | None]
    data: Sha256 | None  # of what was trained on; None for a model that was saved without a run
    rule: Sha256  # of the concept space and the rule
    compiled: Compiled | None  # how; None where nothing asked for it

    def choices(self) -> dict[str, Any]:
        """What a Learner is made with again; a file of targets is left out, since training would run it, and so is the
        number of processes, which is the matter of what starts them."""
        chosen = dataclasses.asdict(self.settings) | dataclasses.asdict(self.hardware)
        del chosen["processes"]
        if chosen["targets"] not in targets.names():
            del chosen["targets"]
        named = self.encoder if not isinstance(self.encoder, dict) or all(self.encoder.values()) else None
        return chosen | {"preset": self.preset, "seed": self.seed, "encoder": named}

    def to_bytes(self) -> bytes:
        plain = msgspec.structs.asdict(self) | {
            "origin": self.origin and msgspec.structs.asdict(self.origin),
            "settings": dataclasses.asdict(self.settings),
            "hardware": dataclasses.asdict(self.hardware),
            "init": self.init and msgspec.structs.asdict(self.init),
            "compiled": self.compiled and msgspec.structs.asdict(self.compiled),
        }
        try:
            return to_json(plain)
        except (TypeError, ValueError) as error:  # of the options: all else is of known types
            raise InputError(
                f"the options of task {self.task!r} cannot be written to {CONFIG}: {error}; "
                "give numbers, texts, or lists of them"
            ) from error


def read_config(folder: RunFolder) -> Config:
    return parse_config(folder.read(CONFIG), folder.path / CONFIG)


def parse_config(data: bytes, path: Path) -> Config:
    """What `to_bytes` made, every entry of its type and in its range; `path` is for the error."""
    found = from_json(data, path)
    if isinstance(found, dict) and isinstance(found.get("hardware"), dict):
        found["hardware"] = SINCE | found["hardware"]
    try:
        config = typed(found, Config)
        config.settings.check()
        config.hardware.check()
        odd = {field.name for field in dataclasses.fields(Settings)} ^ set(config.given_by)
        if odd:
            raise InputError(f"its entry 'given_by' has too few or too many names, {', '.join(sorted(odd))}")
    except InputError as error:
        if is_newer(found):
            strange = str(error).partition(";")[0]  # without what this version would rather see
            raise InputError(
                f"{path} was written by softpnet {_version(found)}, newer than this {version_of('softpnet')}; upgrade "
                f"softpnet ({strange})"
            ) from error
        raise InputError(
            f"{path} is damaged, or was written by another version of softpnet: {error}; "
            "restore it from a copy, or train again"
        ) from error
    return config


def is_newer(found: Any) -> bool:
    """Whether a newer version of softpnet than this one wrote a configuration."""
    then, now = (re.findall(r"\d+", str(each)) for each in (_version(found), version_of("softpnet")))
    return bool(then and now) and [int(number) for number in then] > [int(number) for number in now]


def _version(found: Any) -> Any:
    known = found.get("versions") if isinstance(found, dict) else None
    return known.get("softpnet") if isinstance(known, dict) else None
