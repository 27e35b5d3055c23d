"""Errors that a person can act on: what was found, what was expected, what to do."""

from __future__ import annotations

import difflib
import reprlib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent


class SoftPNetError(Exception):
    """Base of every error this library raises on purpose; the command line prints it as one sentence."""


class TaskError(SoftPNetError, ValueError):
    """The task (its space, rule, rows or moves) is not what it must be."""


class InputError(SoftPNetError, ValueError):
    """The data or an option handed in is not what was expected."""


class EchoedError(InputError):
    """Another of the processes that train together has said why; where that was on another host, one says it aloud."""

    def __init__(self, rank: int, why: str, aloud: bool = False) -> None:
        super().__init__(f"process {rank} of those that train together cannot begin: {why}")
        self.aloud = aloud


class TrainingError(SoftPNetError, RuntimeError):
    """Training cannot go on."""


class StopTraining(Exception):
    """Raised by a `progress` or `watch` function: training ends after this step, and what was learned is kept."""


class ShareWarning(UserWarning):
    """Of several processes that train together, only this one sees it."""


class StorageError(SoftPNetError, OSError):
    """A file could not be written."""


_QUOTE = reprlib.Repr()
_QUOTE.maxlevel, _QUOTE.maxlist, _QUOTE.maxtuple, _QUOTE.maxdict = 3, 20, 20, 20
_QUOTE.maxstring = _QUOTE.maxlong = _QUOTE.maxother = 100


def quoted(value: Any) -> str:
    """The repr of a value from a file or a caller, without the middle of long texts and the rest of long lists."""
    text = _QUOTE.repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


@contextmanager
def about(what: str) -> Iterator[None]:
    """An error made inside says what it is about."""
    try:
        yield
    except SoftPNetError as error:
        raise InputError(f"{what}: {error}") from error


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Whatever a user's function raises inside becomes one sentence: what was wanted, what was raised, and where."""
    try:
        yield
    except SoftPNetError:
        raise
    except Exception as error:
        raise TaskError(f"{what}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """An unexpected exception in one line: what, and where in the user's own code if it went through it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "site-packages" not in f.filename and not Path(f.filename).is_relative_to(PACKAGE)]
    at = (own or frames)[-1]
    what = " ".join(str(error).split())
    return f"{Path(at.filename).name}, line {at.lineno}, in {at.name}, raised {type(error).__name__}: {what}"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the nearest of the known ones, where one is near."""
    near = difflib.get_close_matches(str(word), list(known), 1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""
