"""Test examples that can be judged: those whose inputs can be read."""

from __future__ import annotations

import warnings

import torch

from softpnet.errors import about
from softpnet.networks.reader import AT_ONCE
from softpnet.task.data import Data, Examples
from softpnet.task.lazy import LazyInputs, read_parts
from softpnet.training.split import chosen


def judgeable(data: Data) -> Data:
    """The data without test examples that are to be skipped, which a warning names.

    A source is read once for that: what it raises is raised before an hour of training, not after it.
    """
    return data._replace(tests={name: _readable(f"test set {name!r}", each) for name, each in data.tests.items()})


def _readable(name: str, examples: Examples) -> Examples:
    inputs = examples.inputs
    if not isinstance(inputs, LazyInputs):
        return examples
    read = torch.zeros(len(inputs), dtype=torch.bool)
    with about(name):
        for ids, _ in read_parts(inputs, torch.arange(len(inputs)).split(max(1, AT_ONCE // inputs.slots))):
            read[ids] = True
        if read.all():
            return examples
        lost = (~read).nonzero().flatten().tolist()
        warnings.warn(
            f"{name}: {inputs.lost(lost)}; {len(lost):,} of {len(read):,} examples are left out of it", stacklevel=2
        )
        return chosen(examples, read)
