"""What every engine does: run commands of `softpnet`, each to its end, until all is to stop."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path

PAUSE_S = 1.0
"""Between two looks at what another process is doing."""


class Engine(ABC):
    """Called by many threads at a time; once stopped, nothing is started any more."""

    places: int
    """How many runs it has room for, side by side."""

    def __init__(self, address: str, records: Path, device: str) -> None:
        """`records` is the folder that all runs lie in; each needs a core, and what its device is."""
        self.device = device
        self.stopping = threading.Event()

    @abstractmethod
    def run(self, command: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
        """Run `softpnet COMMAND`, with `--out FOLDER` where it makes a run: exit code, and what was written to the
        standard error. Without a folder it writes below `records`, and is run where those are seen."""

    @abstractmethod
    def stop(self) -> None:
        """Ask what runs to make a checkpoint and end; `run` then returns, or raises CancelledError."""

    def close(self) -> None:
        """Called last, when no `run` is under way."""
        return

    def pause(self) -> None:
        """Wait a while, unless all is to stop."""
        if self.stopping.wait(PAUSE_S):
            raise CancelledError
