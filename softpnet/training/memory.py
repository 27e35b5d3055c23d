"""About how much memory a training asks for, so that a setting that is far too large is named before the machine is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from softpnet.errors import InputError, SoftPNetError, TrainingError

if TYPE_CHECKING:  # the command line names memory errors too, and does not wait for torch
    from softpnet.task.anchors import AnchorSet
    from softpnet.task.concepts import ConceptSpace
    from softpnet.task.data import Inputs
    from softpnet.task.settings import Settings

NUMBER = 4  # bytes
SIGNS = ("allocate memory", "out of memory", "not enough memory", "bad_alloc", "size calculation overflowed")
"""What torch, and what it is built on, say of memory that they did not get."""


def check_memory(settings: Settings, space: ConceptSpace, inputs: Inputs, anchors: Sequence[AnchorSet]) -> None:
    """Raise where one setting alone asks for more memory than the machine has."""
    found = demands(settings, space, inputs, anchors)
    name = max(found, key=lambda each: found[each])
    there = physical_memory()
    if found[name] > there:
        raise InputError(
            f"{name} is {getattr(settings, name):,}, which needs about {found[name] / 1e9:,.0f} GB of memory, and this "
            f"machine has {there / 1e9:,.0f}; lower {name}"
        )


def demands(settings: Settings, space: ConceptSpace, inputs: Inputs, anchors: Sequence[AnchorSet]) -> dict[str, int]:
    """Bytes of the largest tensors that each setting makes grow; at least so many, since what lies between is left out.

    Inputs `[N, n, *shape]`, anchors per group.
    """
    one, batch = math.prod(inputs.shape[2:]), min(settings.batch_size, len(inputs))
    shown = [len(own.anchored()[0]) for own in anchors]
    primitives, k = max(shown), space.k
    copies = settings.copies + 1
    return {
        "copies": copies * sum(shown) * one * NUMBER + (copies * primitives) ** 2 * NUMBER,
        "episodes": copies * primitives * settings.episodes * primitives * NUMBER,
        "warmup_examples": settings.warmup_examples * inputs.shape[1] * one * NUMBER,
        "batch_size": batch * inputs.shape[1] * one * NUMBER,
        "working_set": (len(inputs) + 8 * batch) * settings.working_set * k,
        "kbest_pool": batch * min(settings.kbest_pool, space.size) * (k + space.h) * 8,
    }


@contextmanager
def memory_errors_named(what: str, remedy: str) -> Iterator[None]:
    """Where the machine has no memory left, a sentence in place of the allocator's words."""
    try:
        yield
    except SoftPNetError:  # which may be said already
        raise
    except (MemoryError, RuntimeError) as error:
        words = str(error).lower()
        if isinstance(error, MemoryError) or any(sign in words for sign in SIGNS):
            first = str(error).splitlines()[0] if str(error) else "no memory left"
            raise TrainingError(f"there is not enough memory for {what}; {remedy} ({first})") from error
        raise


step_memory_errors_named = partial(
    memory_errors_named,
    "a step",
    "lower batch_size, copies, episodes, working_set or kbest_pool, or train on smaller inputs",
)


def physical_memory() -> int:
    """Bytes of the machine; where it does not say, more than any has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**60
