"""Values that a rule cannot tell apart: exchanged in all slots, they change no label."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.rules.compile import compiled_already
from softpnet.rules.diagram import Diagram
from softpnet.rules.function import some_rows
from softpnet.task.concepts import ConceptSpace
from softpnet.task.task import Task

RANDOM, LABELS, EACH = 2000, 200, 10
"""A rule is asked about so many random assignments and, of so many labels, so many assignments each."""


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


def alike(task: Task, only: int | None = None, most: int | None = None) -> Iterator[Exchange]:
    """Pairs of values, of one group or all and of the first `most` pairs, that the rule cannot tell apart."""
    rows = telling_rows(task)
    labels = task.rule(rows.clone())
    tried = islice(exchanges(task.space, only), most)
    return (exchange for exchange in tried if torch.equal(task.rule(exchange.of(task.space, rows)), labels))


def telling_rows(task: Task) -> Tensor:
    """Assignments `[M, k]` on which the rule is asked what it tells apart: random ones and, where it has been compiled,
    some of every label, since random ones may have none that is rare."""
    rows, found = some_rows(task.space, RANDOM), compiled_already(task)
    if found is None or not isinstance(found.rule, Diagram):
        return rows
    rule = found.rule
    labels = rule.labels[:LABELS].repeat_interleave(EACH, dim=0)
    return torch.cat([rows, rule.sample(labels, Generator().manual_seed(0))])
