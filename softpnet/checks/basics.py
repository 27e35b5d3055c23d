"""Checks of a task's concept space and settings."""

from __future__ import annotations

import warnings

from softpnet.checks.report import count
from softpnet.checks.subject import Subject
from softpnet.errors import TaskError
from softpnet.task.concepts import ConceptSpace
from softpnet.task.settings import Settings


def space_is_sound(subject: Subject) -> str:
    space = subject.task.space
    if not isinstance(space, ConceptSpace):
        raise TaskError(
            f"the space is {type(space).__name__}, expected a softpnet.ConceptSpace; "
            "write ConceptSpace(slots=2, values=10)"
        )
    unread = sorted(set(range(space.slots)) - {slot for group in space.groups for slot in group.slots})
    if unread:
        warnings.warn(f"no group reads slot {unread[0]}: its images are never looked at; drop the slot", stacklevel=2)
    for group in space.groups:
        if 1 in group.values:
            warnings.warn(f"group {group.name!r} has a concept with one value, which tells nothing", stacklevel=2)
    return f"{count(space.k, 'concept')} read from {count(space.slots, 'slot')}, {count(space.size, 'assignment')}"


def settings_fit(subject: Subject) -> str:
    """Values in range; and none that takes another one's effect away."""
    settings = subject.task.settings
    if not isinstance(settings, Settings):
        raise TaskError(f"the settings are {type(settings).__name__}, expected softpnet.Settings(epochs=10, ...)")
    settings.check()
    idle = {
        f"rule_delay is {settings.rule_delay} of {settings.epochs} epochs: labels are never learned from": (
            settings.rule_delay >= settings.epochs or settings.rule_weight == 0
        ),
        f"views_delay is {settings.views_delay} of {settings.epochs} epochs: views never begin": (
            settings.views and settings.views_delay >= settings.epochs
        ),
        f"working_set is {settings.working_set}, but k-best finds at most kbest_pool = {settings.kbest_pool} "
        "candidates; raise kbest_pool": (settings.targets != "cache" and settings.working_set > settings.kbest_pool),
        f"walk_every is {settings.walk_every} of {settings.epochs} epochs: the walk never takes a step": (
            settings.targets == "cache" and 1 < settings.epochs <= settings.walk_every
        ),
    }
    for message, true in idle.items():
        if true:
            warnings.warn(message, stacklevel=2)
    return f"{count(settings.epochs, 'epoch')} with candidates from {settings.targets!r}"
