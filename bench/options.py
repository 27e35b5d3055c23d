"""What was tried for the encoder: each option over the one that is used, in processes of their own, in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from bench.encoder import STEPS, training_step
from bench.plain import PlainConv4
from bench.timing import threads
from softpnet.networks.encoders import Conv4
from softpnet.training.allocator import keep_large_blocks

TASKS = ("mnist_evenodd", "kand_logic")
"""Sudoku's step, the largest, would take as long as the others together."""

CHOSEN = "pooled first, channels last, large blocks kept"


class ChannelsLast(nn.Module):
    """The plain encoder on channels-last images."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.plain = PlainConv4(channels).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.plain(images.contiguous(memory_format=torch.channels_last))


def compiled(make: Callable[[int], nn.Module]) -> Callable[[int], nn.Module]:
    return lambda channels: torch.compile(make(channels))  # type: ignore[return-value]


OPTIONS: dict[str, tuple[Callable[[int], nn.Module], bool]] = {
    "plain order, default layout, default allocator": (PlainConv4, False),
    "plain order, channels last, default allocator": (ChannelsLast, False),
    "plain order, channels last, large blocks kept": (ChannelsLast, True),
    "plain order, channels last, large blocks kept, torch.compile": (compiled(ChannelsLast), True),
    "pooled first, channels last, default allocator": (Conv4, False),
    CHOSEN: (Conv4, True),
}


class Worker:
    """A process of its own per option, since the allocator's setting is the process's; it steps when it is asked to."""

    def __init__(self, option: str, count: int) -> None:
        command = [sys.executable, "-m", "bench.options", option, str(count)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def step(self, task: str) -> float | str:
        """Seconds of one step on the task, or the last line of what went wrong."""
        assert self.process.stdin and self.process.stdout and self.process.stderr
        try:
            print(task, file=self.process.stdin, flush=True)
            return float(self.process.stdout.readline())
        except (ValueError, BrokenPipeError):
            return ([*self.process.stderr.read().strip().splitlines()] or ["no message"])[-1]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def serve(option: str) -> None:
    """Step on the task that each line names, and print the seconds."""
    make, keep = OPTIONS[option]
    if keep:
        keep_large_blocks()
    steps: dict[str, Callable[[], None]] = {}
    for line in sys.stdin:
        task = line.strip()
        if task not in steps:
            steps[task] = training_step(make(STEPS[task][1]), *STEPS[task])
            steps[task]()
        began = time.perf_counter()
        steps[task]()
        print(time.perf_counter() - began, flush=True)


def measure(count: int = 1, repeats: int = 4) -> list[dict]:
    """Median over rounds in which every option makes one step."""
    workers = {option: Worker(option, count) for option in OPTIONS}
    found: dict[str, dict[str, float | str]] = {option: {} for option in OPTIONS}
    try:
        for task in TASKS:
            rounds = [{option: worker.step(task) for option, worker in workers.items()} for _ in range(repeats)]
            for option in OPTIONS:
                times = [each[option] for each in rounds]
                failed = [time for time in times if isinstance(time, str)]
                found[option][task] = failed[0] if failed else statistics.median(times)  # type: ignore[type-var]
    finally:
        for worker in workers.values():
            worker.end()
    return [
        {"name": o, "threads": count, "seconds": by, "over_chosen": _over(by, found[CHOSEN])} for o, by in found.items()
    ]


def _over(seconds: dict[str, float | str], chosen: dict[str, float | str]) -> dict[str, float | str]:
    pairs = ((task, value, chosen[task]) for task, value in seconds.items())
    return {
        task: mine / ours if isinstance(mine, float) and isinstance(ours, float) else str(mine)
        for task, mine, ours in pairs
    }


if __name__ == "__main__":
    with threads(int(sys.argv[2])):
        serve(sys.argv[1])
