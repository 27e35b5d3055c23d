"""Batches read ahead by other processes, in order, whatever the number of processes."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import parent_process
from typing import Any

import softpnet.catalogue  # noqa: F401  (a new process finds a user's own source by it)
from softpnet.errors import TrainingError

AHEAD = 2
"""Batches that each process has ready, or is reading."""

_read: Callable[[Any], Any]
"""What a reading process was started with; none but such a process has it."""


def read_ahead(read: Callable[[Any], Any], asked: Sequence[Any], workers: int) -> Iterator[Any]:
    """read(each) for each of what is asked, in order; by so many processes, or by this one where there are none."""
    if workers == 0:
        yield from map(read, asked)
        return
    pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(read,))
    waiting: deque[Future] = deque()
    try:
        for each in asked:
            waiting.append(pool.submit(_answer, each))
            if len(waiting) > AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise TrainingError(
            "a process that reads inputs has ended by itself; it may have been killed, or there was no memory left: "
            "resume from the last checkpoint, with fewer workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(read: Callable[[Any], Any]) -> None:
    """In a reading process, which ends with the one that asks it, and leaves Ctrl-C to that one."""
    import torch

    global _read
    _read = read
    torch.set_num_threads(1)  # those of the process that it was split from are not there
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(asked: Any) -> Any:
    return _read(asked)
