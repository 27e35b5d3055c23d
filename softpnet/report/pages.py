"""Pages whose tables are made by a command: what stands between two marks is replaced."""

from __future__ import annotations

from pathlib import Path

from softpnet.errors import InputError
from softpnet.storage import read_plain, write_whole

BEGIN, END = "<!-- begin: made by a command -->", "<!-- end: made by a command -->"


def around_marks(page: Path) -> tuple[str, str]:
    """What stands before and after the page's two marks; raises where there is no such page."""
    try:
        text = read_plain(page).decode()
    except FileNotFoundError as error:
        raise InputError(f"there is no page {page}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{page} is not a text page: {error}") from error
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end or BEGIN in rest or END in before + after:
        raise InputError(f"{page} needs one line {BEGIN} and, below it, one line {END} for the tables to go between")
    return before, after


def write_into(page: Path, text: str) -> None:
    """Put the text between the page's two marks."""
    before, after = around_marks(page)
    write_whole(page, f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}".encode())
