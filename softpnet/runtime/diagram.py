"""The rule's diagram in numpy: the label of an assignment, and the best assignment of a label, in one sweep each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NOTHING = -1e30
"""The logarithm of no probability at all; the difference of two -inf would be NaN."""
LEAST = -1e27
"""No value's log p counts as less, and whatever is below a tenth of it has no probability."""
UNKNOWN = -1
"""An entry of a label vector that nobody knows, unless -1 is one of that entry's own values; and an unknown label."""
LARGEST = 4_000_000
"""So many edges, times examples, are looked at together."""


class Diagram:
    """Layers of nodes. A node has an edge per value of one concept; the last edges lead to labels.

    Attributes:
        order: the concept that each layer reads.
        edges: per layer `[W, h_i]`, the next layer's node that each value leads to.
        labels: of the leaves, `[L]` or `[L, m]`. An edge to leaf L is to an assignment of no known label.
    """

    def __init__(self, order: Sequence[int], edges: Sequence[np.ndarray], labels: np.ndarray) -> None:
        self.order, self.edges, self.labels = tuple(order), list(edges), labels

    def check(self, sizes: Sequence[int]) -> None:
        """Raise ValueError unless every edge leads somewhere and the concepts are these."""
        widths = [*(len(layer) for layer in self.edges), len(self.labels) + 1]
        fits = sorted(self.order) == list(range(len(sizes))) and len(self.edges) == len(sizes) and widths[0] == 1
        fits = fits and self.labels.ndim in (1, 2) and self.labels.size > 0
        fits = fits and all(
            layer.shape[1:] == (sizes[concept],) and layer.size > 0 and 0 <= layer.min() and layer.max() < width
            for concept, layer, width in zip(self.order, self.edges, widths[1:], strict=True)
        )
        if not fits:
            raise ValueError("its rule is no diagram of its concepts")

    def label_of(self, rows: np.ndarray) -> np.ndarray:
        """The labels `[N]` or `[N, m]` of assignments `[N, k]`; -1 where it is not known."""
        node = np.zeros(len(rows), np.int64)
        for concept, edges in zip(self.order, self.edges, strict=True):
            node = edges[node, rows[:, concept]]
        unknown = np.full_like(self.labels[:1], UNKNOWN)
        return np.concatenate([self.labels, unknown])[node]

    def leaves(self, labels: np.ndarray) -> np.ndarray:
        """Which leaves each label `[B]` or `[B, m]` may be, where unknown entries may be anything: `[L + 1, B]`."""
        known, asked = (each.reshape(len(each), -1) for each in (self.labels, labels))  # [L, m], [B, m]
        fits = np.ones((len(known) + 1, len(asked)), bool)
        fits[-1] = False
        for own, entry in zip(known.T, asked.T, strict=True):
            free = (entry == UNKNOWN) & (self.labels.ndim == 2) & ~(own == UNKNOWN).any()
            fits[:-1] &= (own[:, None] == entry) | free
        return fits

    def best(self, log_p: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The most probable assignment with each label `[B, k]`, its log p `[B]`, and log P(y|x) `[B]`.

        Log p is `[B, k, h]`. Both logarithms are -inf where no assignment has the label.
        """
        widest = max([*(layer.size for layer in self.edges), len(self.labels) + 1])
        size = max(1, LARGEST // widest)
        pieces = [slice(begin, begin + size) for begin in range(0, len(log_p), size)]
        parts = [self._best(log_p[piece], labels[piece]) for piece in pieces]
        rows, most, total = (np.concatenate(each) for each in zip(*parts, strict=True))
        return rows, most, total

    def _best(self, log_p: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        finite = np.maximum(log_p.astype(np.float64), LEAST)
        most = np.where(self.leaves(labels), 0.0, NOTHING)  # [W, B], of the best way on from each node
        total = most  # and of all of them together
        chosen = []
        for concept, edges in zip(self.order[::-1], self.edges[::-1], strict=True):
            step = finite[:, concept, : edges.shape[1]].T  # [h_i, B]
            along = most[edges] + step  # [W, h_i, B]
            chosen.append(along.argmax(1).astype(np.int32))  # [W, B]
            most, total = along.max(1), np.logaddexp.reduce(total[edges] + step, axis=1)
        example, node = np.arange(len(log_p)), np.zeros(len(log_p), np.int64)
        rows = np.zeros(log_p.shape[:2], np.int64)
        for concept, edges, values in zip(self.order, self.edges, reversed(chosen), strict=True):
            rows[:, concept] = values[node, example]
            node = edges[node, rows[:, concept]]
        exists = most[0] > LEAST / 10
        return rows, np.where(exists, most[0], -np.inf), np.where(exists, total[0], -np.inf)
