"""Checks of a task's concept space and settings."""

from __future__ import annotations

import warnings

from softpnet.checks.report import count
from softpnet.checks.subject import Subject
from softpnet.errors import TaskError
from softpnet.task.concepts import ConceptSpace


def space_is_sound(subject: Subject) -> str:
    space = subject.task.space
    if not isinstance(space, ConceptSpace):
        raise TaskError(
            f"the space is {type(space).__name__}, expected a softpnet.ConceptSpace; "
            "write ConceptSpace(slots=2, values=10)"
        )
    unread = sorted(set(range(space.slots)) - {slot for group in space.groups for slot in group.slots})
    if unread:
        warnings.warn(f"no group reads slot {unread[0]}: its inputs are never looked at; drop the slot", stacklevel=2)
    for group in space.groups:
        if 1 in group.values:
            warnings.warn(f"group {group.name!r} has a concept with one value, which tells nothing", stacklevel=2)
    return f"{count(space.k, 'concept')} read from {count(space.slots, 'slot')}, {count(space.size, 'assignment')}"


def settings_are_accepted(subject: Subject) -> str:
    """The task's values and those that were given are in range, and the method takes them."""
    return f"{count(subject.model.settings.epochs, 'epoch')} of method {subject.model.method!r}"


def settings_have_effect(subject: Subject) -> str:
    for remark in subject.method.remarks():
        warnings.warn(remark, stacklevel=2)
    model, source = subject.model, getattr(subject.method, "source", None)
    if model.settings.balance and model.given_by["balance"] == "user" and not getattr(source, "balances", False):
        warnings.warn(
            f"balance is {model.settings.balance:g}, but there are no exact targets, which alone are balanced",
            stacklevel=2,
        )
    return "none takes another one's effect away"
