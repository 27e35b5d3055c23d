"""Tasks of a Ray cluster: one on this machine, that of RAY_ADDRESS, or that of ray://HOST:PORT."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from softpnet.errors import InputError, TrainingError
from softpnet.experiments.engines import base
from softpnet.terminal import say

OPENING_S = 180.0
"""To join a cluster, or to begin one, and look at its nodes."""
SILENT_S = 90.0
"""The process that is joined to the cluster says every second that it is alive."""
CLOSING_S = 30.0
DRIVER = ("-m", "softpnet.experiments.cluster.driver")


class Engine(base.Engine):
    """Asks a process of its own for everything: Ray ends the process that it lives in when a cluster is lost."""

    def __init__(self, address: str, records: Path, device: str) -> None:
        super().__init__(address, records, device)
        self.numbers, self.lock = itertools.count(), threading.Lock()
        self.waiting: dict[int, Future[tuple[int, str]]] = {}
        self.lost: str | None = None
        self.heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.said = tempfile.TemporaryFile("w+")  # by Ray, of which a person needs nothing
        self.process = subprocess.Popen(
            [sys.executable, *DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            start_new_session=True,  # a Ctrl-C is ours to pass on
        )
        try:
            threading.Thread(target=self._hear, daemon=True).start()
            self._ask(address=address, records=str(records), device=device)
            self._open()
        except BaseException:
            self._kill()
            raise
        threading.Thread(target=self._follow, daemon=True).start()

    def _open(self) -> None:
        try:
            first = self.heard.get(timeout=OPENING_S)
        except queue.Empty:
            raise InputError(f"the Ray cluster did not get ready in {OPENING_S:.0f} s; look at `ray status`") from None
        if first is None:
            raise InputError(f"the Ray cluster could not be joined: {self._last_words()}")
        if "refused" in first:
            raise InputError(first["refused"])
        self.name, self.places = first["ready"], first["places"]
        say(f"{self.name}: room for {first['places']} runs side by side, nodes: {first['nodes']}")
        for note in first["notes"]:
            warnings.warn(note, stacklevel=2)

    def run(self, command: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
        future: Future[tuple[int, str]] = Future()
        with self.lock:
            if self.stopping.is_set():
                raise CancelledError
            if self.lost is not None:
                raise TrainingError(self.lost)
            number = next(self.numbers)
            self.waiting[number] = future
            self._ask(do="run", number=number, command=list(command), folder=None if folder is None else str(folder))
        return future.result()

    def stop(self) -> None:
        with self.lock:
            self.stopping.set()
            self._ask(do="stop")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSING_S)
        self._kill()

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.said.close()

    def _ask(self, **what: Any) -> None:
        with contextlib.suppress(OSError):  # it has ended, which is noticed where it is listened to
            self.process.stdin.write(json.dumps(what) + "\n")  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]

    def _hear(self) -> None:
        for line in self.process.stdout or ():
            self.heard.put(json.loads(line))
        self.heard.put(None)

    def _follow(self) -> None:
        """Pass on what became of each run, until nothing is heard any more."""
        while True:
            try:
                message = self.heard.get(timeout=SILENT_S)
            except queue.Empty:
                return self._lose(f"nothing was heard of it for {SILENT_S:.0f} s")
            if message is None:
                return self._lose("it has ended" if self.stopping.is_set() else f"it has ended: {self._last_words()}")
            if "lost" in message:
                return self._lose(message["lost"])
            if "done" in message:
                with self.lock:
                    future = self.waiting.pop(message["done"])  # told once
                if "code" in message:
                    future.set_result((message["code"], message["said"]))
                else:
                    future.set_exception(TrainingError(message["why"]) if "why" in message else CancelledError())

    def _lose(self, why: str) -> None:
        """What is under way ends with a sentence, and what is asked for later too."""
        with self.lock:
            self.lost = (
                f"{self.name} is lost: {why}; all checkpoints that reached this machine are kept, and the same command "
                "goes on from them, on another cluster or with --on local"
            )
            for future in self.waiting.values():
                future.set_exception(TrainingError(self.lost))
            self.waiting.clear()

    def _last_words(self) -> str:
        self.process.wait()
        self.said.seek(0)
        return " ".join(self.said.read().split()[-60:]) or f"its process ended with {self.process.returncode}"
