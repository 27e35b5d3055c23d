"""Diagram: a rule compiled into layers of nodes. A node has an edge per value of one concept, the leaves are labels.

Compiled once, a rule answers every question exactly and for a whole batch: how many assignments have a label,
log P(y|x) with gradient, the soft target over all of S(y), the best assignments, uniform samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from softpnet.errors import InputError, TaskError
from softpnet.rules import sweeps
from softpnet.rules.labels import LabelIndex, unique_labels, unknown_entries
from softpnet.rules.sweeps import Layers
from softpnet.task.concepts import ConceptSpace
from softpnet.task.integers import any_entry


class NotCompiled(TaskError):
    """A sound rule that has no diagram: too large, or not to be found."""


class CompiledRule(ABC):
    """A rule that can be unrolled for any labels, and so answers whatever is asked of it. Labels are `[B]` or `[B, m]`.

    Attributes:
        space: the concepts that it is about.
        order: the concept that each layer reads.
    """

    space: ConceptSpace
    order: tuple[int, ...]
    at_once = 1024
    """So many labels are looked at in one sweep."""

    @abstractmethod
    def layers(self, labels: Tensor) -> Layers:
        """The rule, unrolled for these labels, on their device."""

    @abstractmethod
    def contains(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Whether each assignment `[..., k]` has its label, `[...]` or `[..., m]`: `[...]`."""

    @property
    def is_total(self) -> bool:
        """Whether every assignment has a known label."""
        return True

    def knows(self, labels: Tensor) -> Tensor:
        """Which labels it can be asked about, `[B]`: those that any assignment has."""
        parts = [sweeps.reachable(self.layers(part)) for part in labels.split(self.at_once)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.bool, device=labels.device)

    def log_prob(self, log_p: Tensor, labels: Tensor) -> Tensor:
        """log P(y|x), the sum of p(c|x) over S(y), with gradient: log p `[B, k, h]` -> `[B]`; -inf if S(y) is empty."""
        return _LogProb.apply(log_p, self.layers(labels.to(log_p.device)))

    @torch.no_grad()
    def marginals(self, log_p: Tensor, labels: Tensor, gamma: float = 1.0) -> Tensor:
        """The soft target over all of S(y), `[B, k, h]`: marginals of p(c|x)^(1/gamma).

        gamma = 0 is the limit, the best assignment. An example without a feasible assignment has zeros.
        """
        if gamma == 0:
            rows, exists = self.best(log_p, labels, 1)
            return torch.nn.functional.one_hot(rows[:, 0], log_p.shape[2]).to(log_p) * exists[:, :, None]
        return sweeps.posterior(self.layers(labels.to(log_p.device)), log_p, gamma)[1]

    @torch.no_grad()
    def best(self, log_p: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The `count` most probable assignments with the label, best first: rows `[B, K, k]`, which exist `[B, K]`.

        K is smaller than `count` where the whole space is.
        """
        return sweeps.best(self.layers(labels.to(log_p.device)), log_p, count)

    @torch.no_grad()
    def sample(self, labels: Tensor, generator: Generator, log_p: Tensor | None = None) -> Tensor:
        """An assignment of each label, uniform over S(y), or drawn from p(c|x, y) of log p `[B, k, h]`: `[B, k]`."""
        if log_p is not None:
            return sweeps.sample(self.layers(labels), log_p, torch.arange(len(labels), device=labels.device), generator)
        if not self.knows(labels).all():
            raise InputError(f"no assignment has label {labels[~self.knows(labels)][0].tolist()}, so none can be drawn")
        distinct, which = unique_labels(labels)
        uniform = torch.zeros(len(distinct), self.space.k, self.space.h)
        return sweeps.sample(self.layers(distinct), uniform, which, generator)

    def count(self, labels: Tensor) -> list[int]:
        """How many assignments have each label."""
        parts = [sweeps.count(self.layers(part), self.space.size) for part in labels.split(self.at_once)]
        return [count for part in parts for count in part]


class Diagram(CompiledRule):
    """Nodes that every label shares.

    Attributes:
        edges: per layer `[W, h_i]`, the next layer's node that each value leads to.
        labels: of the leaves, `[L]` or `[L, m]`, sorted. An edge to leaf L is to an assignment of no known label.
    """

    def __init__(self, space: ConceptSpace, order: Sequence[int], edges: Sequence[Tensor], labels: Tensor) -> None:
        self.space, self.order, self.edges, self.labels = space, tuple(order), list(edges), labels
        self._there: dict[torch.device, Diagram] = {}

    def on(self, device: torch.device) -> Diagram:
        """The same on that device, where its tables stay from then on."""
        if device == self.labels.device:
            return self
        if device not in self._there:
            edges = [edges.to(device) for edges in self.edges]
            self._there[device] = Diagram(self.space, self.order, edges, self.labels.to(device))
        return self._there[device]

    @cached_property
    def index(self) -> LabelIndex:
        """Where each label stands among the leaves."""
        return LabelIndex(self.labels)

    @property
    def widths(self) -> list[int]:
        """Nodes of each layer."""
        return [len(edges) for edges in self.edges]

    @property
    def nodes(self) -> int:
        return sum(self.widths)

    @property
    def is_total(self) -> bool:
        return self._is_total

    @cached_property
    def _is_total(self) -> bool:
        return int(self.edges[-1].max()) < len(self.labels)

    def unknown(self, labels: Tensor) -> Tensor:
        """Which labels `[B]` or `[B, m]` have entries that nobody knows, `[B]`: they stand for several leaves."""
        return any_entry(unknown_entries(self.labels, labels))

    def knows(self, labels: Tensor) -> Tensor:
        # Where some assignments have no known label, they might have one with unknown entries too.
        index = self.on(labels.device).index
        return index.has(labels) if self.is_total else index.find(labels) >= 0

    def layers(self, labels: Tensor) -> Layers:
        here = self.on(labels.device)
        accepted = torch.nn.functional.pad(here.index.matches(labels), (0, 0, 0, 1))  # [L + 1, B]
        return Layers(self.order, here.edges, accepted)

    def count(self, labels: Tensor) -> list[int]:
        if self.unknown(labels).any():
            return super().count(labels)
        counts = [*sweeps.count_ways(self.edges, len(self.labels) + 1, self.space.size), 0]
        return [counts[leaf] for leaf in self.index.find(labels).tolist()]  # the last where it has none

    def leaf(self, rows: Tensor) -> Tensor:
        """The leaf of each assignment `[..., k]`: the place of its label among the labels, `[...]`."""
        node = torch.zeros(rows.shape[:-1], dtype=torch.int64, device=rows.device)
        for concept, edges in zip(self.order, self.on(rows.device).edges, strict=True):
            node = edges[node, rows[..., concept]]
        return node

    def contains(self, rows: Tensor, labels: Tensor) -> Tensor:
        here, asked = self.on(rows.device), labels.to(rows.device).reshape(-1, *self.labels.shape[1:])
        leaf, vague = self.leaf(rows), here.unknown(asked).view(rows.shape[:-1])
        same = leaf == here.index.find(asked).view(rows.shape[:-1])
        if labels.dim() > rows.dim() - 1 and vague.any():
            own = torch.cat([here.labels, here.labels[:1]])[leaf]  # [..., m]; the last is no label's
            free = unknown_entries(here.labels, asked).view(own.shape)
            fits = ((own == asked.view(own.shape)) | free).all(-1) & (leaf < len(self.labels))
            same = torch.where(vague, fits, same)
        return same

    def same(self, other: Diagram) -> bool:
        """Whether they are the same, node for node."""
        return (
            self.order == other.order
            and torch.equal(self.labels, other.labels)
            and len(self.edges) == len(other.edges)
            and all(torch.equal(mine, theirs) for mine, theirs in zip(self.edges, other.edges, strict=True))
        )


class _LogProb(torch.autograd.Function):
    """The gradient of log P(y|x) is the marginals of p(c|x, y), which the same sweep gives."""

    @staticmethod
    def forward(ctx: Any, log_p: Tensor, layers: Layers) -> Tensor:
        total, marginals = sweeps.posterior(layers, log_p.detach())
        ctx.save_for_backward(marginals)
        return total.to(log_p.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (marginals,) = ctx.saved_tensors
        return grad[:, None, None] * marginals, None
