"""A schedule is a function from the epoch (0, 1, ...) to a value."""

from __future__ import annotations

from collections.abc import Callable

Schedule = Callable[[int], float]


def exponential(start: float, factor: float, floor: float = 0.0) -> Schedule:
    """start, start * factor, start * factor^2, ... never below the floor."""
    return lambda epoch: max(floor, start * factor**epoch)


def ramp(value: float, delay: int, length: int) -> Schedule:
    """Zero for `delay` epochs, then linear up to `value`, which is reached in the last of `length` epochs."""
    return lambda epoch: value * min(max(epoch - delay + 1, 0) / max(length, 1), 1.0)


def halving(start: float, every: int) -> Schedule:
    """Halved every so many epochs; never for 0."""
    return lambda epoch: start * 0.5 ** (epoch // every) if every else start
