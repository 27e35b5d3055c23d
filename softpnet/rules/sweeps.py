"""Sweeps: whatever is asked of a compiled rule is one batched pass over its layers.

They compute in double precision where the device has it. A node from which the example's label cannot be reached has
the value NOTHING in place of -inf, since the difference of two -inf is NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

NOTHING = -1e30
"""The logarithm of no probability at all."""
LEAST = -1e27
"""No value's log p counts as less than this, and whatever is below a tenth of it has no probability."""


class Layers(NamedTuple):
    """A rule, unrolled for the labels of a batch. An assignment begins at node 0 of the first layer, and each concept's
    value leads it to a node of the next layer."""

    order: Sequence[int]  # the concept that each layer reads
    edges: Sequence[Tensor]  # per layer [W, h_i], or [W, h_i, B] where the label decides: nodes of the next layer
    accepted: Tensor  # [W, B]: which nodes after the last layer have the example's label


def posterior(layers: Layers, log_p: Tensor, gamma: float = 1.0) -> tuple[Tensor, Tensor]:
    """log P(y|x) `[B]`, and the marginals of p(c|x, y) over all of S(y) `[B, k, h]`; log p is `[B, k, h]`.

    p(c|x) is taken to the power of 1 / gamma. An example whose label has no probability has -inf, and marginals of
    zero.
    """
    scaled, offset = _prepared(log_p, gamma)
    total = passing = offset
    for layer, (concept, edges, here, after) in enumerate(_passes(layers, scaled, _log_sum)):
        if layer == 0:
            total = here[0]  # [B]
            passing = torch.zeros_like(here)  # [W, B], the probability that the assignment passes each node
            passing[0] = total > LEAST / 10
        flow = _along(edges, after, scaled[concept]).sub_(here[:, None]).exp_().mul_(passing[:, None])  # [W, h_i, B]
        passing = _arriving(edges, flow, len(after))
        scaled[concept] = 0  # no later layer reads this concept, so that its marginals take its place
        scaled[concept, : edges.shape[1]] = flow.sum(0)
        del flow  # or it would be held while the next layer's is made
    marginals = torch.empty_like(log_p).copy_(scaled.permute(2, 0, 1))
    return torch.where(total > LEAST / 10, total + offset, -torch.inf), marginals


def best(layers: Layers, log_p: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` most probable assignments with the label, best first: rows `[B, K, k]`, and which exist `[B, K]`.

    Prefixes are extended layer by layer. What is added to each is the exact best that can follow, so keeping `count`
    of them loses none of the best.
    """
    scaled, _ = _prepared(log_p)
    bound = score = scaled.new_zeros(len(log_p), 1)  # [B, K] of each kept prefix: the best it can become, and it alone
    node = torch.zeros_like(bound, dtype=torch.int64)
    chosen = []
    for concept, edges, _, after in _passes(layers, scaled, torch.amax):
        size = edges.shape[1]
        child = _children(edges, node)  # [B, K, h_i]
        longer = (score[:, :, None] + scaled[concept, :size].T[:, None]).flatten(1)  # [B, K * h_i]
        possible = longer + after.T.gather(1, child.flatten(1))
        bound, place = possible.topk(min(count, possible.shape[1]), dim=1)
        node, score = child.flatten(1).gather(1, place), longer.gather(1, place)
        chosen.append((concept, size, place))
    rows = torch.zeros(*bound.shape, log_p.shape[1], dtype=torch.int64, device=log_p.device)
    at = torch.arange(bound.shape[1], device=log_p.device).expand(bound.shape)
    for concept, size, place in reversed(chosen):
        here = place.gather(1, at)  # parent * h_i + value
        rows[:, :, concept], at = here % size, here // size
    return rows, bound > LEAST / 10


def sample(layers: Layers, log_p: Tensor, which: Tensor, generator: Generator) -> Tensor:
    """Rows `[M, k]` drawn from p(c|x, y) of the examples `which` `[M]`; uniform over S(y) where log p is zero.

    Every example must have an assignment with its label.
    """
    scaled, _ = _prepared(log_p)
    node = torch.zeros_like(which)
    rows = torch.zeros(len(which), log_p.shape[1], dtype=torch.int64, device=log_p.device)
    for concept, edges, _, after in _passes(layers, scaled, _log_sum):
        child = edges[node] if edges.dim() == 2 else edges[node, :, which]  # [M, h_i]
        weight = (after[child, which[:, None]] + scaled[concept, : edges.shape[1], which].T).softmax(-1)
        # As torch.multinomial does it, but with the generator's numbers on whichever device: one exponential race.
        race = torch.empty(weight.shape, dtype=weight.dtype).exponential_(generator=generator).to(weight.device)
        value = (weight / race).argmax(1)
        rows[:, concept] = value
        node = child.gather(1, value[:, None]).squeeze(1)
    return rows


def count(layers: Layers, size: int) -> list[int]:
    """How many assignments have each example's label; `size` is that of the space, since 64 bits may not hold it."""
    number = np.int64 if size < 2**63 else object
    values = layers.accepted.cpu().numpy().astype(number)  # [W, B]
    for edges in reversed(layers.edges):
        at = edges.cpu().numpy()
        along = values[at] if at.ndim == 2 else np.take_along_axis(values[:, None], at, axis=0)  # [W, h_i, B]
        values = along.sum(1)
    return [int(each) for each in values[0]]


def count_ways(edges: Sequence[Tensor], leaves: int, size: int) -> list[int]:
    """How many assignments lead to each leaf, in one sweep forwards over edges that all labels share."""
    ways = np.ones(1, dtype=np.int64 if size < 2**63 else object)
    widths = [*(len(layer) for layer in edges[1:]), leaves]
    for layer, width in zip(edges, widths, strict=True):
        after = np.zeros(width, dtype=ways.dtype)
        np.add.at(after, layer.cpu().numpy(), ways[:, None])
        ways = after
    return [int(each) for each in ways]


def reachable(layers: Layers) -> Tensor:
    """Whether any assignment has each example's label, `[B]`."""
    values = layers.accepted  # [W, B]
    for edges in reversed(layers.edges):
        flat = edges.flatten(0, 1)
        found = values.index_select(0, flat) if edges.dim() == 2 else values.gather(0, flat)
        values = found.unflatten(0, edges.shape[:2]).any(1)
    return values[0]


def _prepared(log_p: Tensor, gamma: float = 1.0) -> tuple[Tensor, Tensor]:
    """log p over gamma in double precision `[k, h, B]`, each concept's largest taken off: then small differences are
    not lost. And the sum of what was taken off `[B]`."""
    wide = torch.float32 if log_p.device.type == "mps" else torch.float64
    scaled = torch.empty(*log_p.shape[1:], len(log_p), dtype=wide, device=log_p.device)
    scaled.copy_(log_p.permute(1, 2, 0)).div_(gamma)  # what a layer reads of all examples lies side by side
    peak = scaled.amax(1, keepdim=True).clamp_min_(LEAST)  # [k, 1, B]
    return scaled.sub_(peak).clamp_min_(LEAST), peak.sum((0, 1))


def _passes(
    layers: Layers, log_p: Tensor, together: Callable[[Tensor, int], Tensor]
) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
    """First backwards: what each node's edges are together. Then forwards, per layer: its concept, its edges, the
    values of its nodes `[W, B]` and of the next layer's. log p is `[k, h, B]`.

    Many layers are cut into pieces. Only the values behind each piece are kept, and those inside it come anew.
    """

    def values(i: int, after: Tensor) -> Tensor:
        """Of a layer's nodes `[W, B]`, from those of the next."""
        return together(_along(layers.edges[i], after, log_p[layers.order[i]]), 1)

    ends = _pieces(layers.edges)
    after = torch.zeros_like(layers.accepted, dtype=log_p.dtype).masked_fill_(~layers.accepted, NOTHING)
    behind = [after]
    for i in reversed(range(ends[0], len(layers.edges))):
        after = values(i, after)
        if i in ends:
            behind.append(after)
    for begin, end in itertools.pairwise([0, *ends]):
        known = [behind.pop()]
        for i in reversed(range(begin, end)):
            known.append(values(i, known[-1]))
        for i in range(begin, end):
            here = known.pop()
            yield layers.order[i], layers.edges[i], here, known[-1]


def _pieces(edges: Sequence[Tensor]) -> list[int]:
    """Where each piece ends: one layer, then two, then three, and so on, since fewer pieces are left to be kept. So
    about sqrt(2 k) of k layers are held at a time; all of them, where that is little beside the largest one's edges."""
    k = len(edges)
    if sum(map(len, edges)) <= 2 * max(layer.shape[0] * layer.shape[1] for layer in edges):
        return [k]
    triangular = itertools.accumulate(itertools.count(1))  # 1, 3, 6, 10, ...
    return [*itertools.takewhile(lambda end: end < k, triangular), k]


def _log_sum(along: Tensor, dim: int) -> Tensor:
    """logsumexp in place: half the memory."""
    peak = along.amax(dim)
    return along.sub_(peak.unsqueeze(dim)).exp_().sum(dim).log_().add_(peak)


def _along(edges: Tensor, after: Tensor, log_p: Tensor) -> Tensor:
    """Each edge's log p `[h, B]` and the value of the node it leads to `[W', B]`: `[W, h_i, B]`."""
    flat = edges.flatten(0, 1)
    found = after.index_select(0, flat) if edges.dim() == 2 else after.gather(0, flat)
    return found.unflatten(0, edges.shape[:2]).add_(log_p[: edges.shape[1]])


def _arriving(edges: Tensor, flow: Tensor, width: int) -> Tensor:
    """What flows along the edges `[W, h_i, B]`, summed up at the nodes that they lead to `[W', B]`."""
    sums, flat = flow.new_zeros(width, flow.shape[2]), edges.flatten(0, 1)
    if edges.dim() == 2:
        return sums.index_add_(0, flat, flow.flatten(0, 1))
    return sums.scatter_add_(0, flat, flow.flatten(0, 1))


def _children(edges: Tensor, node: Tensor) -> Tensor:
    """Where each value leads from the nodes `[B, K]`: `[B, K, h_i]`."""
    if edges.dim() == 2:
        return edges[node]
    return edges[node, :, torch.arange(len(node), device=node.device)[:, None]]
