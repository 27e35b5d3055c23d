"""A checkpoint of other than as many processes as there are now: what its files hold, dealt anew."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softpnet.targets.walk import repeated
from softpnet.training.loop import Training
from softpnet.training.snapshot import GONE, STATE, STREAMS

Stored = tuple[Mapping[str, Tensor], Any]
"""The tensors and the numbers of one process's file."""


def dealt_anew(training: Training, files: Sequence[Stored]) -> tuple[dict[str, Tensor], Any]:
    """What this process's file would hold, had as many as there are now written the checkpoint; and a warning.

    Weights, moments and streams are the same in all files. State goes to the process that owns the example now, and so
    does what is left of the epoch. What does not fit raises, mostly a ValueError.
    """
    (first, numbers), fabric, examples = files[0], training.fabric, len(training.labels)
    for _, others in files:
        for name in ("warmup", "epoch", "step"):
            if others["at"][name] != numbers["at"][name]:
                raise ValueError(f"its files are of different steps: {others['at']} and {numbers['at']}")
    # Streams that a process has for itself are in its own file, or in none.
    found = {f"{STREAMS}{name}": value for name, value in training.streams.state().items()}
    for stored, _ in reversed(files):
        found |= {name: value for name, value in stored.items() if name.startswith(STREAMS)}
    found |= first
    for name in training.state.by_example:
        if (key := f"{STATE}{name}") in first:
            whole = first[key].new_zeros(examples, *first[key].shape[1:])
            for rank, (stored, _) in enumerate(files):
                whole[rank :: len(files)] = stored[key]
            found[key] = whole[fabric.global_rank :: fabric.world_size].clone()
    mine = fabric.global_rank < len(files)
    found["global_generator"] = files[fabric.global_rank][0]["global_generator"] if mine else torch.get_rng_state()
    found["order"] = _rest(training, [stored["order"] for stored, _ in files], int(numbers["at"]["step"]))
    if fabric.is_global_zero:
        now = "1 process" if fabric.world_size == 1 else f"{fabric.world_size} processes"
        warnings.warn(
            f"the run goes on with {now} instead of {len(files)}: nothing is lost, but its bits differ from those of a "
            "run that was never stopped",
            stacklevel=2,
        )
    return found, numbers | {"at": numbers["at"] | _means([others["at"] for _, others in files])}


def _rest(training: Training, orders: Sequence[Tensor], step: int) -> Tensor:
    """This process's order of the epoch under way, of which so many steps are made; orders `[n]` of those before.

    Every process takes as many of what is left, so that some may come again, and others wait for the next epoch.
    """
    rank, count = training.fabric.global_rank, training.fabric.world_size
    if step == 0:
        return training.own[: training.taken]  # another one is drawn
    made = step * training.settings.batch_size // len(orders)
    seen, left = (
        torch.stack([order[part] for order in orders], 1).flatten() for part in (slice(made), slice(made, None))
    )
    wanted = max(1, len(left) // count)
    ids = torch.cat([left, seen, training.own])
    mine = ids[(ids != GONE) & (ids % count == rank)]
    if not training.settings.balanced_labels:
        mine = mine[~repeated(mine[None])[0]]
    return torch.cat([mine.new_full((step * training.share,), GONE), mine[:wanted]])


def _means(positions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums and counts of this epoch's diagnostics, on average over the processes."""
    names = dict.fromkeys(name for each in positions for name in each["sums"])

    def mean(what: str, name: str) -> float:
        return sum(each[what].get(name, 0) for each in positions) / len(positions)

    counts = {name: max(1, round(mean("counts", name))) for name in names}
    return {"sums": {name: mean("sums", name) for name in names}, "counts": counts}
