"""k-best: the most probable feasible assignments, exactly, by a sweep over the compiled rule; without one, those that
f_K leaves of the most probable ones of all, which come exactly too, since p(c|x) factorises."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from softpnet.errors import user_code
from softpnet.rules.compile import check_known, compilation, is_total, known_labels
from softpnet.rules.labels import sampled_labels, satisfied, unique_labels, warn_of_unseen
from softpnet.targets.source import CandidateSource, Info, Query, State
from softpnet.targets.weights import Candidates


class Source(CandidateSource):
    """The K most probable assignments with the example's label; no cache.

    Labels that no compiled rule knows have those among the T most probable assignments of all.
    """

    anywhere = True

    def start(self, labels: Tensor) -> State:
        known = known_labels(self.task, labels)
        if known.all() or is_total(self.task):
            check_known(self.task, labels)
        else:
            seen = unique_labels(torch.cat([sampled_labels(self.task), labels[known]]))[0]
            warn_of_unseen(self.task, seen, labels)
        return State()

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, Info]:
        known = known_labels(self.task, query.labels)  # [B]
        kept = self.settings.working_set
        rows = torch.zeros(len(known), kept, self.task.space.k, dtype=torch.int64, device=known.device)
        valid = torch.zeros(len(known), kept, dtype=torch.bool, device=known.device)
        for chosen, find in ((known, self._from_rule), (~known, self._from_pool)):
            if chosen.any():
                found = find(query.part(chosen))
                width = found.rows.shape[1]
                rows[chosen, :width], valid[chosen, :width] = found.rows, found.valid
        return Candidates(rows, valid), {"found": float(valid.any(1).float().mean())}

    def _from_rule(self, query: Query) -> Candidates:
        rule = compilation(self.task).rule
        assert rule is not None
        return Candidates(*rule.best(query.log_p, query.labels, self.settings.working_set))

    def _from_pool(self, query: Query) -> Candidates:
        rows = most_probable(query.log_p, self.task.space.sizes, self.settings.kbest_pool)  # [B, T, k]
        with user_code(f"the rule of task {self.task.name!r} cannot be asked on {rows.device}, where the network is"):
            fits = satisfied(self.task, rows, query.labels)  # [B, T]
        # The pool is in order, so the first K survivors are the best K: the j-th stands where the count reaches j.
        count = fits.int().cumsum(1, dtype=torch.int32)  # [B, T]
        kept = min(self.settings.working_set, rows.shape[1])
        wanted = torch.arange(1, kept + 1, dtype=torch.int32, device=rows.device)  # [K]
        place = torch.searchsorted(count, wanted.expand(len(rows), -1).contiguous())  # [B, K], T where there is none
        valid = place < rows.shape[1]
        place = place.clamp_max(rows.shape[1] - 1)
        chosen = rows.gather(1, place[..., None].expand(-1, -1, rows.shape[2]))
        return Candidates(chosen, valid)

    def remedy(self) -> str:
        return (
            f"raise kbest_pool, the number of most probable assignments that are tried, which is "
            f"{self.settings.kbest_pool:,}, or write the rule as a Machine, or give the task rows"
        )

    def remarks(self) -> list[str]:
        kept, pool = self.settings.working_set, self.settings.kbest_pool
        said = f"working_set is {kept}, but k-best finds at most kbest_pool = {pool} candidates; raise kbest_pool"
        return [said] if kept > pool and not is_total(self.task) else []


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
