"""Growth: time and memory of scoring and selection against cache rows, K, slots and T, with the fitted exponent."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import torch

from bench.timing import in_turns, threads
from softpnet.rules.rows import Cache
from softpnet.targets import kbest
from softpnet.targets.source import Query, State
from softpnet.task.concepts import ConceptSpace
from softpnet.task.settings import Settings
from softpnet.task.task import Rows, Task

EXAMPLES = 64


def parity(c: torch.Tensor) -> torch.Tensor:
    return c.sum(-1) % 2


def _draw(rows: int, kept: int, slots: int) -> Callable[[], object]:
    """One first draw of a batch from a cache."""
    generator = torch.Generator().manual_seed(0)
    values = max(4, math.ceil((4 * rows) ** (1 / slots)))  # so that there are enough different rows
    task = Task(ConceptSpace(slots=slots, values=values), parity)
    given = torch.randint(values, (2 * rows, slots), generator=generator)
    cache = Cache(task, Rows(given, complete=torch.zeros(0, dtype=torch.int64)), generator)
    log_p = torch.randn(EXAMPLES, slots, values, generator=generator).log_softmax(-1)
    ids = torch.ones(EXAMPLES, dtype=torch.int64)
    return lambda: cache.draw(ids, log_p, rows, kept, generator)


def _kbest(pool: int) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    task = Task(ConceptSpace(slots=18, values=3), parity)
    log_p = torch.randn(EXAMPLES, 18, 3, generator=generator).log_softmax(-1)
    source = kbest.Source(task, Settings(kbest_pool=pool, working_set=20), torch.Generator())
    query = Query(torch.arange(EXAMPLES), torch.arange(EXAMPLES) % 2, log_p, 0, 1.0)
    return lambda: source.candidates(State(), query, generator)


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that torch's allocations in a call hold together."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # or the profiler reports its own start and stop
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    held = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


Axes = dict[str, tuple[list[int], Callable[[int], Callable[[], object]]]]
"""By name: the sizes, and what is measured at a size."""

AXES: Axes = {
    "cache rows": ([1_000, 10_000, 100_000, 1_000_000], lambda n: _draw(n, 20, 18)),
    "candidates K": ([10, 30, 100, 300, 1_000], lambda n: _draw(20_000, n, 18)),
    "slots": ([2, 4, 8, 16, 40, 81], lambda n: _draw(20_000, 20, n)),
    "pool T": ([64, 128, 256, 512, 1_024, 2_048], _kbest),
}


def measure(count: int = 1, repeats: int = 3) -> list[dict]:
    with threads(count):
        return grown(AXES, count, repeats)


def grown(axes: Axes, count: int, repeats: int) -> list[dict]:
    """Time and memory along each axis."""
    result = []
    for axis, (sizes, make) in axes.items():
        made = {str(size): make(size) for size in sizes}
        seconds = in_turns(made, repeats, warm_up=1)
        times = [seconds[str(size)] for size in sizes]
        result.append(
            {
                "name": axis,
                "threads": count,
                "sizes": sizes,
                "seconds": times,
                "megabytes": [peak_bytes(run) / 1e6 for run in made.values()],
                "exponent": slope(sizes, times),
            }
        )
    return result


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Exponent of the power law that fits best: least squares in logarithms."""
    x, y = [math.log(s) for s in sizes], [math.log(s) for s in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
