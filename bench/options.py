"""What was tried for the encoder: each option over the one that is used, in processes of their own, in turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from bench.encoder import STEPS
from bench.plain import PlainConv4
from bench.timing import threads
from softpnet.encoders import Conv4
from softpnet.training.allocator import keep_large_blocks

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


def seconds(option: str, task: str, repeats: int = 5) -> float:
    """Median seconds of a training step of the encoder alone."""
    make, keep = OPTIONS[option]
    if keep:
        keep_large_blocks()
    images, channels = STEPS[task]
    encoder = make(channels).train()
    optimiser = torch.optim.Adam(encoder.parameters(), foreach=True)
    x = torch.rand(images, channels, 28, 28, generator=torch.Generator().manual_seed(0))
    times = []
    for _ in range(2 + repeats):
        began = time.perf_counter()
        optimiser.zero_grad()
        encoder(x).square().mean().backward()
        optimiser.step()
        times.append(time.perf_counter() - began)
    return statistics.median(times[2:])


def measure(count: int = 1) -> list[dict]:
    rows = []
    found: dict[str, dict[str, float | str]] = {option: {} for option in OPTIONS}
    for task in STEPS:
        for option in OPTIONS:
            command = [sys.executable, "-m", "bench.options", option, task, str(count)]
            done = subprocess.run(command, capture_output=True, text=True)
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            found[option][task] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else last
    for option, by_task in found.items():
        over = {
            task: value / found[CHOSEN][task] if isinstance(value, float) else value  # type: ignore[operator]
            for task, value in by_task.items()
        }
        rows.append({"name": option, "threads": count, "seconds": by_task, "over_chosen": over})
    return rows


if __name__ == "__main__":
    option, task, count = sys.argv[1:]
    with threads(int(count)):
        print(json.dumps(seconds(option, task)))
