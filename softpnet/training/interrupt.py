"""Ctrl-C, SIGTERM and SIGHUP ask for a stop after the current step; a second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

ENDINGS: tuple[int, ...] = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""End the process: the second one, which Windows lacks, comes when a terminal or a connection is closed."""


def heeded(signals: Iterable[int]) -> list[int]:
    """Without those that whoever started the process had it ignore, as nohup and scripts do; they stay ignored."""
    return [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]


@dataclass
class Stop:
    signal: int | None = None

    @property
    def requested(self) -> bool:
        return self.signal is not None


@contextmanager
def graceful_stop(signals: Sequence[int]) -> Iterator[Stop]:
    """While inside, these signals are only noted; they belong to the main thread, elsewhere nothing changes."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.signal = number

    before = {number: signal.signal(number, handle) for number in heeded(signals)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
