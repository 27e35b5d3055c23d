"""What a task trains and is judged on, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError, TaskError, about, user_code
from softpnet.task.concepts import ConceptSpace, check_name
from softpnet.task.integers import as_int64, as_tensor, is_integer
from softpnet.task.lazy import LazyInputs, as_inputs, numbers

if TYPE_CHECKING:
    from softpnet.task.task import Task


Inputs = Tensor | LazyInputs
"""One input per slot of every example: a tensor `[N, n, *shape]`, or what is read when a batch asks for it."""


class Examples(NamedTuple):
    """Inputs with their labels, and the true concepts where they are known.

    Concepts are there to judge by; of all methods only one that declares `needs_concepts` trains on them.
    """

    inputs: Any
    """`[N, n, *shape]`: a tensor, or a source that has len() and gives an example `[n, *shape]` by its number."""
    labels: Tensor
    """`[N]` or `[N, m]`."""
    concepts: Tensor | None = None
    """`[N, k]`."""


class Anchors(NamedTuple):
    """Labelled inputs of a group: one or several of a primitive; none of one that the rule tells from all others."""

    inputs: Tensor
    """`[M, *shape]`."""
    concepts: Tensor
    """`[M]` primitive ids, or `[M, a]` attribute values."""

    @classmethod
    def at(cls, space: ConceptSpace, inputs: Any, slots: Any, concepts: Any, group: str | None = None) -> Anchors:
        """Training slots whose concepts somebody has confirmed: `sp.Anchors.at(task.space, inputs, [[12, 1]], [7])`.

        Args:
            inputs: the training inputs `[N, n, *shape]`, or their source, of which only these examples are read.
            slots: rows `[M, 2]`, the number of an example and of a slot in it; as `suggest_anchors` names them.
            concepts: what each shows, as in any Anchors.
            group: the group that reads these slots, where there are several.
        """
        from softpnet.task.confirmed import confirmed_slots  # which checks inputs, and so needs what is defined here

        return cls(*confirmed_slots(space, inputs, slots, concepts, group))

    def joined(self, more: Anchors) -> Anchors:
        """These and more of the same group."""
        both = [[numbers(each.inputs), torch.as_tensor(each.concepts)] for each in (self, more)]
        shapes = [[list(part.shape[1:]) for part in each] for each in both]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"anchors with inputs and concepts of size {shapes[1]} cannot be joined to those of {shapes[0]}; give "
                "both the same size, and concepts as numbers of primitives or as attribute values in both"
            )
        return Anchors(*map(torch.cat, zip(*both, strict=True)))


class Data(NamedTuple):
    """What a task trains and is judged on."""

    train: Examples
    """Inputs and labels to train on."""
    anchors: Anchors | Mapping[str, Anchors]
    """By group name where there are several groups."""
    tests: Mapping[str, Examples]
    """By name; the first one is the split that is reported."""


def make_data(task: Task, streams: Callable[[str], Generator]) -> Data:
    """The task's data, checked."""
    if task.data is None:
        raise InputError(
            f"task {task.name!r} has no data: give it data=..., a function from random streams to softpnet.Data, "
            "or train from Python with Learner(task).fit(inputs, labels, anchors)"
        )
    with user_code(f"the data of task {task.name!r} cannot be made"):
        data = task.data(streams)
    if not isinstance(data, Data):
        raise TaskError(f"the data of task {task.name!r} is {type(data).__name__}, expected a softpnet.Data")
    if not isinstance(data.tests, Mapping):
        raise TaskError(
            f"the test sets of task {task.name!r} are {type(data.tests).__name__}, expected a dict by name, "
            "{'test': Examples(...)}"
        )
    if not data.tests:
        raise TaskError(f"the data of task {task.name!r} has no test set; give tests={{'test': Examples(...)}}")
    for name in data.tests:
        check_name(f"a test set of task {task.name!r}", name)
    tests = {name: _whole(f"test set {name!r}", examples, task.space) for name, examples in data.tests.items()}
    return Data(_whole("training set", data.train, task.space), _plain(data.anchors), tests)


def _plain(anchors: Any) -> Any:
    """Anchors, by group or of the only one, with tensors in place of lists and arrays."""
    if isinstance(anchors, Mapping):
        return {name: _plain(own) for name, own in anchors.items()}
    return Anchors(*map(as_tensor, anchors)) if isinstance(anchors, Anchors) else anchors


def _whole(name: str, examples: Any, space: ConceptSpace) -> Examples:
    """The examples, with labels and concepts of whatever whole type as int64; a source of inputs is made lazy."""
    if not isinstance(examples, Examples):
        raise TaskError(f"the {name} is {type(examples).__name__}, expected softpnet.Examples(inputs, labels)")
    with about(name):
        examples = examples._replace(inputs=as_inputs(examples.inputs, space))
    parts = {part: as_tensor(value) for part, value in examples._asdict().items() if part != "inputs"}
    return examples._replace(
        **{
            part: as_int64(value, f"the {part} of the {name}") if is_integer(value) else value
            for part, value in parts.items()
        }
    )
