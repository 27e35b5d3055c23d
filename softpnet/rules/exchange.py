"""Values that a rule cannot tell apart: exchanged in all slots, they change no label."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from softpnet.task.concepts import ConceptSpace


class Exchange(NamedTuple):
    """Two values of an attribute."""

    group: int
    attribute: int
    one: int
    other: int

    def of(self, space: ConceptSpace, rows: Tensor) -> Tensor:
        """Rows `[M, k]` with the two values exchanged in all slots of the group."""
        parts = space.split(rows)
        part = parts[self.group].clone()  # [M, n_g, a]
        seen = parts[self.group][..., self.attribute]
        part[..., self.attribute] = torch.where(
            seen == self.one, self.other, torch.where(seen == self.other, self.one, seen)
        )
        parts[self.group] = part
        return torch.cat([each.flatten(1) for each in parts], dim=1)


def exchanges(space: ConceptSpace, only: int | None = None) -> Iterator[Exchange]:
    """All of them, or those of one group."""
    for at, group in enumerate(space.groups):
        if only not in (None, at):
            continue
        for attribute, values in enumerate(group.values):
            for one, other in combinations(range(values), 2):
                yield Exchange(at, attribute, one, other)
