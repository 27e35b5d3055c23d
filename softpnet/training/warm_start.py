"""Warm start: encoders, prototypes and heads that begin as those of another run or model, by their names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.networks.finite import not_finite
from softpnet.networks.reader import Reader, module_key
from softpnet.storage import digest, refuse_code, to_safetensors
from softpnet.training.config import Init
from softpnet.training.folder import RunFolder
from softpnet.training.model_file import read_weights

ENCODERS = "encoders"
PREFIX = module_key("")


class Start(NamedTuple):
    """Weights to begin with, and what a configuration says of them."""

    weights: Mapping[str, Tensor]
    record: Init


def start_from(given: Any) -> Start:
    """What a run's folder or a trained Learner holds."""
    if isinstance(given, (str, Path)):
        refuse_code(Path(given))
        weights, source = read_weights(RunFolder(Path(given))), str(Path(given).resolve())
    elif isinstance(getattr(given, "module", None), Reader):
        weights = {name: value.detach().clone() for name, value in given.module.state_dict().items()}
        source = f"a model of task {given.task.name!r}"
    else:
        raise InputError(f"init is {given!r:.100}, expected the folder of a run, or a Learner that is trained")
    return Start(weights, Init(source, digest(to_safetensors(weights, {}))))


@torch.no_grad()
def warm_start(module: Reader, start: Start) -> list[str]:
    """Begin as another model: each encoder of the same name, and what belongs to groups of the same name and reads
    from such an encoder. A line on what was taken; a warning names what was not."""
    own, theirs, source = _parts(module.state_dict()), _parts(start.weights), start.record.source
    ours, known = ([_said(part) for part in parts if part[0] == ENCODERS] for parts in (own, theirs))
    had, has = (", ".join(names) or "no encoder with weights" for names in (known, ours))
    taken = [part for part in own if part[0] == ENCODERS and part in theirs]
    if not taken:
        raise InputError(
            f"init has {had} ({source}), but this task has {has}; give one of them the same name: "
            "Group(..., encoder=NAME)"
        )
    for part in taken:
        if other := _difference(own[part], theirs[part]):
            raise InputError(
                f"{_said(part)} of init does not fit ({source}): {other}; give both the same encoder, or leave init out"
            )
    left = []
    read_from = {module_key(group.name): module_key(group.encoder) for group in module.space.groups}
    for part in [part for part in own if part[0] != ENCODERS]:
        if (ENCODERS, read_from[part[1]]) not in taken:
            left.append(f"{_said(part)}, whose encoder init does not have")
        elif part not in theirs:
            left.append(f"{_said(part)}, which init does not have")
        elif other := _difference(own[part], theirs[part]):
            left.append(f"{_said(part)}, since {other}")
        else:
            taken.append(part)
    left += [name for name in ours if name not in map(_said, taken)]
    lost = not_finite({name: value for part in taken for name, value in theirs[part].items()}, module.constants)
    if lost:
        raise InputError(f"init holds NaN or infinite numbers ({source}), {lost[0]!r} first; choose another run")
    for part in taken:
        for name, place in own[part].items():
            place.copy_(theirs[part][name])
    if left:
        warnings.warn(f"begun afresh, and not from init ({source}): {'; '.join(left)}", stacklevel=2)
    return [f"starts from {source}: {', '.join(map(_said, taken))}"]


def _parts(weights: Mapping[str, Tensor]) -> dict[tuple[str, str], dict[str, Tensor]]:
    """The tensors by part of the network: ("encoders", "of_concept"), ("prototypes", "of_concept")."""
    found: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name, value in weights.items():
        kind, key, *_ = [*name.split("."), ""]
        found.setdefault((kind, key), {})[name] = value
    return found


def _said(part: tuple[str, str]) -> str:
    kind, key = part
    name = key.removeprefix(PREFIX)
    return f"encoder {name!r}" if kind == ENCODERS else f"{kind} of {name!r}"


def _difference(own: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> str:
    """The first tensor that the two do not have alike; nothing where all fit."""
    for name in dict.fromkeys([*own, *theirs]):
        here, there = (None if name not in each else list(each[name].shape) for each in (own, theirs))
        if here != there:
            return f"{name} is {there} there and {here} here"
    return ""
