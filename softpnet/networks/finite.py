"""Nothing that is not finite is saved, judged or read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from softpnet.runtime.inputs import unreadable
from softpnet.task.data import Inputs


def not_finite(tensors: Mapping[str, Tensor], constants: Iterable[str] = ()) -> list[str]:
    """Names of the tensors that hold NaN or an infinity, without the constants that are made of them."""
    found = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
    return [name for name in found if name not in constants]


def check_read(output: Tensor, inputs: Inputs, before: int = 0) -> Tensor:
    """What a network made `[N, ...]` of inputs `[N, ...]`; raises where it is not finite. So many came before them."""
    lost = ~torch.isfinite(output).flatten(1).all(1)  # [N]
    if lost.any():
        raise unreadable(lost.cpu().numpy(), inputs, before)
    return output
