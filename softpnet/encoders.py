"""Encoders from image to vector. Any nn.Module from `[M, C, H, W]` to `[M, D]` may replace them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Conv4(nn.Module):
    """Four blocks of conv3x3 - batch norm - ReLU - maxpool2, 64 channels: 28x28 -> 64 (Snell et al. 2017)."""

    def __init__(self, channels: int, width: int = 64) -> None:
        super().__init__()
        widths = [channels, width, width, width]
        self.blocks = nn.Sequential(*[_block(before, width) for before in widths])
        # Channels-last is what the convolutions of the CPU are fastest in.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(images.contiguous(memory_format=torch.channels_last)).flatten(1)


def _block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel_size=3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)
    )


def conv4(channels: int) -> nn.Module:
    return Conv4(channels)
