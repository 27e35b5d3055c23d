"""Processes that torchrun has started find each other, also where it has started them again.

torchrun keeps one store for all of its restarts, in which the addresses of those that have ended still stand, and hosts
may count restarts differently. So the first process makes an offer under a name that nobody has used before, the others
answer it, and all meet under that name.
"""

from __future__ import annotations

import json
import secrets
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch import distributed

from softpnet.training.notes import raise_noted, store_of_torchrun

if TYPE_CHECKING:
    from torch.distributed import Store

    from softpnet.training.launcher import Launcher

OFFER = "softpnet/offer"
LOOK_S = 0.05
"""How often one that waits looks."""


def meet(started: Launcher, device: str, wait: timedelta) -> None:
    """Make the group of these processes, unless it is made; raises a RuntimeError where they do not come in time."""
    rank, count = started.rank, started.processes
    if distributed.is_initialized():
        return
    store = store_of_torchrun(rank, count, wait)
    name = agreed_name(store, rank, count, started.here, wait)
    backend = distributed.get_default_backend_for_device(torch.device(device))
    distributed.init_process_group(
        backend, store=distributed.PrefixStore(name, store), rank=rank, world_size=count, timeout=wait
    )


def agreed_name(store: Store, rank: int, count: int, here: int, wait: timedelta) -> str:
    """A name that these processes agree on, and no others before them; `here` of them are on each host.

    None waits inside the store: one that cannot begin leaves a note there, which ends the others at once.
    """
    mine = secrets.token_hex(8)
    if rank == 0:
        store.set(OFFER, mine)
    look, until = _accepted if rank == 0 else _answered, time.monotonic() + wait.total_seconds()
    while time.monotonic() < until:
        raise_noted(store, rank, here)
        name = look(store, mine, rank, count)
        if name:
            return name
        time.sleep(LOOK_S)
    raise RuntimeError(f"timed out waiting for {'the others' if rank == 0 else 'the first process'}")


def _accepted(store: Store, mine: str, rank: int, count: int) -> str:
    """What the first process does: the name of its offer, once all others have answered it."""
    answers = [f"softpnet/{mine}/{other}" for other in range(1, count)]
    if not store.check(answers):
        return ""
    store.set(f"softpnet/{mine}/met", json.dumps([store.get(answer).decode() for answer in answers]))
    return mine


def _answered(store: Store, mine: str, rank: int, count: int) -> str:
    """What the others do: answer what is offered; its name, once the first process has seen this answer."""
    if not store.check([OFFER]):
        return ""
    offered = store.get(OFFER).decode()
    store.set(f"softpnet/{offered}/{rank}", mine)
    met = f"softpnet/{offered}/met"
    # An offer of those that have ended was met too, but not by this process.
    return offered if store.check([met]) and mine in json.loads(store.get(met)) else ""
