"""Other anchors for a trained model: the prototype of one value moves, and nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError
from softpnet.networks.finite import check_read
from softpnet.networks.prototypes import PrototypeNetwork
from softpnet.networks.reader import Reader, module_key
from softpnet.networks.views import random_views
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import ConceptSpace
from softpnet.task.inputs import check_numbers
from softpnet.task.lazy import numbers
from softpnet.task.task import Task

SHOWN = 20
"""So many values are named in an error."""


def find_primitive(space: ConceptSpace, value: Any, group: str | None) -> tuple[int, int]:
    """The group's number and the primitive's in it; a value is a name, a number, or a tuple of attribute values."""
    known = [each.name for each in space.groups]
    if group is not None and group not in known:
        raise InputError(f"there is no group {group!r}; the groups are {', '.join(known)}")
    given = tuple(value) if isinstance(value, (tuple, list)) else value
    found = []
    for at, each in enumerate(space.groups):
        called = [*zip(each.primitive_names, range(len(each.primitives)), each.primitives, strict=True)]
        if group in (None, each.name):
            found += [(at, number) for number, names in enumerate(called) if given in names]
    if len(found) != 1:
        if found:
            owners = ", ".join(dict.fromkeys(known[at] for at, _ in found))
            raise InputError(f"value {value!r:.100} is in several groups; name one with group=, of {owners}")
        names = [name for each in space.groups if group in (None, each.name) for name in each.primitive_names]
        more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        raise InputError(f"there is no value {value!r:.100}; the values are {', '.join(names[:SHOWN])}{more}")
    return found[0]


@torch.no_grad()
def reanchored(
    task: Task,
    module: Reader,
    anchors: Sequence[AnchorSet],
    at: tuple[int, int],
    inputs: Tensor,
    copies: int,
    add: bool,
) -> tuple[Tensor, AnchorSet]:
    """The new prototypes of the group `[P, D]`, and its new anchors.

    A value's prototype is the mean embedding of its inputs and of augmented copies of each. Where anchors are added it
    counts as the mean of those that it had, also where it was learned.
    """
    g, primitive = at
    group, own = task.space.groups[g], anchors[g]
    if not isinstance(module, PrototypeNetwork):
        raise InputError(
            "this model has no prototypes that other anchors could move; train with method='softpnet', or train again "
            "with the new anchors"
        )
    shape = own.inputs.shape[1:]
    given = inputs[None] if isinstance(inputs, Tensor) and inputs.shape == shape else inputs
    check_numbers(given, "anchors", 2, "[A, ...]")
    shown = numbers(given)  # [A, *shape]
    if shown.shape[1:] != shape or shown.dtype != own.inputs.dtype:
        raise InputError(
            f"anchors are {inputs.dtype} {list(inputs.shape)}, expected {own.inputs.dtype} {['A', *shape]}, one or "
            "several inputs of the value; resize or convert them"
        )
    views = random_views(task, shown.expand(copies, *shown.shape).contiguous(), Generator().manual_seed(0))
    seen = torch.cat([shown[None], views]).flatten(0, 1).to(module.device)
    vectors = module.encoders[module_key(group.encoder)](seen).cpu()
    check_read(vectors.unflatten(0, (copies + 1, -1)).transpose(0, 1), shown)
    mean, before = vectors.mean(0), int((own.primitives == primitive).sum()) if add else 0  # [D]
    centres = module.settled()[g].detach().cpu().clone()  # [P, D]
    centres[primitive] = (before * centres[primitive] + len(shown) * mean) / (before + len(shown))
    kept = torch.ones_like(own.primitives, dtype=torch.bool) if add else own.primitives != primitive
    which = torch.cat([own.primitives[kept], own.primitives.new_full((len(shown),), primitive)])
    rising, places = which.sort(stable=True)
    return centres, AnchorSet(torch.cat([own.inputs[kept], shown])[places], rising)
