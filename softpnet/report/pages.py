"""Pages whose tables are made by a command: what stands between two marks is replaced."""

from __future__ import annotations

from pathlib import Path

from softpnet.errors import InputError
from softpnet.storage import read_plain, write_whole

MADE = "made by a command"


def marks(made: str = MADE) -> tuple[str, str]:
    """The two lines that a page's tables stand between; a page that several commands write into has two for each."""
    return f"<!-- begin: {made} -->", f"<!-- end: {made} -->"


def around_marks(page: Path, made: str = MADE) -> tuple[str, str]:
    """What stands before and after the page's two marks; raises where there is no such page."""
    begin, end = marks(made)
    try:
        text = read_plain(page).decode()
    except FileNotFoundError as error:
        raise InputError(f"there is no page {page}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{page} is not a text page: {error}") from error
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found or begin in rest or end in before + after:
        raise InputError(f"{page} needs one line {begin} and, below it, one line {end} for the tables to go between")
    return before, after


def write_into(page: Path, text: str, made: str = MADE) -> None:
    """Put the text between the page's two marks."""
    (before, after), (begin, end) = around_marks(page, made), marks(made)
    write_whole(page, f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}".encode())
