"""A trie: listed rows become a diagram, in which rows that begin alike share nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from softpnet.rules.diagram import Diagram
from softpnet.rules.merge import check_budget, merged_diagram
from softpnet.task.concepts import ConceptSpace


def from_rows(space: ConceptSpace, rows: Tensor, labels: Tensor, order: Sequence[int], other: Tensor | None) -> Diagram:
    """The diagram of rows `[M, k]` with labels; all other assignments have the label `other`, or none known."""
    columns = [rows[:, concept] for concept in order]
    prefix = torch.zeros(len(rows), dtype=torch.int64)  # which distinct prefix each row begins with
    counts, steps = [1], []  # distinct prefixes per layer; per layer the prefix and value of each longer one
    for concept, column in zip(order, columns, strict=True):
        size = space.sizes[concept]
        longer, prefix = (prefix * size + column).unique(return_inverse=True)
        steps.append((longer // size, longer % size))
        counts.append(len(longer))
    # After the last layer a prefix is a row. Each layer has one more node, the last: where no row leads.
    known = labels.new_zeros(counts[-1], *labels.shape[1:]).index_copy(0, prefix, labels)  # rows may repeat
    every = known if other is None else torch.cat([known, other[None]])
    edges = []
    for concept, count, following, (before, value) in zip(order, counts[:-1], counts[1:], steps, strict=True):
        layer = torch.full((count + 1, space.sizes[concept]), following)
        layer[before, value] = torch.arange(following)
        edges.append(layer)
    diagram = merged_diagram(space, order, edges, every)
    check_budget(diagram.widths)
    return diagram
