"""Clocks. Contenders are timed in turns, so that a busy moment of the machine hits all of them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch


def in_turns(contenders: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 2) -> dict[str, float]:
    """Median seconds of each contender over `repeats` rounds, after some rounds that do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(warm_up + repeats):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            if repeat >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def load() -> float:
    """Processes that want to run, over the last minute."""
    return os.getloadavg()[0]
