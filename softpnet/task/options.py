"""A task's own options: the parameters of its function, given by name, perhaps as text."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from inspect import Parameter
from types import UnionType
from typing import Any

from softpnet.errors import InputError, TaskError
from softpnet.task.settings import whole_number

MOST = 10_000_000
"""A built-in task makes no more examples or rows than this: they would fill any memory."""


def typed_options(name: str, make: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as given, checked and, where they are text from the command line, turned into the declared type."""
    parameters = _parameters(name, make)
    result = {}
    for key, value in given.items():
        if key not in parameters:
            known = f"its options are {', '.join(parameters)}" if parameters else "it has none"
            raise InputError(f"task {name} has no option {key!r}; {known}")
        declared = parameters[key].annotation
        hint = type(parameters[key].default) if declared is Parameter.empty else declared
        result[key] = _convert(name, key, value, hint)
    for key, parameter in parameters.items():
        if parameter.default is Parameter.empty and key not in given:
            raise InputError(f"task {name} needs a value for {key!r}; add --option {key}=..., or give it a default")
    return result


def check_count(name: str, value: Any, least: int = 1) -> None:
    """An option of a built-in task that says how many must be a whole number that can be."""
    if not least <= whole_number(f"option {name}", value) <= MOST:
        raise InputError(f"option {name} is {value}, expected {least} to {MOST:,}")


def _parameters(name: str, make: Any) -> dict[str, Parameter]:
    """What can be given by name, with annotations that were written as text evaluated."""
    try:
        found = inspect.signature(make, eval_str=True).parameters
    except Exception as error:  # an annotation may be any expression
        raise TaskError(
            f"the parameters of `task` in {name} cannot be read: {type(error).__name__}: {error}; import what their "
            "annotations name, or leave the annotations out"
        ) from error
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return {key: parameter for key, parameter in found.items() if parameter.kind not in several}


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
