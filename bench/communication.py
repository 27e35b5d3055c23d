"""What processes that train together say to each other in a step: bytes, counted at the interface, and seconds.

`python -m bench.communication [--into docs/performance.md]` starts processes on this machine, which share a sum of as
many numbers as a network has weights. In a network namespace of its own nothing else is counted:
`unshare --net sh -c "ip link set lo up; python -m bench.communication"`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import Queue
from pathlib import Path
from typing import NamedTuple

import torch
import tyro
from torch import distributed, multiprocessing

from softpnet.networks.encoders import conv4
from softpnet.report.pages import write_into

MADE = "made by python -m bench.communication"
PROCESSES, WEIGHTS = (2, 4), (0, 1_000_000, 10_000_000)
"""0 stands for the weights of conv4."""


class Measured(NamedTuple):
    processes: int
    weights: int
    expected: float  # bytes that each process sends
    counted: float
    seconds: float


def ring_bytes(weights: int, processes: int) -> float:
    """Bytes that each process sends where W share the sum of single-precision numbers: 2 (W - 1) / W of them all."""
    return 2 * (processes - 1) / processes * 4 * weights


def sent() -> int:
    """Bytes that have left by the line of this machine to itself."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


def _share(
    rank: int, processes: int, weights: int, repeats: int, meeting: str, answer: Queue[tuple[float, float]]
) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=processes)
    gradient, took = torch.ones(weights), []
    distributed.all_reduce(gradient)
    distributed.barrier()
    before = sent()
    for _ in range(repeats):
        began = time.perf_counter()
        distributed.all_reduce(gradient)
        took.append(time.perf_counter() - began)
    distributed.barrier()
    if rank == 0:
        answer.put(((sent() - before) / repeats / processes, statistics.median(took)))
    distributed.destroy_process_group()


def measure(repeats: int = 10) -> list[Measured]:
    own = sum(weight.numel() for weight in conv4(1).parameters())
    found = []
    for processes in PROCESSES:
        for weights in (each or own for each in WEIGHTS):
            answer: Queue[tuple[float, float]] = multiprocessing.get_context("fork").Queue()
            with tempfile.TemporaryDirectory() as scratch:
                given = (processes, weights, repeats, f"{scratch}/meeting", answer)
                multiprocessing.start_processes(_share, given, nprocs=processes, start_method="fork")
            counted, seconds = answer.get()
            found.append(Measured(processes, weights, ring_bytes(weights, processes), counted, seconds))
    return found


def table(found: list[Measured]) -> str:
    head = ["processes", "weights", "megabytes sent by each, expected", "counted", "milliseconds"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in found:
        megabytes = f"{row.expected / 1e6:.3g} | {row.counted / 1e6:.3g}"
        lines.append(f"| {row.processes} | {row.weights:,} | {megabytes} | {1000 * row.seconds:.3g} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Communication:
    """Measure what processes that train together say to each other in a step."""

    into: Path | None = None
    """A Markdown page to put the table into, between its two marks."""

    def run(self) -> None:
        text = table(measure())
        print(text)
        if self.into is not None:
            write_into(self.into, text, MADE)


if __name__ == "__main__":
    tyro.cli(Communication, prog="python -m bench.communication").run()
