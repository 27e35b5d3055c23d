"""The candidate source that a run's settings name."""

from __future__ import annotations

from torch import Generator

from softpnet.rules.rows import ENUMERABLE, Cache
from softpnet.targets.auto import Listed, ListedOrKBest
from softpnet.targets.cache import CacheWalk
from softpnet.targets.kbest import KBest
from softpnet.targets.source import CandidateSource
from softpnet.task.settings import Settings
from softpnet.task.task import Task


def choose_source(task: Task, settings: Settings, generator: Generator) -> CandidateSource:
    """Cache and walk, k-best, or, per label, the complete list where there is one."""
    unlisted = task.rows is None and task.space.size > ENUMERABLE
    if settings.targets == "kbest" or (settings.targets == "auto" and unlisted):
        return KBest(task, settings)
    cache = Cache.of(task, generator)
    if settings.targets == "auto":
        return ListedOrKBest(Listed(cache, settings), KBest(task, settings))
    return CacheWalk(task, cache, settings)
