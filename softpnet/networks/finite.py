"""Nothing that is not finite is saved, judged or read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from softpnet.errors import InputError
from softpnet.task.data import Inputs


def not_finite(tensors: Mapping[str, Tensor], constants: Iterable[str] = ()) -> list[str]:
    """Names of the tensors that hold NaN or an infinity, without the constants that are made of them."""
    found = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
    return [name for name in found if name not in constants]


def check_read(output: Tensor, inputs: Inputs, before: int = 0) -> Tensor:
    """What a network made `[N, ...]` of inputs `[N, ...]`; raises where it is not finite. So many came before them."""
    lost = ~torch.isfinite(output).flatten(1).all(1)  # [N]
    if lost.any():
        at = int(lost.nonzero()[0])
        low, high = (float(number) for number in inputs[at].aminmax())
        which = f"{int(lost.sum())} of {len(inputs)} examples cannot be read, number {before + at} first"
        raise InputError(
            f"{which}: the network makes of its numbers, {low:g} to {high:g}, what is not finite; scale them as "
            "in training, where 0 to 1 is usual, or train again with a lower learning_rate if all examples are lost"
        )
    return output
