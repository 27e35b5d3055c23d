"""Encoder versus limit: FLOP rate of forward, backward and optimiser step as a share of matrix multiplication's.

Both in the precision that `--precision auto` takes on this processor.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bench.timing import in_turns, threads
from softpnet.networks.encoders import Conv4
from softpnet.task.hardware import Hardware
from softpnet.training.processes import with_precision

STEPS = {"mnist_evenodd": (168, 1), "visual_sudoku": (1064, 1), "kand_logic": (612, 3)}
"""Images per step and channels of the three tasks."""


def flop(images: int, channels: int, side: int = 28, width: int = 64) -> float:
    """Multiplications and additions of Conv4's convolutions, forward and twice as many backward."""
    total, before = 0, channels
    for _ in range(4):
        total += 2 * side * side * width * 9 * before
        side, before = side // 2, width
    return 3.0 * total * images


def training_step(
    encoder: nn.Module, images: int, channels: int, dtype: torch.dtype = torch.float32
) -> Callable[[], None]:
    """A function that makes one training step of the encoder alone, which multiplies in the given type."""
    encoder.train()
    optimiser = torch.optim.Adam(encoder.parameters(), foreach=True)
    x = torch.rand(images, channels, 28, 28, generator=torch.Generator().manual_seed(0))

    def step() -> None:
        optimiser.zero_grad()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            embedded = encoder(x)
        embedded.float().square().mean().backward()
        optimiser.step()

    return step


def multiply(size: int, dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    one, two = torch.rand(2, size, size, generator=torch.Generator().manual_seed(0)).to(dtype)
    return lambda: one @ two


def measure(counts: list[int], repeats: int = 7) -> list[dict]:
    precision = with_precision(Hardware(precision="auto")).precision
    dtype = torch.bfloat16 if precision == "bf16-mixed" else torch.float32
    rows = []
    for count in counts:
        for task, (images, channels) in STEPS.items():
            with threads(count):
                sizes = (768, 1024, 1536)
                contenders: dict[str, Callable[[], object]] = {
                    f"multiply {size}": multiply(size, dtype) for size in sizes
                }
                contenders["encoder"] = training_step(Conv4(channels), images, channels, dtype)
                seconds = in_turns(contenders, repeats)
            limit = max(2 * size**3 / seconds[f"multiply {size}"] for size in sizes)
            rate = flop(images, channels) / seconds["encoder"]
            rows.append(
                {
                    "name": f"encoder / matrix multiply, {task}, {images} images",
                    "threads": count,
                    "precision": precision,
                    "ratio": rate / limit,
                    "target": 0.60 if count == 1 else 0.52,
                    "better": "higher",
                    "seconds": seconds["encoder"],
                    "gigaflop_per_second": rate / 1e9,
                    "limit_gigaflop_per_second": limit / 1e9,
                }
            )
    return rows
