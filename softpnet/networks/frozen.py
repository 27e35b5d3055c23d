"""Frozen encoders: those whose weights do not change, so that what they make of an input need not be made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from softpnet.errors import InputError


class Embedded(NamedTuple):
    """What a frozen encoder has made, in place of what it was made of."""

    vectors: Tensor  # [B, n, D] or [A, P, D]


class Features(NamedTuple):
    """A batch that frozen encoders have read already."""

    inputs: Tensor | None  # [B, n, ...], for the encoders that are not frozen; None where all are
    known: Mapping[str, Embedded]  # by encoder: of the slots that it reads

    def changed(self, change: Callable[[Tensor], Tensor]) -> Features:
        """With other views of the inputs; what is known is of the inputs as they are."""
        return self if self.inputs is None else self._replace(inputs=change(self.inputs))


def is_frozen(encoder: nn.Module) -> bool:
    """Whether it has weights, and none may change."""
    weights = list(encoder.parameters())
    return bool(weights) and not any(weight.requires_grad for weight in weights)


def check_frozen(name: str, encoder: nn.Module) -> None:
    """Raise for batch norm that would change an encoder which is otherwise frozen."""
    norms = {place: part for place, part in encoder.named_modules() if isinstance(part, BatchNorm)}
    within = {id(weight) for norm in norms.values() for weight in norm.parameters()}
    trained = [id(weight) for weight in encoder.parameters() if weight.requires_grad]
    others = any(not weight.requires_grad and id(weight) not in within for weight in encoder.parameters())
    if trained and others and set(trained) <= within:
        raise InputError(
            f"the encoder of group {name!r} is frozen but for its batch norm, {len(trained)} tensors of weights; call "
            "encoder.requires_grad_(False) for all of it, or let other weights learn too"
        )
    moving = [place for place, norm in norms.items() if norm.training and norm.track_running_stats]
    if is_frozen(encoder) and moving:
        raise InputError(
            f"the encoder of group {name!r} is frozen, but its batch norm {moving[0]!r} is in training mode, in which "
            "its statistics change; call encoder.eval()"
        )
