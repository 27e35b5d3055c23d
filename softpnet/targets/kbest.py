"""k-best: p(c|x) factorises, so the most probable assignments come exactly, and f_K filters them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from softpnet.rules.labels import find_feasible, sampled_labels, unique_labels, warn_of_unseen
from softpnet.rules.rows import ENUMERABLE
from softpnet.targets.source import CandidateSource, Info, Query, State
from softpnet.targets.weights import Candidates


class Source(CandidateSource):
    """The K most probable assignments with the example's label among the T most probable of all; no cache."""

    def start(self, labels: Tensor, listed: Tensor | None = None) -> State:
        """As every source's; labels that are `listed` elsewhere are known to be feasible."""
        space = self.task.space
        if space.size <= ENUMERABLE:
            find_feasible(self.task, unique_labels(self.task.rule(space.all()))[0], labels, labels)
        else:
            seen = sampled_labels(self.task)
            seen = seen if listed is None else unique_labels(torch.cat([seen, listed]))[0]
            warn_of_unseen(self.task, seen, labels)
        return State()

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, Info]:
        rows = most_probable(query.log_p, self.task.space.sizes, self.settings.kbest_pool)  # [B, T, k]
        fits = self.task.satisfies(rows, query.labels)  # [B, T]
        # The pool is in order, so the first K survivors are the best K: the j-th stands where the count reaches j.
        count = fits.int().cumsum(1, dtype=torch.int32)  # [B, T]
        wanted = torch.arange(1, min(self.settings.working_set, rows.shape[1]) + 1, dtype=torch.int32)  # [K]
        place = torch.searchsorted(count, wanted.expand(len(rows), -1).contiguous())  # [B, K], T where there is none
        valid = place < rows.shape[1]
        place = place.clamp_max(rows.shape[1] - 1)
        chosen = rows.gather(1, place[..., None].expand(-1, -1, rows.shape[2]))
        return Candidates(chosen, valid), {"found": float(valid.any(1).float().mean())}

    def remedy(self) -> str:
        return (
            f"raise kbest_pool, the number of most probable assignments that are tried, which is "
            f"{self.settings.kbest_pool:,}, or give the task rows and targets='auto' or 'cache'"
        )

    def remarks(self) -> list[str]:
        kept, pool = self.settings.working_set, self.settings.kbest_pool
        said = f"working_set is {kept}, but k-best finds at most kbest_pool = {pool} candidates; raise kbest_pool"
        return [said] if kept > pool else []


def most_probable(log_p: Tensor, sizes: Sequence[int], pool: int) -> Tensor:
    """The T = min(pool, size of the space) most probable assignments of each example, best first.

    log p `[B, k, h]`, number of values of each concept -> rows `[B, T, k]`. Concepts are merged one after the other:
    the best T prefixes of i + 1 concepts extend the best T prefixes of i.
    """
    score = log_p.new_zeros(len(log_p), 1)
    chosen = []  # per concept: which extension of a shorter prefix each prefix is, [B, T_i]
    for i, values in enumerate(sizes):
        extended = (score[:, :, None] + log_p[:, i, None, :values]).flatten(1)  # [B, T * h_i]
        last = i + 1 == len(sizes)
        score, place = extended.topk(min(pool, extended.shape[1]), dim=1, sorted=last)
        chosen.append(place)
    # Follow the prefixes back from the longest: place = parent * h_i + value.
    rows, at = [], torch.arange(score.shape[1], device=log_p.device).expand(score.shape)  # [B, T]
    for values, place in zip(reversed(sizes), reversed(chosen), strict=True):
        here = place.gather(1, at)
        rows.append(here % values)
        at = here // values
    return torch.stack(rows[::-1], dim=2)
