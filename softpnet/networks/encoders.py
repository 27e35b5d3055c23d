"""Encoders from image to vector. Any nn.Module from `[M, C, H, W]` to `[M, D]` may replace them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from softpnet.networks.batch_norm import follow
from softpnet.together import Together


class Conv4(nn.Module):
    """Four blocks of conv3x3 - batch norm - ReLU - maxpool2, 64 channels: 28x28 -> 64 (Snell et al. 2017)."""

    def __init__(self, channels: int, width: int = 64) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[Block(before, width) for before in (channels, width, width, width)])
        # Channels-last is what the convolutions of the CPU are fastest in.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(images.contiguous(memory_format=torch.channels_last)).flatten(1)


class Block(nn.Module):
    """conv3x3 - batch norm - ReLU - maxpool2, in the order that touches the fewest numbers.

    Normalising is affine per channel and ReLU is monotone, so both may come after the pooling, on a quarter of the
    numbers, if the channel's scale is not negative. A negative scale is made positive by turning the sign of the
    channel's filter instead. The statistics are still those of all numbers. In evaluation the normalisation is folded
    into the filters.
    """

    together: Together | None = None
    """While it is trained by several processes whose statistics are those of all of them."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False)  # batch norm brings the bias
        self.norm = nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self._folded(x)
        if x.device.type != "cpu" or torch.is_autocast_enabled(x.device.type):
            return functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
        return self._pooled_first(x)

    def _pooled_first(self, x: Tensor) -> Tensor:
        norm = self.norm
        sign = torch.where(norm.weight < 0, -1.0, 1.0).to(x.dtype)
        turned = functional.conv2d(x, self.conv.weight * sign[:, None, None, None], padding=1)
        mean, variance, count = self._statistics(turned.detach(), sign)
        inverse_std = (variance + norm.eps).rsqrt()
        return _PoolNormalise.apply(turned, norm.weight * sign, norm.bias, mean, inverse_std, count, self.together)

    @torch.no_grad()
    def _statistics(self, turned: Tensor, sign: Tensor) -> tuple[Tensor, Tensor, float]:
        """Mean and variance of the turned channels, and of how many numbers each; the running ones, which are of the
        channels as they are, follow."""
        norm = self.norm
        assert norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None
        assert norm.num_batches_tracked is not None
        running_mean, count = norm.running_mean * sign, turned.numel() / turned.shape[1]
        if self.together is None:
            mean, variance = torch.batch_norm_update_stats(turned, running_mean, norm.running_var, norm.momentum)
        else:
            mean, variance, count = _statistics_of_all(turned, self.together)
            follow(running_mean, norm.running_var, mean, variance, count, norm.momentum)
        norm.running_mean.copy_(running_mean * sign)
        norm.num_batches_tracked.add_(1)
        return mean, variance, count

    def _folded(self, x: Tensor) -> Tensor:
        norm = self.norm
        assert norm.running_mean is not None and norm.running_var is not None
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
        shift = norm.bias - norm.running_mean * scale
        folded = functional.conv2d(x, self.conv.weight * scale[:, None, None, None], shift, padding=1)
        return functional.max_pool2d(folded, 2).relu()


class _PoolNormalise(torch.autograd.Function):
    """relu(scale * (maxpool2(x) - mean) * inverse_std + shift) with scale >= 0, and batch norm's gradient.

    mean and inverse_std `[C]` are those of x itself `[M, C, H, W]`, or of that of all processes, with `count` numbers
    per channel; the gradient accounts for that.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        scale: Tensor,
        shift: Tensor,
        mean: Tensor,
        inverse_std: Tensor,
        count: float,
        together: Together | None,
    ) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        pooled, place = functional.max_pool2d(x, 2, return_indices=True)
        normalised = pooled.sub_(_channels(mean)).mul_(_channels(inverse_std))
        result = torch.addcmul(_channels(shift), normalised, _channels(scale)).relu_()
        ctx.save_for_backward(x, normalised, place, result, scale, mean, inverse_std)
        ctx.count, ctx.together = count, together
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, normalised, place, result, scale, mean, inverse_std = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        gradient = torch.ops.aten.threshold_backward(gradient, result, 0)  # relu's
        to_shift = gradient.sum((0, 2, 3))
        to_scale = (gradient * normalised).sum((0, 2, 3))
        # Batch norm's gradient is slope * (g - mean(g) - normalised * mean(g * normalised)), with g at the pooled
        # places only: an affine function of x everywhere, and slope * g added at those places.
        slope, sums = scale * inverse_std, torch.stack([to_scale, to_shift])
        sums = sums if ctx.together is None else ctx.together.sum(sums)
        numbers = ctx.count * x.shape[1]
        per_x = -slope * inverse_std * sums[0] * x.shape[1] / numbers
        constant = -slope * sums[1] * x.shape[1] / numbers - per_x * mean
        # x belongs to this block alone and is not needed again, so the gradient takes its memory: the largest block of
        # a step is not doubled. A second backward through the same graph is noticed by autograd and refused.
        to_x = torch.addcmul(_channels(constant), x, _channels(per_x), out=x)
        _pixels(to_x).scatter_add_(1, _pixels(place), _pixels(gradient * _channels(slope)))
        return to_x, to_scale, to_shift, None, None, None, None


def _statistics_of_all(x: Tensor, together: Together) -> tuple[Tensor, Tensor, float]:
    """Mean and variance of the channels of x `[M, C, H, W]` in all processes, and of how many numbers each."""
    variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
    mine = torch.cat([mean, variance, mean.new_tensor([x.numel() / x.shape[1]])])
    found = together.stacked(mine)  # [W, 2 * C + 1]
    found = torch.where(found[:, -1:] > 0, found, 0.0)  # a process may have no rows
    means, variances, count = found[:, : len(mean)], found[:, len(mean) : -1], found[:, -1:]
    share = count / count.sum()  # [W, 1]
    mean = (share * means).sum(0)
    return mean, (share * (variances + (means - mean).square())).sum(0), float(count.sum())


def _channels(values: Tensor) -> Tensor:
    """`[C]` -> `[C, 1, 1]`."""
    return values[:, None, None]


def _pixels(x: Tensor) -> Tensor:
    """`[M, C, H, W]` -> `[M, H * W, C]`, a view of the same memory where x is channels-last."""
    m, c, h, w = x.shape
    last = x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1)
    return last.view(m, h * w, c)


def conv4(channels: int) -> nn.Module:
    return Conv4(channels)


def lenet(channels: int) -> nn.Module:
    """LeNet without its last layer: two blocks of conv5x5 - ReLU - maxpool2 with 6 and 16 channels, then 256-120-84.

    28x28 images leave the convolutions as 4x4, so the averaging to 4x4 does nothing; other sizes fit through it.
    """
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.AdaptiveAvgPool2d(4), nn.Flatten()),
        *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
    )
