"""Named random streams of one seed: drawing more from one does not shift another."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError


class Streams:
    """`streams("walk")` is that stream's generator, made at its first use."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generators: dict[str, Generator] = {}

    def __call__(self, name: str) -> Generator:
        if name not in self.generators:
            self.generators[name] = Generator().manual_seed(stream_seed(self.seed, name))
        return self.generators[name]

    def state(self) -> dict[str, Tensor]:
        """Where every stream stands, by name."""
        return {name: generator.get_state() for name, generator in self.generators.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, value in state.items():
            self(name).set_state(value)


def stream_seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:7], "big")


_TURN = threading.RLock()
_TRAINERS: list[str] = []  # names of the thread whose turn it is, once per training, which may run inside another
PATIENCE_S = 0.1
"""How often one who waits for a turn looks who has it."""


@contextmanager
def borrowed_global_generator(generator: Generator, *, training: bool = False) -> Iterator[None]:
    """Module constructors, and dropout, draw from torch's global generator: seed it from ours, and put it back after.

    A process has only one. Threads wait for each other's turn, but not for a training, which takes long: they raise.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    while not _TURN.acquire(timeout=PATIENCE_S):
        if _TRAINERS:
            raise InputError(
                f"thread {_TRAINERS[-1]!r} is training with torch's random generator, of which a process has only one; "
                "wait until it is done, or train, load and check in a process of its own"
            )
    mine = [threading.current_thread().name] if training else []
    _TRAINERS.extend(mine)
    try:
        with torch.random.fork_rng(devices=[]):
            _seed_global_generators(seed)
            yield
    finally:
        del _TRAINERS[len(_TRAINERS) - len(mine) :]
        _TURN.release()


def _seed_global_generators(seed: int) -> None:
    """Of devices only where there are any: for those that are not there, `torch.manual_seed` formats the stack, which
    takes longer than many a check."""
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
