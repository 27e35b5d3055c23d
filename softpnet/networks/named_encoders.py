"""Encoders by name: ours, a pretrained one, or any model of timm; "NAME:frozen" for one that is not trained."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from types import ModuleType

from torch import Size, nn

from softpnet.errors import InputError
from softpnet.networks.efficientnet_lite0 import efficientnet_lite0
from softpnet.networks.encoders import conv4, lenet

FROZEN, TIMM = ":frozen", "timm:"
HIDDEN, VECTOR = 256, 64


def mlp(input_shape: Size) -> nn.Module:
    """Inputs of any shape, flattened, to vectors: two hidden layers of 256, and 64 numbers."""
    size = math.prod(input_shape)
    hidden = nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU()
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(HIDDEN, VECTOR))


OF_IMAGES: dict[str, Callable[[Size], nn.Module]] = {
    "conv4": lambda shape: conv4(shape[0]),
    "lenet": lambda shape: lenet(shape[0]),
    "efficientnet_lite0": efficientnet_lite0,
}
OF_ANYTHING: dict[str, Callable[[Size], nn.Module]] = {"mlp": mlp}


def named_encoder(name: str, input_shape: Size) -> nn.Module:
    """The encoder of this name for inputs of this shape."""
    plain = name.removesuffix(FROZEN)
    make = OF_ANYTHING.get(plain)
    if make is None:
        if plain not in OF_IMAGES and not _is_timm(plain):
            raise InputError(
                f"encoder {name!r} is not known; expected {', '.join([*OF_IMAGES, *OF_ANYTHING])}, or a model of timm "
                "where that is installed, such as 'timm:resnet18'"
            )
        if len(input_shape) != 3:
            raise InputError(
                f"encoder {name!r} reads images [C, H, W], but the inputs have shape {list(input_shape)}; choose "
                f"{' or '.join(map(repr, OF_ANYTHING))}, or give a module of your own"
            )
        make = OF_IMAGES.get(plain)
    encoder = _timm_model(plain.removeprefix(TIMM), input_shape) if make is None else make(input_shape)
    return encoder.requires_grad_(False).eval() if name != plain else encoder


def _is_timm(name: str) -> bool:
    """Whether timm has it. A plain name asks only where timm is installed; "timm:" says what is wrong otherwise."""
    try:
        return bool(_timm().is_model(name.removeprefix(TIMM)))
    except InputError:
        if name.startswith(TIMM):
            raise
        return False


def _timm_model(name: str, input_shape: Size) -> nn.Module:
    """Without its classifier, and without its pretrained weights, which would be downloaded."""
    try:
        return _timm().create_model(name, pretrained=False, num_classes=0, in_chans=input_shape[0])
    except Exception as error:
        raise InputError(f"timm cannot make {name!r} for inputs {list(input_shape)}: {error!r}") from error


def _timm() -> ModuleType:
    try:
        return importlib.import_module("timm")
    except ImportError as error:
        raise InputError(f"models of timm cannot be used here ({error}); run pip install timm") from error
