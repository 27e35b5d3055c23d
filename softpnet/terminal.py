"""What a person reads: all that is printed goes through here, and nothing in it can command a terminal.

A file, a table or a record may hold signs that move the cursor, rename the window or turn the text around.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but the tab and the new line, signs that set the direction of writing, halves of characters."""


def harmless(text: object) -> str:
    """The text with such characters written out, as in `\\x1b`."""
    return COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def say(text: object, *, flush: bool = False) -> None:
    """On the standard output. A line that is flushed is of work under way, which goes on where it cannot be written."""
    try:
        _print(text, sys.stdout, flush)
    except OSError as error:
        if not flush:
            raise
        silence(sys.stdout)
        complain(f"softpnet: warning: the standard output takes no more lines ({error.strerror}); the work goes on")


def complain(text: object) -> None:
    """On the standard error: errors, warnings, progress. Where it cannot be written, nobody is left to tell."""
    try:
        _print(text, sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def open_closed_streams() -> None:
    """Send to nowhere what would go to a standard stream that the shell has closed (`>&-`): Python has None for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest free one, and so that of the closed stream
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, closefd=False))


def silence(stream: TextIO) -> None:
    """Send to nowhere all that a stream gets from now on, and what waits in its buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print(text: object, stream: TextIO, flush: bool) -> None:
    code = stream.encoding or "utf-8"
    # What a terminal of few letters cannot show is written out too, instead of ending the command.
    with unless_gone():
        print(harmless(text).encode(code, "backslashreplace").decode(code), file=stream, flush=flush)


@contextlib.contextmanager
def unless_gone() -> Iterator[None]:
    """A terminal that was closed takes nothing any more: who writes to it goes on, and ends, as if it did."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        hush()


def hush() -> None:
    """Let all that would go to a terminal that was closed go nowhere, also what still waits to be written."""
    for stream in (1, 2):
        try:
            os.get_terminal_size(stream)
        except OSError as error:
            if error.errno == errno.EIO:  # what is no terminal, as /dev/full, has another
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def marked(text: object) -> str:
    """Text for rich, which takes what stands in brackets for its own."""
    from rich.markup import escape

    return escape(harmless(text))


def console(*, error: bool = False) -> Console:
    """For progress and tables; give it marked text only."""
    from rich.console import Console

    # Where there is no terminal, as in a log, lines are long rather than folded.
    wide = None if error or sys.stdout.isatty() else 220
    return Console(stderr=error, width=wide)


def say_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool = False) -> None:
    """A table; with `right`, all columns but the first are of numbers."""
    from rich.table import Table

    drawn = Table(title=marked(title))
    for at, name in enumerate(head):
        # On a narrow terminal no digit is lost.
        drawn.add_column(marked(name), overflow="fold", justify="right" if right and at else "left")
    for line in rows:
        drawn.add_row(*map(marked, line))
    console().print(drawn)
