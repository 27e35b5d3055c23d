"""Sifting: an order of the concepts in which a diagram has fewer nodes."""

from __future__ import annotations

from collections.abc import Iterator

from softpnet.rules.diagram import Diagram
from softpnet.rules.merge import merged_nodes, renumbered

SIFTED_NODES, SIFTED_CONCEPTS = 2_000, 40
"""A better order is looked for where it costs next to nothing."""


def sifted(diagram: Diagram) -> Diagram:
    """The same rule in an order with fewer nodes: each concept in turn goes to its best place; small ones only."""
    if diagram.nodes > SIFTED_NODES or diagram.space.k > SIFTED_CONCEPTS:
        return diagram
    for concept in sorted(diagram.order, key=lambda each: -diagram.widths[diagram.order.index(each)]):
        diagram = min(_tried_everywhere(diagram, concept), key=lambda each: each.nodes)
    return renumbered(diagram)


def _tried_everywhere(diagram: Diagram, concept: int) -> Iterator[Diagram]:
    """The diagram with one concept at every place; as it is first, so that ties leave it there."""
    yield diagram
    for step in (1, -1):
        moved, at = diagram, diagram.order.index(concept)
        while 0 <= at + step < len(moved.order):
            moved, at = swapped(moved, min(at, at + step)), at + step
            if moved.nodes > 2 * diagram.nodes + 100:
                break
            yield moved


def swapped(diagram: Diagram, layer: int) -> Diagram:
    """The same rule, with this layer and the next in each other's place. Other layers stay as they are."""
    order, edges = list(diagram.order), list(diagram.edges)
    through = edges[layer + 1][edges[layer]].transpose(1, 2)  # [W, h_(i+1), h_i], two layers on
    below, node = merged_nodes(through.flatten(0, 1).contiguous())
    edges[layer], edges[layer + 1] = node.view(through.shape[:2]), below
    order[layer], order[layer + 1] = order[layer + 1], order[layer]
    return Diagram(diagram.space, order, edges, diagram.labels)
