"""A task's own options: the parameters of its function, given by name, perhaps as text."""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Mapping
from inspect import Parameter
from typing import Any

import msgspec

from softpnet.errors import InputError, TaskError, did_you_mean
from softpnet.task.settings import choices, in_words, whole_number

MOST = 10_000_000
"""A built-in task makes no more examples or rows than this: they would fill any memory."""


def typed_options(name: str, make: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as given, checked and, where they are text from the command line, turned into the declared type."""
    parameters = _parameters(name, make)
    result = {}
    for key, value in given.items():
        if key not in parameters:
            listed = f"; its options are {', '.join(parameters)}" if parameters else "; it has none"
            raise InputError(f"task {name} has no option {key!r}{did_you_mean(key, parameters) or listed}")
        result[key] = typed_value(f"option {key} of task {name}", value, _declared(parameters[key]))
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


def _declared(parameter: Parameter) -> Any:
    """The type that is written, else that of the default, where there is one."""
    if parameter.annotation is not Parameter.empty:
        return parameter.annotation
    return Any if parameter.default in (Parameter.empty, None) else type(parameter.default)


def typed_value(what: str, value: Any, hint: Any) -> Any:
    """The value in the first of the declared types that its text can be read as."""
    for kind in choices(hint):
        with contextlib.suppress(Exception):  # a type of the task's own may raise anything
            return _read(value, kind)
    raise InputError(f"{what} is {value!r}, expected {in_words(hint)}")


def _read(value: Any, kind: Any) -> Any:
    if typing.get_origin(kind) is typing.Literal:
        return {str(choice): choice for choice in typing.get_args(kind)}[str(value)]
    if not isinstance(value, str):
        return value
    if kind is bool:
        value = {"yes": "true", "no": "false"}.get(value.lower(), value)
    # strict=False reads numbers, truth and null from text; a type that msgspec does not know is called with the text
    return msgspec.convert(value, kind, strict=False, dec_hook=lambda own, text: own(text))
