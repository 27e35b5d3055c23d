"""A table: a rule that is asked about every assignment becomes a diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from softpnet.rules.diagram import Diagram
from softpnet.rules.labels import unique_labels
from softpnet.rules.merge import check_budget, merged_nodes, renumbered
from softpnet.task.concepts import ConceptSpace


def from_table(
    space: ConceptSpace, label: Callable[[Tensor], Tensor], order: Sequence[int], at_once: int = 1_000_000
) -> Diagram:
    """The diagram of a rule that is asked about every assignment; merged from the last layer backwards."""
    labels = torch.cat([label(rows) for rows in _every(space, order, at_once)])
    distinct, node = unique_labels(labels)
    edges: list[Tensor] = []
    for concept in reversed(order):
        merged, node = merged_nodes(node.view(-1, space.sizes[concept]))
        edges.append(merged)
        check_budget([len(layer) for layer in reversed(edges)])
    return renumbered(Diagram(space, order, edges[::-1], distinct))


def _every(space: ConceptSpace, order: Sequence[int], at_once: int) -> Iterator[Tensor]:
    """All assignments in pieces `[M, k]`, lexical in this order of the concepts."""
    for begin in range(0, space.size, at_once):
        number = torch.arange(begin, min(begin + at_once, space.size))
        rows = torch.empty(len(number), space.k, dtype=torch.int64)
        for concept in reversed(order):
            rows[:, concept] = number % space.sizes[concept]
            number = number // space.sizes[concept]
        yield rows
