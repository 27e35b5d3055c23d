"""Batch norm over the batches of all processes that train together, for whatever encoder, on whatever device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from softpnet.together import Together


class Synchronised(TorchFunctionMode):
    """While inside, batch norm in training mode takes its statistics from all processes.

    `torch.nn.SyncBatchNorm` runs on no CPU, and would have to replace parts of a user's encoder.
    """

    def __init__(self, together: Together) -> None:
        super().__init__()
        self.together = together

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is functional.batch_norm:
            return self._normalised(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _normalised(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if not training:
            return functional.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        x = input if input.dtype == torch.float64 else input.float()
        others = [0, *range(2, x.dim())]  # all but the channels
        shape = [1, -1, *[1] * (x.dim() - 2)]
        total = self.together.sum(torch.cat([x.sum(others), x.new_tensor([x.numel() / x.shape[1]])]))
        mean, count = total[:-1] / total[-1], total[-1].detach()
        centred = x - mean.view(shape)
        variance = self.together.sum(centred.square().sum(others)) / count
        follow(running_mean, running_var, mean.detach(), variance.detach(), count, momentum)
        scaled = centred * (variance + eps).rsqrt().view(shape)
        scaled = scaled if weight is None else scaled * weight.view(shape)
        return (scaled if bias is None else scaled + bias.view(shape)).to(input.dtype)


@torch.no_grad()
def follow(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    count: Tensor | float,
    momentum: float,
) -> None:
    """Move the running statistics `[C]` towards those of a batch of so many numbers per channel."""
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        running_var.lerp_((variance * count / (count - 1)).to(running_var.dtype), momentum)
