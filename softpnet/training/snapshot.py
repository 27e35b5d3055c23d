"""What a checkpoint holds: taken from a training, checked value by value, and put back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import msgspec
import torch
from torch import Generator, Tensor

from softpnet.training.history import checked_records
from softpnet.training.loop import Position, Training
from softpnet.training.typed import typed

GONE = -1
"""In the order of an epoch's examples: one that other processes have had, in a run that goes on with more or fewer."""

WEIGHTS, BUFFERS, MOMENTS, STATE, STREAMS = "module.", "buffer.", "optimiser.", "state.", "stream."
BEST = "best."
"""What the names of its tensors begin with."""

ADAM = ("step", "exp_avg", "exp_avg_sq")
"""What the optimiser remembers of each parameter that it has changed."""

NEVER_NEGATIVE = ("exp_avg_sq", "running_var", "num_batches_tracked")
"""What the names of means of squares and of counts, Adam's and batch norm's, end with."""


class Numbers(msgspec.Struct):
    """All that is no tensor."""

    at: Position
    records: list[dict[str, Any]]  # of the epochs that are done
    scale: dict[str, int | float]  # the loss scale of 16-bit training; empty for others


def tensors(training: Training) -> dict[str, Tensor]:
    """Weights, statistics, the optimiser's moments, the method's state, random streams, the epoch's order, and the
    weights of the best epoch so far, where they are kept."""
    found = {f"{WEIGHTS}{name}": value for name, value in training.module.state_dict().items()}
    found |= {f"{BUFFERS}{name}": value for name, value in _passing_buffers(training).items()}
    for i, parameter in enumerate(training.module.parameters()):
        for name, value in training.adam.state.get(parameter, {}).items():
            found[f"{MOMENTS}{i}.{name}"] = value
    found |= {f"{STATE}{name}": value for name, value in training.state.tensors().items()}
    found |= {f"{STREAMS}{name}": value for name, value in training.streams.state().items()}
    found["global_generator"] = torch.get_rng_state()
    if training.fabric.device.type == "cuda":
        found["cuda_generator"] = torch.cuda.get_rng_state(training.fabric.device)
    found["order"] = training.order
    return found | {f"{BEST}{name}": value for name, value in training.best.items()}


def _passing_buffers(training: Training) -> dict[str, Tensor]:
    """Buffers that a module does not save, but that its next step may depend on."""
    saved = training.module.state_dict()
    return {name: value for name, value in training.module.named_buffers() if name not in saved}


def numbers(training: Training) -> dict[str, Any]:
    scale = training.fabric.strategy.precision.state_dict()
    return {"at": dataclasses.asdict(training.at), "records": training.records, "scale": scale}


def put_back(training: Training, stored: Mapping[str, Tensor], given: Any) -> None:
    """The reverse of `tensors` and `numbers`, into a training that has not begun.

    What does not fit raises, mostly a ValueError; the training is of no use then.
    """

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}

    notes = typed(given, Numbers)
    _check_tensors(training, stored)
    _check_order(training, stored["order"], notes.at.step * training.share)
    _check_numbers(training, notes, math.ceil(len(stored["order"]) / training.share))
    best = _checked_best(training, part(BEST), notes)
    moments = [part(f"{MOMENTS}{i}.") for i, _ in enumerate(training.module.parameters())]
    most = math.ceil(len(training.labels) / training.settings.batch_size)  # steps of an epoch
    made = notes.at.warmup + notes.at.epoch * most + notes.at.step
    for parameter, mine in zip(training.module.parameters(), moments, strict=True):
        _check_moments(mine, parameter, made)
    for name, place in training.state.tensors().items():
        place.copy_(stored[f"{STATE}{name}"])
    training.state.check()

    training.module.load_state_dict(part(WEIGHTS))
    for name, value in part(BUFFERS).items():
        training.module.get_buffer(name).copy_(value)
    for parameter, mine in zip(training.module.parameters(), moments, strict=True):
        if mine:
            # In the parameter's own memory layout, so that the same instructions run on them as before.
            training.adam.state[parameter] = {
                name: value.clone() if name == "step" else torch.empty_like(parameter).detach().copy_(value)
                for name, value in mine.items()
            }
    training.order = stored["order"]
    training.streams.restore(part(STREAMS))
    torch.set_rng_state(stored["global_generator"])
    if "cuda_generator" in stored and training.fabric.device.type == "cuda":
        torch.cuda.set_rng_state(stored["cuda_generator"], training.fabric.device)
    training.fabric.strategy.precision.load_state_dict(notes.scale)
    training.at, training.records, training.best = notes.at, notes.records, best


def _check_numbers(training: Training, notes: Numbers, steps: int) -> None:
    """Raise for a position, records or a loss scale that no run of these settings and examples can have, in an epoch of
    so many steps."""
    at, settings = notes.at, training.settings
    limits = {"warmup": settings.warmup_steps, "epoch": settings.epochs, "step": steps - 1}
    if at.epoch == settings.epochs:
        limits["step"] = 0
    for name, limit in limits.items():
        _require(0 <= getattr(at, name) <= limit, f"its {name} is {getattr(at, name)}, expected 0 to {limit}")
    _require(0 <= at.seconds < math.inf, f"its seconds are {at.seconds}, expected 0 or more")
    counted = set(at.sums) == set(at.counts) and all(1 <= count <= at.step for count in at.counts.values())
    _require(counted, f"its counts are {at.counts} after {at.step} steps of an epoch")
    untaught = len(at.untaught) == at.epoch + 1 and all(0 <= count <= len(training.labels) for count in at.untaught)
    _require(untaught, f"its counts of examples without a candidate are {at.untaught}, expected one per epoch")
    _require(
        len(checked_records(notes.records)) == at.epoch,
        f"it has the records of {len(notes.records)} epochs, but {at.epoch} are done",
    )
    scale = training.fabric.strategy.precision.state_dict()
    sound = set(notes.scale) == set(scale) and all(0 <= value < math.inf for value in notes.scale.values())
    _require(sound, f"its loss scale is {notes.scale}, expected one like {scale}")


def _check_tensors(training: Training, stored: Mapping[str, Tensor]) -> None:
    """Raise where a tensor is missing, unknown, or not what this training, which has not begun, has in its place."""
    fresh = tensors(training)
    fresh.pop("cuda_generator", None)  # a run may go on on another device
    for name, like in fresh.items():
        if name != "order":
            _check_like(name, stored.get(name), like)
    generator = Generator().get_state()
    count = len(list(training.module.parameters()))
    moments = {f"{MOMENTS}{i}.{name}" for i in range(count) for name in ADAM}
    for name, value in stored.items():
        if name.startswith(STREAMS):  # made at their first use, under names that only the method knows
            _check_like(name, value, generator)
        else:
            known = name in fresh or name in moments or name == "cuda_generator" or name.startswith(BEST)
            _require(known, f"it has an unknown {name!r}")
        if value.dtype == torch.bool:
            _require(bool((value.view(torch.uint8) <= 1).all()), f"{name} holds what is neither true nor false")
        if name.endswith(NEVER_NEGATIVE):
            _require(bool((value >= 0).all()), f"{name} is negative in places")


def _check_order(training: Training, found: Tensor, made: int) -> None:
    """Raise where it is not an order of examples that this process has, of which it has had so many."""
    gone, own = int((found == GONE).sum()), training.own
    _require(gone <= made, f"its order lacks {gone} examples, expected at most the {made} that were had")
    # Without a step by more or fewer processes it has all that an epoch takes.
    _check_like("order", found, training.order if not gone else training.order[: len(found)])
    order = found.sort().values[gone:]
    fine = torch.equal(order, own[torch.searchsorted(own, order).clamp_max(len(own) - 1)])
    if not training.settings.balanced_labels:  # where some come several times, and others not at all
        fine = fine and bool((order[1:] > order[:-1]).all())
    _require(fine and bool((found[:gone] == GONE).all()), "its order of the examples is not one of theirs")


def _checked_best(training: Training, found: Mapping[str, Tensor], notes: Numbers) -> dict[str, Tensor]:
    """The weights of the best epoch, on the run's device; none before the first is done, or where none are kept."""
    kept = training.held() if notes.records and training.settings.keep == "best" else {}
    for name, like in kept.items():
        _check_like(f"{BEST}{name}", found.get(name), like)
    _require(set(found) == set(kept), f"its best weights are {sorted(found)}, expected {sorted(kept)}")
    return {name: found[name].to(like.device) for name, like in kept.items()}


def _check_like(name: str, found: Tensor | None, like: Tensor) -> None:
    expected = f"{like.dtype} {list(like.shape)}"
    _require(found is not None, f"it has no {name}, expected {expected}")
    assert found is not None
    same = found.dtype == like.dtype and found.shape == like.shape
    _require(same, f"{name} is {found.dtype} {list(found.shape)}, expected {expected}")
    if found.dtype.is_floating_point:
        # A buffer may hold infinities on purpose, as a mask does; but they do not come up in training.
        _require(bool((found.isfinite() | ~like.cpu().isfinite()).all()), f"{name} holds NaN or infinite values")


def _check_moments(found: Mapping[str, Tensor], parameter: Tensor, made: int) -> None:
    """Raise where they are not what Adam has of a parameter after so many steps; it has none of an idle one."""
    if not found:
        return
    for name in ADAM:
        _check_like(name, found.get(name), torch.zeros(()) if name == "step" else parameter.detach())
    step = float(found["step"])
    _require(step in range(1, made + 1), f"the optimiser's step is {step}, expected 1 to {made}")


def _require(fine: bool, complaint: str) -> None:
    if not fine:
        raise ValueError(complaint)
