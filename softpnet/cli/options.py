"""Options that several commands take: those of a task, and the settings, whose defaults are the task's."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from softpnet.errors import InputError

if TYPE_CHECKING:
    from softpnet.task.task import Task

Options = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE"), tyro.conf.UseAppendAction]


def parse_again(command: Any, task: Task) -> Any:
    """The command with the task's own settings in place of those that were not given, now that the task is known."""
    defaults = dataclasses.replace(command, settings=task.settings)
    return tyro.cli(type(command), args=sys.argv[2:], default=defaults, prog=f"softpnet {sys.argv[1]}")


def parse_options(given: tuple[str, ...]) -> dict[str, str]:
    """`("support=train",)` -> `{"support": "train"}`."""
    for text in given:
        if "=" not in text:
            raise InputError(f"option {text!r} is not of the form NAME=VALUE, as in --option support=train")
    return dict(text.split("=", 1) for text in given)
