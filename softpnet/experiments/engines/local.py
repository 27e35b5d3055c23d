"""Processes on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from softpnet.errors import InputError
from softpnet.experiments.engines import base
from softpnet.training.launcher import without_launcher


class Engine(base.Engine):
    """Those that run at the moment."""

    places = 2

    def __init__(self, address: str = "", records: Path = Path(), device: str = "cpu") -> None:
        super().__init__(address, records, device)
        if address:
            raise InputError(f"--on is 'local://{address}', expected local: this machine has no address")
        self.running: set[subprocess.Popen[str]] = set()
        self.lock = threading.Lock()

    def run(self, command: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
        with self.lock:
            if self.stopping.is_set():
                raise CancelledError
            process = subprocess.Popen(
                [sys.executable, "-m", "softpnet", *command, *([] if folder is None else ["--out", str(folder)])],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=without_launcher(os.environ) | {"OMP_NUM_THREADS": "1"},
            )
            self.running.add(process)
        _, error = process.communicate()
        self.running.discard(process)
        return process.returncode, error

    def stop(self) -> None:
        with self.lock:
            self.stopping.set()
            for process in list(self.running):
                process.terminate()
