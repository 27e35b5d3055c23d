"""Which of the given examples are trained on: infeasible ones may be dropped, and some held out for validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError, about
from softpnet.rules.compile import compilation, is_total, known_labels
from softpnet.task.data import Examples
from softpnet.task.inputs import check_examples, check_inputs
from softpnet.task.lazy import LazyInputs
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.training.streams import stream_seed


def checked_validation(given: Any, settings: Settings, task: Task, input_shape: torch.Size) -> Examples | None:
    """Examples to validate on, if there are any; a share is the settings' matter."""
    if given is not None:
        if not isinstance(given, Examples):
            raise InputError(
                f"validation is {type(given).__name__}, expected a share such as 0.1, or softpnet.Examples(inputs, "
                "labels)"
            )
        if settings.validation:
            raise InputError(
                f"validation is given twice: as examples, and as a share of {settings.validation:g}; leave one out"
            )
        with about("validation set"):
            check_examples(given, task, input_shape)
            given = given._replace(inputs=check_inputs(given.inputs, task.space))
    if given is None and not settings.validation:
        for name, off in (("patience", 0), ("keep", "last")):
            if getattr(settings, name) != off:
                raise InputError(
                    f"{name} is {getattr(settings, name)!r}, but there are no validation examples to judge epochs by; "
                    "give validation=0.1, or examples"
                )
    return given


def without_infeasible(task: Task, examples: Examples) -> Examples:
    """Without those whose label no assignment has."""
    if not is_total(task):
        raise InputError(
            f"infeasible='drop' needs a rule that is compiled exactly, but that of task {task.name!r} is "
            f"{compilation(task)}; drop infeasible examples yourself"
        )
    kept = known_labels(task, examples.labels)
    if not kept.any():
        raise InputError(
            f"no example is left: none of the {len(kept):,} labels is given by any assignment of task {task.name!r}; "
            "correct the labels or the rule"
        )
    return examples if kept.all() else chosen(examples, kept)


def held_out(examples: Examples, share: float, seed: int) -> tuple[Examples, Examples]:
    """The examples to train on, and those to validate on: a share, drawn by a stream of its own."""
    total = len(examples.inputs)
    count = round(share * total)
    if not 0 < count < total:
        raise InputError(
            f"validation is {share:g} of {total:,} examples, which is {count:,}; expected at least one to validate on "
            "and one to train on"
        )
    drawn = torch.randperm(total, generator=Generator().manual_seed(stream_seed(seed, "validation")))
    held = torch.zeros(total, dtype=torch.bool).index_fill_(0, drawn[:count], True)
    return chosen(examples, ~held), chosen(examples, held)


def chosen(examples: Examples, which: Tensor) -> Examples:
    """Some of them, `[N]` of bool, in their order."""
    truth = None if examples.concepts is None else examples.concepts[which]
    lazy, inputs = isinstance(examples.inputs, LazyInputs), examples.inputs
    part = LazyInputs(Part(inputs, which.nonzero().flatten().tolist()), inputs.slots) if lazy else inputs[which]
    return Examples(part, examples.labels[which], truth)


class Part:
    """Some items of a lazy source, read when they are asked for."""

    def __init__(self, inputs: LazyInputs, ids: Sequence[int]) -> None:
        self.inputs, self.ids = inputs, ids

    def __len__(self) -> int:
        return len(self.ids)

    def own(self, which: Sequence[int]) -> list[int]:
        """The numbers that the whole source has for these."""
        return self.inputs.own([self.ids[number] for number in which])

    def why(self, number: int) -> str:
        """Why an item is to be skipped, as the whole source says it."""
        return self.inputs.why(self.ids[number])

    def __getitems__(self, which: Sequence[int]) -> list[Tensor | None]:
        ids = [self.ids[number] for number in which]
        read, items = self.inputs.read(ids)
        found = dict(zip(read, items, strict=True))
        return [found.get(number) for number in ids]
