"""From layers of any kind to the smallest diagram: equal nodes are merged, and all are numbered in one way.

Two doors that lead to the same rule so give the same diagram, node for node.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from softpnet.rules.diagram import Diagram, NotCompiled
from softpnet.rules.labels import unique_labels
from softpnet.task.concepts import ConceptSpace, row_keys

BUDGET = 200_000
"""A diagram with more nodes is not worth having: a sweep would take seconds."""


class TooManyNodes(NotCompiled):
    """A diagram that outgrows its budget."""

    def __init__(self, widths: Sequence[int]) -> None:
        shown = " ".join(f"{width:,}" for width in widths)
        super().__init__(
            f"the rule has more than {BUDGET:,} nodes (nodes per layer so far: {shown}); try another order of the "
            "concepts, a Machine with fewer states, or targets='kbest' or 'solver'"
        )


def check_budget(widths: Sequence[int]) -> None:
    """Raise where these layers have too many nodes together."""
    if sum(widths) > BUDGET:
        raise TooManyNodes(widths)


def merged_diagram(space: ConceptSpace, order: Sequence[int], edges: Sequence[Tensor], labels: Tensor) -> Diagram:
    """The smallest diagram of layers `[W, h_i]`, whose last ones lead to these labels, in any order and repeated.

    The last edges may lead to `len(labels)`, which stands for an assignment of no known label.
    """
    distinct, leaf = unique_labels(labels)
    node = torch.nn.functional.pad(leaf, (0, 1), value=len(distinct))  # [W], what each node of the next layer becomes
    found: list[Tensor] = []
    for layer in reversed([edges[0][:1], *edges[1:]]):  # every assignment begins at the first node
        merged, node = merged_nodes(node[layer])
        found.append(merged)
    return renumbered(Diagram(space, order, found[::-1], distinct))


def merged_nodes(edges: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct ones of nodes `[W, h_i]`, and which of them each is `[W]`."""
    keys = row_keys(edges, [int(edges.max()) + 1] * edges.shape[1])
    _, inverse = keys.unique(return_inverse=True)
    one_of = torch.zeros(int(inverse.max()) + 1, dtype=torch.int64).scatter(0, inverse, torch.arange(len(edges)))
    if not torch.equal(edges[one_of][inverse], edges):  # two keys of different nodes are equal: next to impossible
        return edges.unique(dim=0, return_inverse=True)
    return edges[one_of], inverse


def renumbered(diagram: Diagram) -> Diagram:
    """Without what cannot be reached; nodes in the order in which the layer before leads to them, labels sorted."""
    edges: list[Tensor] = []
    here = torch.zeros(1, dtype=torch.int64)  # old numbers of this layer's nodes, in their new order
    for layer in diagram.edges:
        mine = layer[here]  # [W, h_i]
        here, numbers = mine.flatten().unique(return_inverse=True)
        if len(edges) + 1 < len(diagram.edges):
            first = torch.full((len(here),), numbers.numel()).scatter_reduce(
                0, numbers, torch.arange(numbers.numel()), "amin"
            )
            by_appearance = first.argsort()
            here, numbers = here[by_appearance], by_appearance.argsort()[numbers]
        edges.append(numbers.view(mine.shape))
    return Diagram(diagram.space, diagram.order, edges, diagram.labels[here[here < len(diagram.labels)]])
