"""log P(y|x), the sum of p(c|x) over S(y), exact and with gradient (Xu et al., A Semantic Loss Function, ICML 2018)."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError
from softpnet.rules.labels import find_feasible, find_labels, sampled_labels, unique_labels
from softpnet.rules.rows import Cache
from softpnet.rules.scoring import shared_scores
from softpnet.task.task import LabelLogProb, Rows, Task

SUMMABLE = 100_000
"""Spaces up to this size are summed assignment by assignment."""


def label_log_prob(task: Task, labels: Tensor, generator: Generator) -> LabelLogProb:
    """The task's own function; or a sum over every assignment of a small space, or over complete rows.

    One label without complete rows has what all others leave of 1. Raises where one of the labels `[N]` or `[N, m]`
    to train on can be had in none of these ways.
    """
    if task.label_log_prob is not None:
        return task.label_log_prob
    if task.space.size <= SUMMABLE:
        rows = task.space.all()
        cache = Cache(task, Rows(rows, complete=unique_labels(task.rule(rows))[0]), generator)
        find_feasible(task, cache.labels, labels, labels)
        return RowSum(cache)
    wanted = unique_labels(labels)[0]
    if task.rows is None:
        raise _no_sum(task, wanted)
    cache = Cache.of(task, generator)
    listed = cache.labels[cache.complete]
    known = unique_labels(torch.cat([cache.labels, wanted, sampled_labels(task)]))[0]
    lacking, others = (these[find_labels(listed, these) < 0] for these in (wanted, known))  # without complete rows
    if len(listed) == 0 or (len(lacking) > 0 and len(others) > 1):
        raise _no_sum(task, lacking)
    return RowSum(cache)


class RowSum:
    """Sums over the complete rows of a cache; any label without them has what all of them leave of 1."""

    def __init__(self, cache: Cache) -> None:
        kept = cache.complete.repeat_interleave(cache.counts)  # [M]
        self.rows, self.lines = cache.rows[kept].long(), cache.lines[kept]  # [M, k] each
        self.labels = cache.labels[cache.complete]
        self.label_of_row = torch.arange(len(self.labels)).repeat_interleave(cache.counts[cache.complete])  # [M]

    def __call__(self, log_p: Tensor, labels: Tensor) -> Tensor:
        """log p `[B, k, h]`, labels `[B]` or `[B, m]` -> log P(y|x) `[B]`."""
        device = log_p.device
        label = find_labels(self.labels, labels.cpu())  # [B]
        scores = shared_scores(log_p, self.lines.to(device))  # [M, B]
        result = log_p.new_zeros(len(log_p))
        listed, other = (label >= 0).nonzero().flatten(), (label < 0).nonzero().flatten()
        if len(listed):
            foreign = (self.label_of_row[:, None] != label[listed]).to(device)  # [M, b]
            result = result.index_put((listed.to(device),), _log_sum(scores[:, listed].masked_fill(foreign, -math.inf)))
        if len(other):
            left = log_complement(log_p[other], scores[:, other], self.rows.to(device))
            result = result.index_put((other.to(device),), left)
        return result


def log_complement(log_p: Tensor, scores: Tensor, rows: Tensor) -> Tensor:
    """log(1 - sum of the probabilities of distinct rows), `[B]`, without cancellation where one row has nearly all.

    log p `[B, k, h]`, the rows `[M, k]` and their scores `[M, B]`. What the best row leaves is a sum of positive terms,
    p_1 .. p_(i-1) (1 - p_i) over the concepts i, and 1 - p_i is the sum of the concept's other values; the other
    rows are then taken from it.
    """
    best = scores.argmax(0)  # [B]
    chosen = rows[best][..., None]  # [B, k, 1]
    own = log_p.gather(2, chosen).squeeze(2)  # [B, k]
    rest = _log_sum(log_p.scatter(2, chosen, -math.inf), dim=2)  # [B, k], log(1 - p_i)
    left_by_best = _log_sum(own.cumsum(1) - own + rest, dim=1)  # [B]
    others = _log_sum(scores.scatter(0, best[None], -math.inf))  # [B]
    share = others - left_by_best.clamp_min(torch.finfo(log_p.dtype).min)
    return left_by_best + log1mexp(share.clamp_max(-torch.finfo(log_p.dtype).eps))


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - exp(x)) for x < 0, accurate near 0 and far below it (Maechler 2012)."""
    near, far = x.clamp_min(-math.log(2)), x.clamp_max(-math.log(2))
    return torch.where(x > -math.log(2), (-torch.expm1(near)).log(), torch.log1p(-far.exp()))


def _log_sum(x: Tensor, dim: int = 0) -> Tensor:
    """logsumexp that gives -inf, and no gradient instead of NaN, where there is nothing to sum."""
    nothing = x.isneginf().all(dim)
    return x.masked_fill(nothing.unsqueeze(dim), 0.0).logsumexp(dim).masked_fill(nothing, -math.inf)


def _no_sum(task: Task, lacking: Tensor) -> TaskError:
    label = f"label {lacking[0].tolist()}" if len(lacking) else "a label"
    return TaskError(
        f"P(y|x) of {label} cannot be summed exactly: task {task.name!r} has {task.space.size:,} "
        f"assignments (at most {SUMMABLE:,} are enumerated) and no complete rows for this label, nor for all others; "
        "give the task such rows, or its own label_log_prob=..., or choose another method"
    )
