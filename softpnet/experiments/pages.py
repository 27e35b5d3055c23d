"""Pages whose tables are made by a command: what stands between two marks is replaced."""

from __future__ import annotations

from pathlib import Path

from softpnet.errors import InputError

BEGIN, END = "<!-- begin: made by a command -->", "<!-- end: made by a command -->"


def write_into(page: Path, text: str) -> None:
    """Put the text between the page's two marks."""
    old = page.read_text()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        raise InputError(f"{page} needs one line {BEGIN} and one line {END} for the tables to go between")
    before, rest = old.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{rest.split(END)[1]}")
