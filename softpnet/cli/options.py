"""Options that several commands take: those of a task, and the settings, of which only what is given is passed on."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict, TypeVar, get_type_hints

import tyro

from softpnet.errors import InputError
from softpnet.task.hardware import Hardware
from softpnet.task.settings import PRESETS, Settings

Options = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE"), tyro.conf.UseAppendAction]

T = TypeVar("T")

Several = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction]
"""`--columns a b` and `--columns a --columns b` are the same."""


def flat(given: Iterable[Iterable[T]]) -> tuple[T, ...]:
    """All that was given for an option of Several, in order."""
    return tuple(itertools.chain.from_iterable(given))


def parse_options(given: tuple[str, ...]) -> dict[str, str]:
    """`("support=train",)` -> `{"support": "train"}`."""
    for text in given:
        if "=" not in text:
            raise InputError(f"option {text!r} is not of the form NAME=VALUE, as in --option support=train")
    names = [text.partition("=")[0] for text in given]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"option {name!r} is given {names.count(name)} times, expected once; leave one out")
    return dict(text.split("=", 1) for text in given)


def _given(kind: type, unless: str, defaults: Mapping[str, Any]) -> Any:
    """A dict type of the fields of a dataclass: on the command line only those that are given are in it."""
    hints, said = get_type_hints(kind), _docstrings(kind)
    fields = {
        field.name: Annotated[
            hints[field.name],
            tyro.conf.arg(
                help=said[field.name],
                help_behavior_hint=f"({unless}: {defaults.get(field.name, field.default)})",
            ),
        ]
        for field in dataclasses.fields(kind)
    }
    return TypedDict(f"Given{kind.__name__}", fields, total=False)  # type: ignore[operator]


def _docstrings(kind: type) -> dict[str, str]:
    """What stands below each field of a class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, below in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[ast.unparse(field.target)] = " ".join(str(below.value.value).split())
    return found


GivenSettings = _given(Settings, "the task's own, or with preset best", PRESETS["best"])
GivenHardware = _given(Hardware, "default", {})
