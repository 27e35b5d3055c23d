"""Which training slots to label next: those that stand for most of what label and rule leave open.

Every slot has an uncertainty, the entropy of what it shows *given its example's label*: what the rule settles needs no
anchor. An anchor is taken to settle slots as far as they look like it. The slots are chosen one after the other, each
the one with the largest product of its own uncertainty and of what it settles that the anchors and those chosen before
leave open: so they are uncertain, typical of other uncertain ones, and unlike each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.networks.calibration import Calibration
from softpnet.networks.prototypes import squared_distances
from softpnet.networks.reader import Reader, in_parts, read
from softpnet.rules.compile import check_known
from softpnet.rules.confidence import compiled_rule
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import ConceptSpace
from softpnet.task.data import Inputs
from softpnet.task.lazy import numbers, readable
from softpnet.task.task import Task
from softpnet.training.calibrate import exact_target

POOL = 2048
"""About so many slots are looked at, evenly spread over the examples; every pair of them is compared."""
LEAST = 0.01
"""Nats of uncertainty that every slot has, so that typical ones are chosen where all are sure."""


@torch.no_grad()
def suggest_slots(
    task: Task,
    module: Reader,
    calibration: Calibration | None,
    anchors: Sequence[AnchorSet],
    inputs: Inputs,
    labels: Tensor,
    count: int,
    noise: float = 0.0,
) -> Tensor:
    """The slots to label next, the most helpful first, `[count, 2]`: an example's number, and the slot in it."""
    space = task.space
    slots = len({slot for group in space.groups for slot in group.slots})
    check_suggested(count, len(inputs) * slots)
    wanted = -(-max(POOL, count) // slots)
    ids, found = readable(inputs, torch.linspace(0, len(inputs) - 1, min(wanted, len(inputs))).long())
    check_suggested(count, len(ids) * slots)
    pool = numbers(found.to(module.device))
    log_p = read(module, pool)
    log_p = log_p if calibration is None else calibration.tempered(space, log_p)
    if compiled_rule(task) is not None and not noise:
        check_known(task, labels)
    target = exact_target(task, log_p, labels[ids], noise)
    told = torch.where(target.sum(-1, keepdim=True) > 0, target, log_p.exp())  # without a compiled rule, what is read
    parts = zip(*map(module.embed, in_parts(module, pool)), strict=True)
    originals = [own.inputs[None].to(module.device) for own in anchors]
    shown = module.embed_with_anchors(pool[:0], originals)[1]  # [1, M, D] each
    vectors = [torch.cat(part).cpu() for part in parts]  # [B, n_g, D] each
    chosen = most_settling(space, slot_entropies(space, told.cpu()), vectors, [each[0].cpu() for each in shown], count)
    return torch.stack([ids[chosen[:, 0]], chosen[:, 1]], dim=1)


def check_suggested(count: Any, most: int) -> None:
    """Raise for a number of slots that there are not."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
        raise InputError(f"count is {count!r}, expected a whole number, 1 to {most:,}, the slots that can be read")


def slot_entropies(space: ConceptSpace, probabilities: Tensor) -> list[Tensor]:
    """Nats of each group's slots `[B, n_g]`, summed over attributes, of concepts' probabilities `[B, k, h]`."""
    each = -torch.special.xlogy(probabilities, probabilities).sum(-1)  # [B, k]
    return [part.sum(-1) for part in space.split(each)]


def most_settling(
    space: ConceptSpace, open_nats: Sequence[Tensor], vectors: Sequence[Tensor], anchors: Sequence[Tensor], count: int
) -> Tensor:
    """Slots of B examples that, together with the anchors, settle most; `[count, 2]`.

    Args:
        open_nats: uncertainty of each group's slots, `[B, n_g]`.
        vectors, anchors: embeddings of each group's slots `[B, n_g, D]` and of its anchors `[M, D]`.
    """
    likeness, settled = [], []
    for slots, own in zip(vectors, anchors, strict=True):
        points = slots.flatten(0, 1)  # [B * n_g, D]
        to_anchors = squared_distances(points, own).clamp_min(0)  # [B * n_g, M]
        nearest = to_anchors.amin(1)
        scale = nearest.median().clamp_min(1e-9)  # how unlike its anchor an ordinary slot is
        likeness.append((-squared_distances(points, points).clamp_min(0) / scale).exp())
        settled.append((-nearest / scale).exp())
    chosen = torch.zeros(count, 2, dtype=torch.int64)
    taken = torch.zeros(len(vectors[0]), space.slots, dtype=torch.bool)
    for at in range(count):
        gain = torch.full(taken.shape, -torch.inf, dtype=vectors[0].dtype)  # of slots that are read below
        for group, nats, alike, known in zip(space.groups, open_nats, likeness, settled, strict=True):
            some = nats + LEAST
            more = (alike - known).clamp_min(0) @ some.flatten()  # [B * n_g]
            gain[:, group.slots] = gain[:, group.slots].clamp_min(0) + some * more.view_as(nats)
        best = int(gain.masked_fill(taken, -torch.inf).argmax())
        chosen[at] = torch.tensor(divmod(best, space.slots))
        example, slot = chosen[at].tolist()
        taken[example, slot] = True
        for g, group in enumerate(space.groups):
            if slot in group.slots:
                row = example * len(group.slots) + group.slots.index(slot)
                settled[g] = torch.maximum(settled[g], likeness[g][row])
    return chosen
