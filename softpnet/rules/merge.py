"""From layers of any kind to the smallest diagram: equal nodes are merged, and all are numbered in one way.

Two doors that lead to the same rule so give the same diagram, node for node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from softpnet.rules.diagram import Diagram, NotCompiled
from softpnet.rules.labels import unique_labels
from softpnet.task.concepts import ConceptSpace, row_keys

BUDGET = 200_000
"""A diagram with more nodes is not worth having: a sweep would take seconds."""

SIFTED_NODES, SIFTED_CONCEPTS = 2_000, 40
"""A better order is looked for where it costs next to nothing."""


class TooManyNodes(NotCompiled):
    """A diagram that outgrows its budget."""

    def __init__(self, widths: Sequence[int]) -> None:
        shown = " ".join(f"{width:,}" for width in widths)
        super().__init__(
            f"the rule has more than {BUDGET:,} nodes (nodes per layer so far: {shown}); try another order of the "
            "concepts, a Machine with fewer states, or targets='kbest' or 'solver'"
        )


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
        check_budget([len(layer) for layer in edges])
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
    known = torch.empty(len(rows), *labels.shape[1:], dtype=labels.dtype).index_copy(0, prefix, labels)
    every = known if other is None else torch.cat([known, other[None]])
    edges = []
    for concept, count, following, (before, value) in zip(order, counts[:-1], counts[1:], steps, strict=True):
        layer = torch.full((count + 1, space.sizes[concept]), following)
        layer[before, value] = torch.arange(following)
        edges.append(layer)
    diagram = merged_diagram(space, order, edges, every)
    check_budget(diagram.widths)
    return diagram


def check_budget(widths: Sequence[int]) -> None:
    """Raise where these layers have too many nodes together."""
    if sum(widths) > BUDGET:
        raise TooManyNodes(widths)


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
