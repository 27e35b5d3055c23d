"""What ends a process before it has met those that it was to train with, told to them in torchrun's store.

Once they have met, all notice by themselves when one ends.
"""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING

from softpnet.errors import EchoedError
from softpnet.training.launcher import is_under_torchrun, launcher, restarts

if TYPE_CHECKING:
    from torch.distributed import Store

NOTE = "softpnet/note"
REACHED = timedelta(seconds=30)
"""torchrun's store is there before a process is, and goes when the torchrun of the first host ends."""


def store_of_torchrun(rank: int, count: int, wait: timedelta) -> Store:
    """The store that all hosts of this torchrun share; raises a RuntimeError where it has gone."""
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://", rank, count, timeout=min(wait, REACHED)))
    store.set_timeout(wait)
    return store


def leave_note(why: str) -> None:
    """Tell those that wait to meet this process why it will not come. It is a courtesy: nothing here raises."""
    if not is_under_torchrun():
        return
    from torch import distributed

    with contextlib.suppress(RuntimeError, ValueError, KeyError):
        started = launcher()
        if started is None or started.processes == 1 or distributed.is_initialized():
            return
        store = store_of_torchrun(started.rank, started.processes, REACHED)
        store.set(NOTE, json.dumps({"rank": started.rank, "restarts": restarts(), "why": why}))


def raise_noted(store: Store, rank: int, here: int) -> None:
    """Raise where another process has left a note; aloud by one of each host on which nobody has said it yet."""
    if not store.check([NOTE]):
        return
    note = json.loads(store.get(NOTE))
    if note["restarts"] < restarts():  # all have been started again since
        return
    host = rank // here
    aloud = note["rank"] // here != host and store.add(f"{NOTE}/{note['restarts']}/{host}", 1) == 1
    raise EchoedError(note["rank"], note["why"], aloud)
