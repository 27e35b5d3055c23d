"""Options that several commands take: those of a task, and the settings, of which only what is given is passed on; and
what is wrong with a command line, in a sentence."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypedDict, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

import tyro

from softpnet.errors import InputError, did_you_mean
from softpnet.task.hardware import Hardware
from softpnet.task.options import typed_value
from softpnet.task.settings import PRESETS, Settings, choices, in_words

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


def option_types(command: type) -> dict[str, Any]:
    """The options that a command's dataclass, and the dicts in it, stand for, with their types."""
    types: dict[str, Any] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if is_typeddict(inner):
            types |= option_types(inner)
        elif tyro.conf.Positional not in getattr(hint, "__metadata__", ()):
            option = name.replace("_", "-")
            types |= {f"--{option}": inner} | ({f"--no-{option}": bool} if inner is bool else {})
    return types


def explained(words: Sequence[str], commands: Mapping[str, type], left: Sequence[str] = ()) -> str:
    """Why a command line is refused, in a sentence; `left` are the words that nothing takes."""
    if not words or words[0] not in commands:
        wrong = f"unknown command {words[0]!r}" if words else "no command is named"
        near = did_you_mean(words[0], commands) if words else ""
        return wrong + (near or f"; the commands are {', '.join(commands)}")
    name, *words = words
    types, more = option_types(commands[name]), f"; `softpnet {name} --help` lists what it takes"
    named = {at: word.partition("=")[0] for at, word in enumerate(words) if re.match("--?[^0-9.]", word)}
    options = {at: option.replace("_", "-") for at, option in named.items()}
    for at, option in options.items():
        if option not in types:
            return f"unknown option {named[at]!r}{did_you_mean(option, types) or more}"
    for at, option in options.items():
        after = list(itertools.takewhile(lambda word: not word.startswith("--"), words[at + 1 :]))
        values = [words[at].partition("=")[2]] if "=" in words[at] else after
        kind, several = _of_one_value(types[option]), get_origin(types[option]) is tuple
        if kind is bool and values and (values[0] in left or "=" in words[at]):
            return f"{option} is a switch, which takes no value; leave out {values[0]!r}"
        if kind is not bool and not values:
            return f"{option} has no value, expected {in_words(kind)}"
        for value in values if several else values[: kind is not bool]:
            try:
                int(value) if kind is int else typed_value(option, value, kind)
            except ValueError:
                return f"{option} is {value!r}, expected {in_words(kind)}{did_you_mean(value, get_args(kind))}"
    if left:
        return f"unexpected argument {left[0]!r}{more}"
    said = _docstrings(commands[name])
    needed = [field.name for field in dataclasses.fields(commands[name]) if field.default is dataclasses.MISSING]
    for each in needed:
        if each in said and (not words or 0 in options):
            return f"{each.upper()} is not named; expected softpnet {name} {each.upper()}: {said[each].rstrip('.')}"
    return f"the arguments of softpnet {name} are not understood{more}"


def _of_one_value(hint: Any) -> Any:
    """The type of a single word: of tuples, that of their entries; without None, which leaving it out means."""
    if get_origin(hint) in (tuple, Annotated):
        return _of_one_value(get_args(hint)[0])
    return next(kind for kind in choices(hint) if kind is not type(None))
