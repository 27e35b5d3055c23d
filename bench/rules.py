"""Rules: what exact targets cost, how a sweep grows, and how long compiling takes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import torch

from bench.growth import Axes, grown, peak_bytes, slope
from bench.step import steps
from bench.timing import in_turns, threads
from softpnet import Machine, tasks
from softpnet.rules.compile import compilation
from softpnet.rules.diagram import Diagram
from softpnet.rules.table import from_table
from softpnet.rules.trie import from_rows
from softpnet.task.concepts import ConceptSpace

LENGTHS = (1, 3, 10, 30, 100)
"""Digits of the numbers that are added."""


def _sweep(batch: int = 64, layers: int = 16, nodes: int = 64, values: int = 4) -> Callable[[], object]:
    """The soft target of a batch, by a random diagram of this shape."""
    generator = torch.Generator().manual_seed(0)
    space = ConceptSpace(slots=layers, values=values)
    widths = [1, *[nodes] * (layers - 1), 2]
    edges = [torch.randint(after, (here, values), generator=generator) for here, after in itertools.pairwise(widths)]
    rule = Diagram(space, range(layers), edges, torch.tensor([0, 1]))
    log_p = torch.randn(batch, layers, values, generator=generator).log_softmax(-1)
    labels = torch.arange(batch) % 2
    return lambda: rule.marginals(log_p, labels)


AXES: Axes = {
    "sweep: batch": ([64, 128, 256, 512, 1024], lambda n: _sweep(batch=n)),
    "sweep: layers": ([32, 64, 128, 256], lambda n: _sweep(layers=n)),
    "sweep: nodes of a layer": ([32, 64, 128, 256, 512, 1024], lambda n: _sweep(nodes=n)),
    "sweep: values": ([2, 4, 8, 16, 32, 64], lambda n: _sweep(values=n)),
}


def _addition(length: int) -> Callable[[], object]:
    """The exact target of sixteen sums of two numbers."""
    order = [concept for place in reversed(range(length)) for concept in (place, length + place)]

    def step(states: torch.Tensor, concept: int, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        total = states + values
        return total if concept < length else torch.where(total % 10 == labels[:, concept - length], total // 10, -1)

    def rule(rows: torch.Tensor) -> torch.Tensor:
        carried, digits = torch.zeros_like(rows[..., 0]), []
        for place in reversed(range(length)):
            total = rows[..., place] + rows[..., length + place] + carried
            digits.append(total % 10)
            carried = total // 10
        return torch.stack(digits[::-1], -1)

    space = ConceptSpace(slots=2 * length, values=10)
    compiled = Machine(0, step, accept=lambda states, labels: states >= 0, rule=rule, order=order).compiled(space)
    generator = torch.Generator().manual_seed(0)
    log_p = torch.randn(16, space.k, 10, generator=generator).log_softmax(-1)
    labels = rule(torch.randint(10, (16, space.k), generator=generator))
    return lambda: compiled.marginals(log_p, labels)


def growth(count: int = 1, repeats: int = 5) -> list[dict]:
    with threads(count):
        return grown(AXES, count, repeats)


def measure(count: int = 1, repeats: int = 9) -> list[dict]:
    common = {"threads": count, "better": "lower"}
    with threads(count):
        kand = compilation(tasks.load("kand_logic")).rule
        assert isinstance(kand, Diagram)
        log_p = torch.randn(64, 18, 3, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
        labels = torch.arange(64) % 2
        training, _, _ = steps("kand_logic")
        for _ in range(4):
            next(training)
        seconds = in_turns({"exact": lambda: kand.marginals(log_p, labels), "step": training.__next__}, repeats)
        added = {str(length): _addition(length) for length in LENGTHS}
        each = in_turns(added, 3, warm_up=1)
    memory = _over_largest(peak_bytes(lambda: kand.marginals(log_p, labels)), 18 * 3, max(map(torch.numel, kand.edges)))
    deep = _over_largest(peak_bytes(_sweep(layers=200, values=10)), 200 * 10, 64 * 10)
    million, listed = _compiled()
    return [
        {
            "name": "exact target, batch 64 / Kand-Logic step",
            "ratio": seconds["exact"] / seconds["step"],
            "target": 0.025,
            "seconds": seconds["exact"],
            **common,
        },
        {"name": "memory of a sweep / largest layer, Kand-Logic", "ratio": memory, "target": 4.0, **common},
        {"name": "memory of a sweep / largest layer, 200 layers", "ratio": deep, "target": 4.0, **common},
        {"name": "table of 10^6 assignments compiled, s", "ratio": million, "target": 1.0, **common},
        {"name": "10^5 listed rows compiled, s", "ratio": listed, "target": 2.0, **common},
        {
            "name": "addition of 1 to 100 digits: exponent of the time",
            "ratio": slope(list(LENGTHS), [each[str(length)] for length in LENGTHS]),
            "target": 1.05,
            "seconds": each["100"] / 16,
            **common,
        },
    ]


def _over_largest(peak: int, inputs: int, edges: int, batch: int = 64) -> float:
    """Memory of a sweep beside its one copy of log p, in double precision, over that of its largest layer."""
    return (peak / 8 / batch - inputs) / edges


def _compiled() -> tuple[float, float]:
    """Seconds to compile a table of a million assignments, and 100,000 rows."""
    space = ConceptSpace(slots=6, values=10)
    began = time.perf_counter()
    from_table(space, lambda c: (c[..., 1:] >= c[..., :-1]).all(-1).long(), range(6))
    million = time.perf_counter() - began
    space, generator = ConceptSpace(slots=16, values=4), torch.Generator().manual_seed(0)
    rows = torch.randint(4, (100_000, 16), generator=generator).sort(1).values.unique(dim=0)
    more = torch.randint(4, (100_000 - len(rows), 16), generator=generator)
    more[:, 6:] = more[:, :1]  # so that there are not as many nodes as rows
    rows = torch.cat([rows, more])
    began = time.perf_counter()
    from_rows(space, rows, rows[:, 0] % 2, range(16), torch.tensor(2))
    return million, time.perf_counter() - began
