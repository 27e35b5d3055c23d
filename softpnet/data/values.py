"""What files call a value: by its name, or by its number."""

from __future__ import annotations

from collections.abc import Sequence

from softpnet.errors import InputError, quoted

SHOWN = 20
"""So many names are listed in an error."""


def value_number(text: str, names: Sequence[str]) -> int:
    """The number of the value that has this name, or this number.

    Numbers are not understood where names look like other numbers: a "1" among the names "1", "2", "3" is the first.
    """
    known = [str(name).strip() for name in names]
    if text in known:
        return known.index(text)
    numbered = all(_is_no_other_number(name, at) for at, name in enumerate(known))
    if numbered and text.isdecimal() and len(text) < 10 and int(text) < len(known):
        return int(text)
    few = len(known) <= SHOWN
    which = f"one of {quoted(known)}" if few else f"one of {len(known)} names, {known[0]!r} to {known[-1]!r}"
    number = f", or a number from 0 to {len(known) - 1}" if numbered else ""
    raise InputError(f"{quoted(text)}, expected {which}{number}")


def _is_no_other_number(name: str, number: int) -> bool:
    try:
        return float(name) == number
    except ValueError:
        return True
