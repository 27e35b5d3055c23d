"""What is searched: for each setting a range or a choice, read from text such as `1e-4..1e-2` or `16,32,64`."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softpnet.errors import InputError
from softpnet.task.options import typed_value
from softpnet.task.settings import Settings

DEFAULT = {
    "learning_rate": "3e-4..1e-2",
    "batch_size": "16,32,64,128",
    "warmup_steps": "100,300,600",
    "rule_weight": "0.3..10",
}
"""Where neither user nor task names any: what the speed of learning hangs on, and the weight of the rule."""

WIDE = 10
"""A range whose ends are positive and further apart than this factor is searched on a log scale."""

FORM = "LOW..HIGH, as in 1e-4..1e-2, or several values, as in 16,32,64"


@dataclass(frozen=True)
class Searched:
    """The values that one setting may take: those between two ends, or those of a list."""

    name: str
    text: str
    values: tuple[Any, ...]  # of a range its two ends
    is_range: bool

    @property
    def is_log(self) -> bool:
        """Whether factors count, and not differences."""
        return self.is_range and self.values[0] > 0 and self.values[1] > WIDE * self.values[0]

    def holds(self, value: Any) -> bool:
        """Whether the setting may take this value here."""
        return self.values[0] <= value <= self.values[1] if self.is_range else value in self.values

    def drawn(self, trial: Any) -> Any:
        """A value of it for a trial of Optuna's, as its study's sampler draws it."""
        if not self.is_range:
            return trial.suggest_categorical(self.name, self.values)
        draw = trial.suggest_int if isinstance(self.values[0], int) else trial.suggest_float
        return draw(self.name, *self.values, log=self.is_log)


Space = Mapping[str, Searched]


def read_space(given: Mapping[str, str]) -> Space:
    """Ranges and choices by the setting's name, each value checked as a setting is."""
    hints = typing.get_type_hints(Settings)
    for name in given:
        if name not in hints:
            raise InputError(f"unknown setting {name!r} to search; the valid ones are {', '.join(hints)}")
        if name == "validation":
            raise InputError("validation cannot be searched, since trials are compared on it; leave it out")
    return {name: _read(name, str(text), hints[name]) for name, text in given.items()}


def _read(name: str, text: str, kind: Any) -> Searched:
    low, dots, high = text.partition("..")
    words = [word.strip() for word in ([low, high] if dots else text.split(","))]
    if len(words) < 2 or not all(words):
        raise InputError(f"setting {name} is to be searched over {text!r}, expected {FORM}")
    if dots and kind not in (int, float):
        raise InputError(f"setting {name} is to be searched over {text!r}, but it is no number; list values: a,b")
    values = tuple(typed_value(f"setting {name}", word, kind) for word in words)
    for value in values:
        Settings().override(**{name: value})
    if dots and values[0] >= values[1]:
        raise InputError(f"setting {name} is to be searched over {text!r}, expected the lower end first: LOW..HIGH")
    if len(set(values)) < len(values):
        raise InputError(f"setting {name} is to be searched over {text!r}, which names a value twice; leave one out")
    return Searched(name, text, values, bool(dots))


def default_values(space: Space, settings: Settings) -> dict[str, Any]:
    """What the default settings say of those that are searched, where that is among the values searched."""
    values = dataclasses.asdict(settings)
    return {name: values[name] for name, searched in space.items() if searched.holds(values[name])}
