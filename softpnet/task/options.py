"""A task's own options: the parameters of its function, given by name, perhaps as text."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from types import UnionType
from typing import Any

from softpnet.errors import InputError


def typed_options(name: str, make: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as given, checked and, where they are text from the command line, turned into the declared type."""
    hints = typing.get_type_hints(make)
    parameters = inspect.signature(make).parameters
    valid = list(parameters)
    result = {}
    for key, value in given.items():
        if key not in valid:
            known = f"its options are {', '.join(valid)}" if valid else "it has none"
            raise InputError(f"task {name} has no option {key!r}; {known}")
        result[key] = _convert(name, key, value, hints.get(key, type(parameters[key].default)))
    return result


def _convert(name: str, key: str, value: Any, hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, UnionType):  # int | None is read as int
        hint = next(h for h in typing.get_args(hint) if h is not type(None))
    choices = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else None
    if choices:
        value = {str(choice): choice for choice in choices}.get(value, value)
        if value not in choices:
            raise InputError(
                f"option {key} of task {name} is {value!r}, expected one of {', '.join(map(repr, choices))}"
            )
        return value
    if isinstance(value, str) and hint is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() not in words:
            raise InputError(f"option {key} of task {name} is {value!r}, expected true or false")
        return words[value.lower()]
    if isinstance(value, str) and hint in (int, float):
        try:
            return hint(value)
        except ValueError:
            expected = "a whole number" if hint is int else "a number"
            raise InputError(f"option {key} of task {name} is {value!r}, expected {expected}") from None
    return value
