"""The numbers of a run. Free of torch, so that the command line can read them at once."""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from softpnet.errors import InputError, did_you_mean

Target = Literal["soft", "best"]
Prototypes = Literal["mean", "learned"]
Keep = Literal["last", "best"]
Infeasible = Literal["raise", "drop"]
Preset = Literal["best", "paper"]

MOST = 2**31 - 1
"""No count is larger: what is counted would never end, or fill any machine."""

SMALLEST, LARGEST = 1e-30, 1e30
"""Between them, numbers are numbers in single precision too."""


@dataclass(frozen=True)
class Settings:
    """What a task's author tunes and a user may override.

    The defaults are the paper's general values; a preset's, a task's and a user's replace them, in this order.
    """

    epochs: int = 10
    """Passes over the training examples."""
    batch_size: int = 64
    """Examples per step."""
    learning_rate: float = 1e-3
    """Adam's step size at the start."""
    halve_every: int = 0
    """Halve the learning rate every so many epochs; 0 keeps it."""
    decay_to_zero: bool = False
    """Let the learning rate fall to zero, by the same amount in every step of the epochs."""
    weight_decay: float = 0.0
    """Adam's weight decay."""
    warmup_steps: int = 100
    """Optimiser steps on augmented anchors alone before the first epoch."""
    warmup_examples: int = 0
    """Training examples that go through the encoder beside the anchors in such a step, unlabelled: batch norm then
    sees anchors among the images that they will be compared with."""

    validation: float = 0.0
    """Share of the training examples that is held out, and judged by its labels after every epoch; 0 for none."""
    patience: int = 0
    """Stop after so many epochs in which the validation examples were read no better; 0 for never."""
    keep: Keep = "last"
    """The epoch whose weights are kept: the last, or the best by the labels of the validation examples."""
    balanced_labels: bool = False
    """Draw batches in which all labels are equally frequent: examples of rare ones come several times an epoch."""
    infeasible: Infeasible = "raise"
    """What to do with examples whose label no assignment has: refuse to train, or drop them."""
    label_noise: float = 0.0
    """Share of the labels that may be wrong; for exact targets only."""

    prototypes: Prototypes = "mean"
    """Mean: of the embedded anchors, trained by episodes; learned: weights, trained by a cross-entropy on the anchors
    and by the rule."""
    scaled: bool = False
    """Divide squared distances by the square root of their dimension, so that they do not saturate."""
    copies: int = 3
    """Augmented copies of each anchor per step, beside the original."""
    episodes: int = 50
    """Episodes of the prototypical loss per step (E)."""
    augment_inputs: bool = False
    """Read and train on an augmented view of each input, another one in every epoch."""
    views: bool = False
    """Score candidates on the clean input, train on an augmented view of it."""
    views_delay: int = 0
    """Epochs before views begin."""
    frozen_views: bool = False
    """Augment the inputs of a frozen encoder too, which then runs in every step; unless asked for, what it makes of
    each input is computed once."""

    targets: str = "auto"
    """Where targets come from: all feasible assignments, by the compiled rule ("exact"); the K most probable of them
    ("kbest"); a constraint solver ("solver"); the paper's cache and its walk ("cache"); the best of the first three
    that the rule allows ("auto"); or a file, in Python also a class, of your own."""
    working_set: int = 20
    """Candidates in an example's working set (K)."""
    cache_rows: int = 200_000
    """Rows per label that a cache gets from the compiled rule, where the task brings none and there are too many."""
    draw_factor: int = 10
    """First draw: so many times K cached rows are scored (N)."""
    kbest_pool: int = 512
    """Most probable assignments that k-best filters by the rule (T)."""
    walk_every: int = 1
    """Epochs between two encounters at which a working set walks."""
    walk_steps: int = 1
    """Metropolis steps that each candidate takes at such an encounter."""

    target: Target = "soft"
    """Soft: tempered marginal of the candidates; best: the single best candidate (zero temperature)."""
    balance: float = 0.0
    """How strongly exact targets prefer values that are read far less often than the labels let expect; 0 for not at
    all."""
    gamma: float = 1.0
    """Temperature in the first epoch."""
    gamma_decay: float = 0.95
    """Factor on the temperature per epoch."""
    gamma_floor: float = 0.01
    """The temperature never falls below this."""
    rule_weight: float = 1.0
    """Weight of the loss that the rule teaches by, the KL (lambda)."""
    rule_delay: int = 0
    """Epochs in which that weight is zero."""
    rule_ramp: int = 0
    """Epochs over which it then rises linearly to its value."""

    def check(self) -> Settings:
        """Raise for a value out of range; itself otherwise."""
        check_types(self, targets=str | type)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                require(field.name, value, abs(value) <= MOST, f"a whole number of at most {MOST:,}")
            elif field.type == "float":
                fine = abs(value) <= LARGEST
                require(field.name, value, fine, f"a finite number, of a size up to {LARGEST:g}")
        sizes = ("epochs", "batch_size", "episodes", "working_set", "cache_rows", "draw_factor", "kbest_pool")
        for name in (*sizes, "walk_every", "walk_steps"):
            require(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        require(
            "copies",
            self.copies,
            self.copies >= 1,
            "at least 1, because an episode's queries are the copies that are not its support",
        )
        delays = ("views_delay", "rule_delay", "rule_ramp")
        for name in (
            "halve_every",
            "warmup_steps",
            "warmup_examples",
            *delays,
            "rule_weight",
            "weight_decay",
            "balance",
            "patience",
        ):
            require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        for name in ("learning_rate", "gamma", "gamma_decay", "gamma_floor"):
            value = getattr(self, name)
            require(name, value, value >= SMALLEST, f"above 0 (from {SMALLEST:g} on)")
        for name in ("validation", "label_noise"):
            require(name, getattr(self, name), 0 <= getattr(self, name) < 1, "a share, 0 to below 1")
        fine = not self.label_noise or self.target == "soft"
        require("label_noise", self.label_noise, fine, "0 with target = 'best'; choose target = 'soft'")
        return self

    def target_gamma(self, gamma: float) -> float:
        """The temperature of the target while that of the walk is gamma."""
        return gamma if self.target == "soft" else 0.0

    def override(self, **changes: Any) -> Settings:
        """A copy with some values changed, checked; an unknown name fails and lists the valid ones."""
        valid = [field.name for field in dataclasses.fields(self)]
        unknown = [name for name in changes if name not in valid]
        if unknown:
            listed = f"; the valid ones are {', '.join(valid)}"
            raise InputError(f"unknown setting {unknown[0]!r}{did_you_mean(unknown[0], valid) or listed}")
        return dataclasses.replace(self, **changes).check()


PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "best": dict(
        prototypes="learned",
        scaled=True,
        balance=1.0,
        augment_inputs=True,
        warmup_steps=300,
        decay_to_zero=True,
    ),
    "paper": {},
}
"""One recipe for all tasks; and the paper's settings, most of which are a task's own."""

Giver = Literal["default", "preset", "task", "method", "user"]


def resolve(
    preset: Preset, task: Mapping[str, Any], method: Mapping[str, Any], user: Mapping[str, Any], name_of_method: str
) -> tuple[Settings, dict[str, Giver]]:
    """The settings of a run, preset < task < user < method, checked; and who gave each value.

    What a method fixes is what it is: a user may say the same, and nothing else.
    """
    for name, value in method.items():
        if user.get(name, value) != value:
            raise InputError(
                f"{name} is {user[name]!r}, but method {name_of_method!r} is defined with {name} = {value!r}; "
                "leave the setting out or choose another method"
            )
    layers: tuple[tuple[Giver, Mapping[str, Any]], ...] = (
        ("preset", PRESETS[checked_preset(preset)]),
        ("task", task),
        ("user", user),
        ("method", method),
    )
    givers: dict[str, Giver] = {field.name: "default" for field in dataclasses.fields(Settings)}
    values: dict[str, Any] = {}
    for giver, layer in layers:
        values |= layer
        givers |= dict.fromkeys(layer, giver)
    if method.get("target") == "best" and values.get("label_noise"):
        raise InputError(
            f"label_noise is {values['label_noise']!r}, but method {name_of_method!r} is defined with target = 'best', "
            "which trusts every label; set label_noise to 0 or choose another method"
        )
    return Settings().override(**values), givers


def checked_preset(preset: Any) -> Preset:
    """The preset's name, if there is one."""
    for known in PRESETS:
        if preset == known:
            return known
    raise InputError(f"preset is {preset!r}, expected {' or '.join(map(repr, PRESETS))}")


def checked_seed(seed: Any) -> int:
    """The seed, if every stream and picture can be made from it."""
    found = whole_number("seed", seed)
    if not -(2**63) <= found < 2**63:
        # Counted, since a very long number could not even be printed.
        raise InputError(f"seed has {found.bit_length()} bits, expected at most 63; choose a smaller one")
    return found


def whole_number(name: str, value: Any) -> int:
    """The value as an int, whichever library's it is."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}, expected a whole number") from None


WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a name",
    type: "a class",
    Path: "a path",
    type(None): "null",
}


def choices(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type that it is."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def in_words(hint: Any) -> str:
    """What a type expects, for an error."""
    return " or ".join(
        f"one of {', '.join(map(repr, get_args(kind)))}"
        if get_origin(kind) is Literal
        else WORDS.get(kind, getattr(kind, "__name__", str(kind)))
        for kind in choices(hint)
    )


def check_types(settings: Any, **wider: Any) -> None:
    """Raise for a field whose value is not of its type, or of the wider one that is given for it here.

    Numbers may be of any library; True and False are none.
    """
    for name, hint in (get_type_hints(type(settings)) | wider).items():
        value = getattr(settings, name)
        require(name, value, any(_is_of(value, kind) for kind in choices(hint)), in_words(hint))


def _is_of(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    abstract = {int: numbers.Integral, float: numbers.Real}.get(kind, kind)
    return isinstance(value, abstract) and isinstance(value, bool) == (kind is bool)


def require(name: str, value: Any, fine: bool, expected: str) -> None:
    if not fine:
        raise InputError(f"setting {name} is {value!r}, expected {expected}")
