"""Where a run computes. Free of torch, so that the command line can read it at once."""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from softpnet.task.settings import check_types, require

Device = Annotated[str, Meta(pattern=r"^(cpu|mps|auto|cuda(:\d+)?)$")]
"""As torch names them: cuda:1 is the second one of its kind."""
Precision = Literal["32-true", "16-mixed", "bf16-mixed", "64-true", "auto"]
SINGLE: Precision = "32-true"
BatchNorm = Literal["synchronised", "local"]

MOST_THREADS, MOST_PROCESSES = 1024, 64
"""More are refused, unless the machine has more processors: many more would crash it, or be no use."""
MOST_TOGETHER = 4096
"""So many processes may train together on several machines, where something else has started them."""
MOST_WAIT_S = 86_400
"""A day: nobody waits for longer."""


@dataclass(frozen=True)
class Hardware:
    """Where a run computes; handed to lightning-fabric."""

    device: Device = "cpu"
    """Where the network and its targets are computed: cpu, cuda, cuda:1 for the second, mps, or auto."""
    precision: Precision = SINGLE
    """Fabric's precision; auto: bf16-mixed where the device multiplies bfloat16 natively, 32-true elsewhere."""
    threads: int | None = None
    """Threads per process; the default leaves torch's own choice."""
    processes: int = 1
    """Processes that train together on this machine, each on its share of every batch; torchrun and srun say it
    themselves."""
    workers: int = 0
    """Further processes, of each of them, that read inputs ahead where those are not in memory."""
    batch_norm: BatchNorm = "synchronised"
    """Of processes that train together: statistics of the whole batch, as one process has them, or of each one's own
    share of it."""
    wait_seconds: int = 300
    """Processes that train together wait so long for one that does not answer. One that ends is noticed at once."""

    @classmethod
    def out_of(cls, given: dict[str, Any]) -> Hardware:
        """What is given of it, checked; taken out of the dictionary."""
        known = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: given.pop(name) for name in known if name in given}).check(MOST_PROCESSES)

    def check(self, most_processes: int = MOST_TOGETHER) -> Hardware:
        """Raise for a value that cannot be; itself otherwise."""
        known = isinstance(self.device, str) and re.fullmatch(r"cpu|mps|auto|cuda(:\d+)?", self.device, re.ASCII)
        require("device", self.device, bool(known), "cpu, cuda, cuda:1 for the second of its kind, mps or auto")
        fine = ":" not in self.device or self.processes == 1
        require("device", self.device, fine, f"no number with {self.processes} processes, which take one each")
        check_types(self)
        bounds = {"processes": (1, most_processes), "workers": (0, MOST_PROCESSES)}
        bounds |= {} if self.threads is None else {"threads": (1, MOST_THREADS)}
        for name, (least, bound) in bounds.items():
            value, most = getattr(self, name), max(bound, os.cpu_count() or 1)
            fine = least <= value <= most
            require(name, value, fine, f"{least} to {most:,}, and best no more than the processors of this machine")
        fine = 1 <= self.wait_seconds <= MOST_WAIT_S
        require("wait_seconds", self.wait_seconds, fine, f"1 to {MOST_WAIT_S:,}")
        return self
