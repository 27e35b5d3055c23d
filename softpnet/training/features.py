"""What frozen encoders make of the training inputs and anchors: computed once, so that no step runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn

from softpnet.methods.base import Method
from softpnet.networks.frozen import Embedded, Features, is_frozen
from softpnet.networks.reader import AT_ONCE, Reader, module_key, slots_read
from softpnet.storage import digest, to_safetensors
from softpnet.task.data import Inputs
from softpnet.task.lazy import read_parts
from softpnet.task.task import Task
from softpnet.training.identity import fingerprint
from softpnet.training.processes import to_run
from softpnet.training.streams import stream_seed

if TYPE_CHECKING:
    from lightning_fabric import Fabric

ANCHOR_VIEWS = 64
"""Views of each anchor that are embedded before training; each step draws its copies from them."""

MEMO = "features of "
"""Begins the entry of the task's memo: the fingerprint, and the vectors that it stands for."""


@dataclass(frozen=True)
class Known:
    """What frozen encoders make of the examples of one of so many processes; of none, where none is frozen."""

    vectors: dict[str, Tensor] = field(default_factory=dict)  # by key of the encoder [N, n_read, D]
    present: Tensor | None = None  # [N], those whose input is not to be skipped; None for all
    processes: int = 1
    complete: bool = False  # whether all encoders are frozen, so that no input is needed

    def kept(self, ids: Tensor) -> Tensor:
        """Those of the ids whose input is not to be skipped."""
        return ids if self.present is None else ids[self.present[ids // self.processes]]

    def joined(self, ids: Tensor, inputs: Tensor | None, device: torch.device) -> Tensor | Features:
        """What the network is shown of these examples: inputs `[B, n, *shape]`, or what is known of them."""
        if not self.vectors:
            assert inputs is not None
            return inputs
        rows = ids // self.processes  # a process owns the ids that are its rank modulo their number
        return Features(inputs, {key: Embedded(each[rows].to(device)) for key, each in self.vectors.items()})


@torch.no_grad()
def known_features(task: Task, module: Reader, inputs: Inputs, own: Tensor, fabric: Fabric, workers: int = 0) -> Known:
    """Vectors of the examples `own`; of the last training on this task, where encoder and inputs are the same."""
    frozen = {key: encoder for key, encoder in module.encoders.items() if is_frozen(encoder)}
    if not frozen:
        return Known()
    parts, of = own.split(max(1, AT_ONCE // task.space.slots)), fabric.world_size

    def embedded(key: str, items: Tensor) -> Tensor:
        seen = to_run(fabric, items[:, slots_read(task.space, key)])  # [B, n_read, *shape]
        return frozen[key](seen.flatten(0, 1)).unflatten(0, seen.shape[:2]).cpu()  # [B, n_read, D]

    found, marks = {}, {}
    if isinstance(inputs, Tensor):  # to compare lazy inputs would be to read all of them
        data = fingerprint(inputs[ids] for ids in parts)
        for key, encoder in frozen.items():
            marks[key] = features_fingerprint(encoder, embedded(key, inputs[own[:2]]), data)
            before = task.memo.get(MEMO + key)
            if before is not None and before[0] == marks[key]:
                found[key] = before[1]
    missing = [key for key in frozen if key not in found]
    present = torch.zeros(len(own), dtype=torch.bool)
    for ids, items in read_parts(inputs, parts, workers) if missing else ():
        present[ids // of] = True
        for key in missing if len(ids) else ():
            vectors = embedded(key, items)
            place = found.setdefault(key, vectors.new_zeros(len(own), *vectors.shape[1:]))
            place[ids // of] = vectors
    task.memo.update({MEMO + key: (mark, found[key]) for key, mark in marks.items()})
    kept = None if isinstance(inputs, Tensor) else present
    return Known(found, kept, of, complete=len(frozen) == len(module.encoders))


def features_fingerprint(encoder: nn.Module, few: Tensor, data: str) -> str:
    """One sha256 for all that features depend on, with that of the data.

    What an encoder computes is in its weights and layers, but also in code: so a few of its vectors are part of it.
    """
    state = digest(to_safetensors(encoder.state_dict(), {}))
    return digest(f"{state} {encoder!r} {fingerprint([few])} {data}".encode())


@torch.no_grad()
def known_anchors(method: Method, module: Reader, seed: int) -> dict[int, Tensor]:
    """By group, where its encoder is frozen: vectors of its anchors and of views of them, `[views, M, D]`."""
    generator = Generator().manual_seed(stream_seed(seed, "views of anchors"))  # the same again where a run is resumed
    found = {}
    for g, (group, anchors) in enumerate(zip(method.task.space.groups, method.anchors, strict=True)):
        encoder = module.encoders[module_key(group.encoder)]
        if is_frozen(encoder):
            views = range(ANCHOR_VIEWS if method.augments() else 1)
            each = (encoder(method.augment(anchors.inputs[None], generator)[0]) for _ in views)  # [M, D]
            found[g] = torch.stack([encoder(anchors.inputs), *each])
    return found


def frozen_notes(method: Method, module: Reader) -> list[str]:
    """What a person should know of frozen encoders, a line each."""
    settings, groups = method.settings, module.space.groups
    frozen = {key for key, encoder in module.encoders.items() if is_frozen(encoder)}
    if not frozen:
        return []
    names = dict.fromkeys(group.encoder for group in groups if module_key(group.encoder) in frozen)
    who = f"encoder {', '.join(names)} is frozen"
    if settings.frozen_views:
        return [f"{who}, and runs in every step, on new views (frozen_views)"]
    augments = (settings.augment_inputs or settings.views) and method.augments()
    still = ", so that these are not augmented (frozen_views=True augments them)" if augments else ""
    return [f"{who}: its features of the training inputs are computed once{still}"]
