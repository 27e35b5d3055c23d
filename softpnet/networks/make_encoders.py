"""The encoders of a run, made from what the user gave and tried on blank images."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from softpnet.errors import InputError, SoftPNetError
from softpnet.networks.blank import table_rows, two_blank
from softpnet.networks.frozen import check_frozen
from softpnet.networks.named_encoders import named_encoder
from softpnet.runtime.inputs import check_ids
from softpnet.storage import to_safetensors
from softpnet.task.concepts import ConceptSpace
from softpnet.task.integers import tensor_as_array

Encoder = str | nn.Module | Callable[[int], nn.Module] | Mapping[str, Any]
"""A name ("conv4", "lenet", "mlp", "efficientnet_lite0" or a timm model, each also with ":frozen" behind it), a module
from input to vector, a function from the number of channels to one, or a dict of these by encoder name."""

COMPARED = 4
"""Anchors of a group whose vectors are compared in several batches."""
ROUNDING = 0.02
"""Share of the spread between images up to which a vector may differ between batches, as it may in half precision."""
FLOAT_ERROR = 1e-3
"""Share of the largest entry that may be rounding alone."""


def make_encoders(space: ConceptSpace, given: Encoder, anchors: Sequence[Tensor]) -> dict[str, nn.Module]:
    """One encoder per name that the groups use, checked on each group's anchors `[M, *shape]`; a module is copied."""
    like = anchors[0][0]
    encoders = {}
    names = dict.fromkeys(group.encoder for group in space.groups)
    if isinstance(given, Mapping) and set(given) != set(names):
        missing, strange = set(names) - set(given), set(given) - set(names)
        wrong = f"there is no encoder for {min(missing)!r}" if missing else f"no group has {min(map(str, strange))!r}"
        raise InputError(
            f"{wrong}; the encoders given are {', '.join(map(str, given))}, expected one for each of {', '.join(names)}"
        )
    for name in names:
        one: Any = given[name] if isinstance(given, Mapping) else given
        try:
            made = _made(one, like.shape)
        except SoftPNetError:  # has its own words
            raise
        except Exception as error:
            raise InputError(
                f"the encoder of group {name!r} cannot be made: {error!r}; give a function that does"
            ) from error
        check_encoder(name, made, like)
        encoders[name] = made
    check_evaluation(space, encoders, anchors)
    return encoders


def _made(one: Any, input_shape: torch.Size) -> Any:
    if isinstance(one, str):
        return named_encoder(one, input_shape)
    return (
        one(input_shape[0] if input_shape else 1)
        if callable(one) and not isinstance(one, nn.Module)
        else copy.deepcopy(one)
    )


def fitting(default: Callable[[int], nn.Module], like: Tensor) -> Encoder:
    """The encoder where nobody names one: a method's own for images, "mlp" for vectors and other real numbers."""
    if like.dim() == 3:
        return default
    if not like.is_floating_point():
        raise InputError(
            f"inputs are whole numbers of size {list(like.shape)}, for which there is no encoder; give one, such as "
            "encoder=lambda length: nn.Sequential(nn.Embedding(words, 16), nn.Flatten(), nn.Linear(16 * length, 64))"
        )
    return "mlp"


def names_of(given: Encoder | None) -> str | dict[str, str | None] | None:
    """What of the encoders given a configuration can name; None in place of what it cannot."""
    if isinstance(given, Mapping):
        return {name: one if isinstance(one, str) else None for name, one in given.items()}
    return given if isinstance(given, str) else None


def check_encoder(name: str, encoder: nn.Module, like: Tensor) -> None:
    """An encoder must map `[M, C, H, W]` to `[M, D]`; it is tried on two blank images in evaluation mode."""
    if not isinstance(encoder, nn.Module):
        raise InputError(
            f"the encoder of group {name!r} is {type(encoder).__name__} {encoder!r}, expected an nn.Module, "
            "or a function from the number of channels to one"
        )
    check_frozen(name, encoder)
    training = encoder.training
    size = "x".join(map(str, like.shape))
    try:
        with torch.no_grad():
            vectors = encoder.eval()(two_blank(like))
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else repr(error)
        what, fix = f"inputs of size {size}", "resize them"
        if not like.is_floating_point():
            what, fix = f"whole-number {what}", "convert them by .float()"
        if not like.dim():
            what, fix = "inputs of one number a slot", "give each slot a vector by inputs.unsqueeze(-1)"
        raise InputError(
            f"{what} do not fit the encoder of group {name!r}: {first}; {fix} or pass an encoder made for them"
        ) from error
    finally:
        encoder.train(training)
    try:
        to_safetensors(encoder.state_dict(), {})
    except Exception as error:
        raise InputError(
            f"the encoder of group {name!r} holds what cannot be saved: {error}; keep tensors of common types in it"
        ) from error
    if not isinstance(vectors, Tensor) or vectors.dim() != 2 or len(vectors) != 2:
        found = list(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
        raise InputError(
            f"the encoder of group {name!r} maps {[2, *like.shape]} to {found}, expected [2, D]; "
            "end it with nn.Flatten()"
        )


@torch.no_grad()
def check_evaluation(space: ConceptSpace, encoders: Mapping[str, nn.Module], anchors: Sequence[Tensor]) -> None:
    """In evaluation mode, which training does not see, a vector must be finite, and depend on its own input alone:
    tried on anchors `[M, *shape]`."""
    for group, images in zip(space.groups, anchors, strict=True):
        encoder = encoders[group.encoder]
        if not images.is_floating_point():
            rows = table_rows(encoder, torch.zeros_like(images[:1])).numpy()
            check_ids(tensor_as_array(images), rows, f"anchors of group {group.name!r}")
        modes = {part: part.training for part in encoder.modules()}
        finite = torch.isfinite(encoder.eval()(images)).all(1)  # [M]
        with torch.random.fork_rng(devices=[]):  # an encoder that draws must not change what is drawn later
            gap = _batch_gap(encoder, images[:COMPARED])
        for part, mode in modes.items():
            part.training = mode
        if not finite.all():
            raise InputError(
                f"the encoder of group {group.encoder!r} gives NaN or infinite vectors for {int((~finite).sum())} of "
                f"{len(finite)} anchors in evaluation mode; look at what it does when it is not training"
            )
        if not gap <= ROUNDING:
            raise InputError(
                f"the encoder of group {group.encoder!r} gives the same input different vectors in different batches "
                f"(in evaluation mode, by {100 * gap:.0f} % of the spread between inputs); use no statistics of the "
                "batch and nothing random there, as nn.LayerNorm in place of a mean over the batch"
            )


def _batch_gap(encoder: nn.Module, images: Tensor) -> float:
    """How far vectors of images `[M, *shape]` read together, behind a blank one, and each with itself differ, over the
    spread between images. No batch has one input, since some encoders need two."""
    together = encoder(torch.cat([torch.zeros_like(images[:1]), images]))  # [M + 1, D]
    alone = torch.cat([encoder(torch.cat([image, image]))[:1] for image in images.split(1)])  # [M, D]
    gap = (together[1:] - alone).abs().amax()
    spread = (together - together.mean(0)).abs().amax() + FLOAT_ERROR * together.abs().amax()
    return float(gap / spread) if gap else 0.0


def check_trainable(module: nn.Module, method: str) -> None:
    """Something in the network must be free to learn."""
    if not any(parameter.requires_grad for parameter in module.parameters()):
        frozen = sum(parameter.numel() for parameter in module.parameters())
        raise InputError(
            f"method {method!r} has nothing to train: all {frozen:,} weights of the encoder are frozen; set "
            "requires_grad=True for some, or let the prototypes be learned: prototypes='learned'"
        )
