"""Complete lists: where the cache holds all of S(y), the K best of it are exact at every encounter."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.rules.labels import find_labels
from softpnet.rules.rows import Cache
from softpnet.targets.kbest import KBest
from softpnet.targets.source import Info, Query, State
from softpnet.targets.weights import Candidates
from softpnet.task.settings import Settings


class Listed:
    """The K most probable rows of a label whose list is complete."""

    def __init__(self, cache: Cache, settings: Settings) -> None:
        self.cache, self.settings = cache, settings

    def has(self, labels: Tensor) -> Tensor:
        """Which labels `[N]` have a complete list, `[N]`."""
        found = find_labels(self.cache.labels, labels)
        return (found >= 0) & self.cache.complete[found.clamp_min(0)]

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, State, Info]:
        label = find_labels(self.cache.labels, query.labels)
        everything = int(self.cache.counts[label].max())
        rows, valid = self.cache.draw(label, query.log_p, everything, self.settings.working_set, generator)
        return Candidates(rows, valid), state, {}


class ListedOrKBest:
    """Per label: the complete list where there is one, k-best otherwise. Both are exact, neither has a state."""

    def __init__(self, listed: Listed, kbest: KBest) -> None:
        self.listed, self.kbest = listed, kbest

    def start(self, labels: Tensor) -> State:
        cache = self.listed.cache
        return self.kbest.start(labels, cache.labels[cache.complete])  # all, so that an error names their own ids

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, State, Info]:
        has = self.listed.has(query.labels)
        kept, k = self.listed.settings.working_set, query.log_p.shape[1]
        rows = torch.zeros(len(has), kept, k, dtype=torch.int64)
        valid = torch.zeros(len(has), kept, dtype=torch.bool)
        info: Info = {}
        for source, served in ((self.listed, has), (self.kbest, ~has)):
            if served.any():
                part = query._replace(ids=query.ids[served], labels=query.labels[served], log_p=query.log_p[served])
                found, _, part_info = source.candidates(state, part, generator)
                width = found.rows.shape[1]
                rows[served, :width], valid[served, :width] = found.rows, found.valid
                info |= part_info
        return Candidates(rows, valid), state, info
