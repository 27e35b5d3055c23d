"""Automatic: per label the complete list of its rows where there is one, k-best otherwise; both are exact."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.rules.labels import find_labels
from softpnet.rules.rows import ENUMERABLE, Cache
from softpnet.targets import kbest
from softpnet.targets.source import CandidateSource, Info, Query, State
from softpnet.targets.weights import Candidates
from softpnet.task.settings import Settings
from softpnet.task.task import Task


class Source(CandidateSource):
    """The K most probable assignments with the example's label; nothing is remembered."""

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        super().__init__(task, settings, generator)
        self.kbest = kbest.Source(task, settings, generator)
        listed = task.rows is not None or task.space.size <= ENUMERABLE
        self.cache = Cache.of(task, generator) if listed else None

    def start(self, labels: Tensor) -> State:
        if self.cache is None:
            return self.kbest.start(labels)
        # All labels, so that an error names their own ids.
        return self.kbest.start(labels, self.cache.labels[self.cache.complete])

    def candidates(self, state: State, query: Query, generator: Generator) -> tuple[Candidates, Info]:
        if self.cache is None:
            return self.kbest.candidates(state, query, generator)
        label = find_labels(self.cache.labels, query.labels)  # [B], -1 where no row has it
        listed = (label >= 0) & self.cache.complete[label.clamp_min(0)]
        kept, k = self.settings.working_set, query.log_p.shape[1]
        rows = torch.zeros(len(label), kept, k, dtype=torch.int64)
        valid = torch.zeros(len(label), kept, dtype=torch.bool)
        info: Info = {}
        if listed.any():
            everything = int(self.cache.counts[label[listed]].max())
            found = self.cache.draw(label[listed], query.log_p[listed], everything, kept, generator)
            rows[listed], valid[listed] = found
        if not listed.all():
            others = ~listed
            part = query._replace(ids=query.ids[others], labels=query.labels[others], log_p=query.log_p[others])
            best, info = self.kbest.candidates(state, part, generator)
            width = best.rows.shape[1]
            rows[others, :width], valid[others, :width] = best.rows, best.valid
        return Candidates(rows, valid), info

    def remedy(self) -> str:
        return self.kbest.remedy()

    def remarks(self) -> list[str]:
        return self.kbest.remarks()
