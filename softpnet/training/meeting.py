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
from torch.distributed.rendezvous import rendezvous

if TYPE_CHECKING:
    from torch.distributed import Store

OFFER = "softpnet/offer"
LOOK_S = 0.05
"""How often one that waits for an offer looks."""


def meet(rank: int, count: int, device: str, wait: timedelta) -> None:
    """Make the group of these processes, unless it is made; raises a RuntimeError where they do not come in time."""
    if distributed.is_initialized():
        return
    store, _, _ = next(rendezvous("env://", rank, count, timeout=wait))
    name = agreed_name(store, rank, count, wait)
    backend = distributed.get_default_backend_for_device(torch.device(device))
    distributed.init_process_group(
        backend, store=distributed.PrefixStore(name, store), rank=rank, world_size=count, timeout=wait
    )


def agreed_name(store: Store, rank: int, count: int, wait: timedelta) -> str:
    """A name that these processes agree on, and no others before them."""
    mine = secrets.token_hex(8)
    if rank == 0:
        store.set(OFFER, mine)
        answers = [store.get(f"softpnet/{mine}/{other}").decode() for other in range(1, count)]
        store.set(f"softpnet/{mine}/met", json.dumps(answers))
        return mine
    offered, until = "", time.monotonic() + wait.total_seconds()
    while time.monotonic() < until:
        found = store.get(OFFER).decode()
        if found != offered:
            offered = found
            store.set(f"softpnet/{offered}/{rank}", mine)
        met = f"softpnet/{offered}/met"
        # An offer of those that have ended was met too, but not by this process.
        if store.check([met]) and mine in json.loads(store.get(met)):
            return offered
        time.sleep(LOOK_S)
    raise RuntimeError("timed out waiting for the first process")
