"""What was read from a file, strictly as the type it was written from."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from softpnet.errors import InputError

T = TypeVar("T")


def typed(found: Any, kind: type[T]) -> T:
    """Plain values, as JSON holds them, as a dataclass or a msgspec Struct: no entry missing, unknown or of another
    type, in those inside it neither. Unlike msgspec's own, the error shows the value and lists the valid names."""
    _check_names("", found, kind)
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        # Such as "Expected `int`, got `str` - at `$.settings.epochs`"; inside lists and dicts the place is `[...]`.
        what, _, where = str(error).partition(" - at `$.")
        place = where.rstrip("`").split("[")[0]
        value = found
        for name in place.split("."):
            value = value[name]
        raise InputError(f"its entry {place!r} is {reprlib.repr(value)}: {what}") from error


def _check_names(place: str, found: Any, kind: Any) -> None:
    where = f" in {place!r}" if place else ""
    if not isinstance(found, dict):
        raise InputError(f"it holds {reprlib.repr(found)}{where}, expected an object")
    hints = _hints(kind)
    for name in hints:
        if name not in found:
            raise InputError(f"it has no entry {name!r}{where}")
    for name, value in found.items():
        if name not in hints:
            raise InputError(f"it has an unknown entry {name!r}{where}; the valid ones are {', '.join(hints)}")
        for part in (hints[name], *get_args(hints[name])):
            if _has_entries(part) and not (value is None and type(None) in get_args(hints[name])):
                _check_names(f"{place}.{name}".lstrip("."), value, part)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _has_entries(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))
