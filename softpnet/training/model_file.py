"""The trained model as a file of a run folder: weights, prototypes, anchors and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Size, Tensor

from softpnet.errors import InputError
from softpnet.networks.calibration import Calibration
from softpnet.networks.finite import not_finite
from softpnet.networks.reader import Reader
from softpnet.storage import from_safetensors, to_safetensors
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.training.folder import MODEL, RunFolder

WEIGHTS, ANCHORS, SHOWN, CALIBRATION = "module.", "anchors.", "anchored.", "calibration."
"""What the names in the file begin with."""

FINISHED = "finished"
"""Note in the file: whether the run had come to its end."""


class StoredModel(NamedTuple):
    weights: dict[str, Tensor]
    anchors: list[AnchorSet]  # per group
    finished: bool  # False where its training was stopped
    calibration: Calibration | None  # None where it was trained before this was kept


def write_model(folder: RunFolder, space: ConceptSpace, model: StoredModel) -> None:
    tensors = {f"{WEIGHTS}{name}": value for name, value in model.weights.items()}
    for group, anchors in zip(space.groups, model.anchors, strict=True):
        tensors |= dict(zip((f"{ANCHORS}{group.name}", f"{SHOWN}{group.name}"), anchors.tensors(), strict=False))
    if model.calibration is not None:
        tensors |= {f"{CALIBRATION}{name}": value for name, value in model.calibration._asdict().items()}
    folder.write(MODEL, to_safetensors(tensors, {FINISHED: str(model.finished).lower()}))


def read_model(folder: RunFolder, space: ConceptSpace, input_shape: Size) -> StoredModel:
    """What `write_model` wrote; raises where its anchors are not those of this concept space."""
    tensors, notes = from_safetensors(folder.read(MODEL), folder.path / MODEL)
    weights = _weights(tensors)
    anchors = [_anchors(tensors, group, input_shape, folder.path) for group in space.groups]
    calibration = _calibration(tensors, len(space.groups), folder.path)
    return StoredModel(weights, anchors, _finished(notes, folder.path / MODEL), calibration)


def _anchors(tensors: Mapping[str, Tensor], group: Group, input_shape: Size, path: Path) -> AnchorSet:
    inputs, count = tensors.get(f"{ANCHORS}{group.name}"), len(group.primitives)
    shown = tensors.get(f"{SHOWN}{group.name}", torch.arange(count))
    sound = shown.dtype == torch.int64 and shown.dim() == 1 and len(shown) > 0 and bool((shown.diff() >= 0).all())
    sound = sound and 0 <= int(shown[0]) and int(shown[-1]) < count
    expected = [len(shown), *input_shape]
    fits = inputs is not None and list(inputs.shape) == expected and inputs.dtype in (torch.float32, torch.int64)
    if inputs is None or not (sound and fits):
        found = None if inputs is None else f"{inputs.dtype} {list(inputs.shape)}"
        raise InputError(
            f"the model in {path} does not fit this task: its anchors of {group.name!r} are {found}, expected "
            f"{torch.float32} or {torch.int64} {expected} of {count} primitives; pass the task that it was trained with"
        )
    if not torch.isfinite(inputs).all():
        raise InputError(f"the model in {path} is damaged: its anchors hold NaN or infinite pixels")
    return AnchorSet(inputs, shown)


def read_weights(folder: RunFolder) -> dict[str, Tensor]:
    """The weights alone, whatever they are of."""
    return _weights(from_safetensors(folder.read(MODEL), folder.path / MODEL)[0])


def _weights(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(WEIGHTS): t for name, t in tensors.items() if name.startswith(WEIGHTS)}


def _calibration(tensors: Mapping[str, Tensor], groups: int, path: Path) -> Calibration | None:
    """None where nothing of it is there; raises for one that no training gives."""
    found = [tensors.get(f"{CALIBRATION}{name}") for name in Calibration._fields]
    if found == [None, None]:
        return None
    temperatures, sure = (torch.zeros(0) if part is None else part for part in found)
    kind = torch.float32
    sound = temperatures.dtype == sure.dtype == kind and temperatures.shape == (groups,) and sure.dim() == 1
    sound = sound and len(sure) > 0 and bool((temperatures > 0).all() and temperatures.isfinite().all())
    if not (sound and bool(((sure >= 0) & (sure <= 1)).all() and (sure.diff() <= 0).all())):
        raise InputError(
            f"the model in {path} is damaged: its calibration is not {groups} temperatures above 0 and falling "
            "confidences between 0 and 1; restore it from a copy, or train again"
        )
    return Calibration(temperatures, sure)


def holds_finished_model(folder: RunFolder) -> bool:
    """Whether the run in the folder has come to its end."""
    if MODEL not in folder or MODEL in folder.removed():
        return False
    path = folder.path / MODEL
    return _finished(from_safetensors(folder.read(MODEL), path)[1], path)


def mark_unfinished(folder: RunFolder) -> None:
    """Let the model in the folder, if there is one, be that of a run which goes on."""
    if MODEL in folder and MODEL not in folder.removed():
        tensors, notes = from_safetensors(folder.read(MODEL), folder.path / MODEL)
        folder.write(MODEL, to_safetensors(tensors, {**notes, FINISHED: "false"}))


def _finished(notes: Mapping[str, str], path: Path) -> bool:
    note = notes.get(FINISHED)
    if note not in ("true", "false"):
        raise InputError(f"{path} is damaged: its note {FINISHED!r} is {note!r}, expected 'true' or 'false'")
    return note == "true"


def put_weights(module: Reader, model: StoredModel, folder: RunFolder) -> None:
    """Put the stored weights into a module that was made for them."""
    lost = not_finite(model.weights, module.constants)
    if lost:
        raise InputError(
            f"the model in {folder.path} cannot be used: {len(lost)} of its {len(model.weights)} tensors, "
            f"{lost[0]!r} first, hold NaN or infinite numbers; train it again, with a lower learning_rate"
        )
    try:
        for name, own in module.state_dict().items():
            if name in model.weights and model.weights[name].dtype != own.dtype:
                raise RuntimeError(f"{name} is {model.weights[name].dtype}, expected {own.dtype}")
        module.load_state_dict(model.weights)
    except RuntimeError as error:
        raise InputError(
            f"the model in {folder.path} does not fit this task or encoder: {str(error).splitlines()[-1].strip()}; "
            "pass the encoder that it was trained with: Learner.load(folder, encoder=...)"
        ) from error
