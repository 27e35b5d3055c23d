"""What many draws say about a move: where it leads, whether the way back is as likely, what it connects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.task.concepts import ConceptSpace
from softpnet.task.task import Move

AT_ONCE = 50_000
"""Rows that are moved in one call."""

UNLIKELY = math.log(1e-9)
"""A symmetric move is taken for asymmetric with at most about this probability (its logarithm)."""


def find_rows(space: ConceptSpace, known: Tensor, rows: Tensor) -> Tensor:
    """Index in `known` `[S, k]`, distinct, of each row `[..., k]`, -1 where it is not there: `[...]`."""
    keys, place = space.keys(known).sort()
    wanted = space.keys(rows)
    at = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    return torch.where(keys[at] == wanted, place[at], -1)


def proposals(
    move: Move, space: ConceptSpace, states: Tensor, draws: int, generator: Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Move each state `[S, k]` so many times: index of the state before and after, `[D, S]`, in parts; -1 elsewhere."""
    before = torch.arange(len(states))
    per_call = max(1, AT_ONCE // len(states))
    for done in range(0, draws, per_call):
        times = min(per_call, draws - done)
        after = move(states.expand(times, -1, -1).clone(), generator)  # [D, S, k]
        yield before.expand(times, -1), find_rows(space, states, after)


def count_proposals(move: Move, space: ConceptSpace, states: Tensor, draws: int, generator: Generator) -> Tensor:
    """How often each state was proposed from each: `[S, S]`. Proposals of other rows are not counted."""
    size = len(states)
    counts = torch.zeros(size * size, dtype=torch.int64)
    for before, after in proposals(move, space, states, draws, generator):
        inside = after >= 0
        counts += (before[inside] * size + after[inside]).bincount(minlength=size * size)
    return counts.view(size, size)


class Symmetry(NamedTuple):
    """How the ways there and back compare over all pairs of states."""

    pairs: int  # of different states that were proposed from each other, at least once one way
    telling: bool  # whether there were enough proposals to notice a move that goes one way only
    symmetric: bool
    worst: tuple[int, int]  # the pair that differs most


def compare_ways(counts: Tensor) -> Symmetry:
    """Is C_ij, out of equally many draws from i and from j, as large as C_ji? Counts `[S, S]`.

    If the move is symmetric and T = C_ij + C_ji is given, then C_ij - C_ji has mean 0 and, by Hoeffding, z^2 =
    (C_ij - C_ji)^2 / T exceeds 2x with a probability of at most 2 exp(-x). The largest z^2 is held against that, for
    one pair that is far off; the sum over all pairs against the bound of Laurent and Massart (2000) for sums of
    squares, Q <= m + 2 sqrt(m x) + 2x, for many that are slightly off.
    """
    there, back = (counts.triu(1), counts.T.triu(1))
    total = (there + back).double()
    pairs = int((total > 0).sum())
    if pairs == 0:
        return Symmetry(0, False, True, (0, 0))
    squares = (there - back).double().square() / total.clamp_min(1)  # z^2 of each pair
    one_limit = 2 * (math.log(2 * pairs) - UNLIKELY)
    sum_limit = pairs + 2 * math.sqrt(-pairs * UNLIKELY) - 2 * UNLIKELY
    # If every way back were closed, z^2 would be T.
    telling = bool(total.max() > one_limit or total.sum() > sum_limit)
    symmetric = bool(squares.max() <= one_limit and squares.sum() <= sum_limit)
    i, j = divmod(int(squares.argmax()), len(counts))
    return Symmetry(pairs, telling, symmetric, (i, j))


def connected_parts(
    move: Move, space: ConceptSpace, states: Tensor, wanted: int, draws: int, generator: Generator
) -> Tensor:
    """A number for each state `[S]`, equal where the move connects two states, in either direction.

    Draws until no more than the wanted number of parts is left, at most so many times from each state.
    """
    part = torch.arange(len(states))
    for before, after in proposals(move, space, states, draws, generator):
        inside = after >= 0
        part = _join(part, before[inside], after[inside])
        if len(part.unique()) <= wanted:
            break
    return part


def _join(part: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Give linked states the smaller of their numbers, and do so until nothing changes."""
    while True:
        least = torch.minimum(part[one], part[other])
        # A part's number is that of its first state, so that the whole part follows when this one changes.
        joined = part.scatter_reduce(0, part[one], least, "amin").scatter_reduce(0, part[other], least, "amin")
        joined = joined[joined]
        if torch.equal(joined, part):
            return part
        part = joined
