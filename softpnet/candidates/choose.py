"""The candidate source that a run's settings name."""

from __future__ import annotations

from torch import Generator

from softpnet.candidates.cache import ENUMERABLE, Cache
from softpnet.candidates.kbest import KBest
from softpnet.candidates.listed import Listed, ListedOrKBest
from softpnet.candidates.source import CandidateSource
from softpnet.candidates.walk import CacheWalk
from softpnet.settings import Settings
from softpnet.task import Task


def choose_source(task: Task, settings: Settings, generator: Generator) -> CandidateSource:
    """Cache and walk, k-best, or, per label, the complete list where there is one."""
    unlisted = task.rows is None and task.space.size > ENUMERABLE
    if settings.candidates == "kbest" or (settings.candidates == "auto" and unlisted):
        return KBest(task, settings)
    cache = Cache.of(task, generator)
    if settings.candidates == "auto":
        return ListedOrKBest(Listed(cache, settings), KBest(task, settings))
    return CacheWalk(task, cache, settings)
