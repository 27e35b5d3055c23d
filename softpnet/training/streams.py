"""Named random streams of one seed: drawing more from one does not shift another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Generator, Tensor


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


@contextmanager
def borrowed_global_generator(generator: Generator) -> Iterator[None]:
    """Module constructors draw from torch's global generator: seed it from ours, and put it back afterwards."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
