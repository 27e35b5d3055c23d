"""Export: a trained model becomes one file, is opened again, and compared with what it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from softpnet.errors import InputError
from softpnet.export.card import card
from softpnet.export.formats import writer
from softpnet.export.network import Shipped, traceable, traced
from softpnet.export.rule import shipped_rule
from softpnet.networks.views import random_views
from softpnet.runtime.inputs import are_unit_pixels, is_real
from softpnet.runtime.model import Model
from softpnet.runtime.notes import Notes
from softpnet.storage import digest, write_whole
from softpnet.task.integers import tensor_as_array
from softpnet.trained import Trained

TOLERANCE = 1e-5
"""No probability of an export differs by more from the trained model's, unless asked for."""
EXAMPLES = 64
"""So many examples, made of the anchors, are read by both."""


class Exported(NamedTuple):
    """What was written."""

    path: Path
    card: Path  # in Markdown, beside it
    difference: float  # the largest, between a probability of the export and the trained model's
    limits: list[str]  # what it cannot answer, a sentence each


def export(model: Trained, path: Path, tolerance: float, facts: Mapping[str, str]) -> Exported:
    """Write the model to a file, and a model card with these facts beside it."""
    write, reader, probes = writer(path), model._fitted(), probe_inputs(model)
    rule, said = shipped_rule(model.task)
    with_rule = rule is None and traceable(model.task.rule, model.task.space)
    notes = Notes(
        task=model.task.name,
        slots=model.task.space.slots,
        input_shape=tuple(probes.shape[2:]),
        input_type="float32" if is_real(probes.dtype) else "int64",
        table_rows=None if is_real(probes.dtype) else reader.table_rows(probes.shape[2:]),
        unit_pixels=are_unit_pixels(tensor_as_array(model.anchors[0].inputs)),
        value_names=tuple(map(tuple, model.task.space.value_names())),
        confidences=None if model.calibration is None else tuple(model.calibration.confidences.tolist()),
        rule=rule,
        rule_said=said,
        traced_rule=with_rule,
    )
    shipped = Shipped(reader, model.calibration, model.task.rule if with_rule else None)
    data = write(traced(model.task, shipped, probes[:3]), notes.to_text())
    opened = Model(data, path)
    difference = largest_difference(model, opened, probes)
    if not difference <= tolerance:
        raise InputError(
            f"a probability of the export differs by {difference:.1e} from the trained model's, expected at most "
            f"{tolerance:.0e}; nothing was written: export with --to torch, or allow more with --tolerance"
        )
    write_whole(path, data)
    beside = path.with_name(f"{path.name}.md")  # README.onnx leaves README.md alone, and model.pt2 model.onnx's card
    text = card(
        model.task, notes, path, digest(data), {**facts, "largest difference": f"{difference:.1e}"}, opened.limits
    )
    write_whole(beside, text.encode())
    return Exported(path, beside, difference, opened.limits)


def probe_inputs(model: Trained) -> Tensor:
    """Examples `[64, n, *shape]` whose slots show anchors of the groups that read them, half of them augmented."""
    generator, space = Generator().manual_seed(0), model.task.space
    slots = []
    for slot in range(space.slots):
        pools = [own.inputs for own, group in zip(model.anchors, space.groups, strict=True) if slot in group.slots]
        pool = torch.cat(pools or [model.anchors[0].inputs])  # [M, *shape]
        slots.append(pool[torch.randint(len(pool), (EXAMPLES,), generator=generator)])
    clean, other = torch.stack(slots, 1).chunk(2)
    return torch.cat([clean, random_views(model.task, other, generator)])


def largest_difference(model: Trained, opened: Model, inputs: Tensor) -> float:
    """Between a probability of the export and the trained model's: of all inputs together, and of one alone."""
    pairs = ((opened.predict(part.numpy()), model.predict(part)) for part in (inputs, inputs[:1]))
    return max(float(np.abs(found.probabilities - own.probabilities.numpy()).max()) for found, own in pairs)
