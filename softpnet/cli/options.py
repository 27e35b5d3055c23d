"""Options that several commands take: those of a task, and the settings, whose defaults are the task's."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro

from softpnet.errors import InputError

if TYPE_CHECKING:
    from softpnet.task.task import Task

Options = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE"), tyro.conf.UseAppendAction]

T = TypeVar("T")

Several = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction]
"""`--columns a b` and `--columns a --columns b` are the same."""


def flat(given: Iterable[Iterable[T]]) -> tuple[T, ...]:
    """All that was given for an option of Several, in order."""
    return tuple(itertools.chain.from_iterable(given))


def parse_again(command: Any, task: Task) -> Any:
    """The command with the task's own settings in place of those that were not given, now that the task is known."""
    defaults = dataclasses.replace(command, settings=task.settings)
    return tyro.cli(type(command), args=sys.argv[2:], default=defaults, prog=f"softpnet {sys.argv[1]}")


def changed_settings(command: Any, task: Task) -> dict[str, Any]:
    """The settings that were given and are not the task's own."""
    chosen, own = (dataclasses.asdict(each) for each in (parse_again(command, task).settings, task.settings))
    return {name: value for name, value in chosen.items() if value != own[name]}


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
