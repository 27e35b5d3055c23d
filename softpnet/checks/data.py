"""Checks of a task's data: examples, anchors, and an encoder that takes them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

from torch import Tensor

from softpnet.checks.report import count
from softpnet.checks.subject import NotApplicable, Subject, warned
from softpnet.errors import InputError, TaskError, about
from softpnet.rules.labels import unique_labels, unknown_in
from softpnet.task.anchors import arrange_anchors, check_kinds
from softpnet.task.data import Anchors, Data, Inputs
from softpnet.task.inputs import check_concepts, check_data, check_inputs, check_kind, check_labels, needed_concepts
from softpnet.task.integers import any_entry
from softpnet.task.lazy import LazyInputs
from softpnet.task.task import AUTO
from softpnet.training.streams import Streams


def data_is_there(subject: Subject) -> str:
    if subject.task.data is None:
        return warned(
            "the task has no data=...: `softpnet train` refuses it, and it can only be trained from Python, by "
            "Learner(task).fit(inputs, labels, anchors)"
        )
    data = subject.data  # which is checked when it is made
    return f"a training set and {count(len(data.tests), 'test set')}: {', '.join(map(repr, data.tests))}"


def data_is_repeatable(subject: Subject) -> str:
    one, other = _tensors(subject.data), _tensors(subject.new_data())
    differs = [name for name in one if name not in other or not _same(one[name], other[name])]
    if differs:
        raise TaskError(
            f"the {differs[0]} differ between two calls with the same seed; "
            "draw every random number with generator=streams('some name')"
        )
    return f"two calls with seed {subject.seed} gave the same data"


def inputs_are_inputs(subject: Subject) -> str:
    background = subject.task.background
    for name, examples in subject.sets():
        with about(name):
            check_inputs(examples.inputs, subject.task.space)
        shape, size = list(examples.inputs.shape[2:]), list(subject.data.train.inputs.shape[2:])
        if shape != size:
            raise InputError(f"{name}: inputs have size {shape}, but the training inputs have {size}; resize them")
        shown = _read_some(name, examples.inputs)
        check_kind(f"{name}: inputs", shown.dtype, "the training inputs", subject.data.train.inputs.dtype)
        if len(shape) != 3 or not shown.is_floating_point() or not len(shown):
            continue  # no images, or bytes, which become 0 to 1
        low, high = (float(each) for each in shown.aminmax())
        if low < 0 or high > 1:
            warnings.warn(f"{name}: pixels go from {low:.3g} to {high:.3g}, expected 0 to 1; scale them", stacklevel=2)
        slack = 0.1 * (high - low)  # noise may keep pixels from the value that they stand for
        if subject.task.augment == AUTO and not low - slack <= background <= high + slack:
            warnings.warn(
                f"{name}: background is {background}, but pixels go from {low:.3g} to {high:.3g}, so that augmented "
                "inputs get a frame which no image has; set background to the value around what is shown",
                stacklevel=2,
            )
    inputs = subject.data.train.inputs
    looked = f" in the {len(inputs.sample()):,} that were looked at" if isinstance(inputs, LazyInputs) else ""
    fine = f"finite{', from 0 to 1' if len(size) == 3 else ''}{looked}"
    return f"{count(len(inputs), 'training example')} with inputs of size {size}, {fine}"


def labels_are_labels(subject: Subject) -> str:
    for name, examples in subject.sets():
        with about(name):
            check_labels(examples.labels, len(examples.inputs), subject.task)
    return "integers, one per example, in the form that the rule gives"


def concepts_agree(subject: Subject) -> str:
    """Where the true concepts are given, the rule gives the label from them."""
    space, total, differs = subject.task.space, 0, ""
    train, allowed = subject.data.train, subject.model.settings.label_noise
    if subject.model.method_class.needs_concepts:
        needed_concepts(train.concepts, len(train.inputs), space, subject.model.method)
    for name, examples in subject.sets():
        if examples.concepts is None:
            continue
        with about(name):
            labels = check_labels(examples.labels, len(examples.inputs), subject.task)
            concepts = check_concepts(examples.concepts, len(examples.inputs), space)
        given = subject.task.rule(concepts.clone())
        wrong = any_entry((given != labels) & ~unknown_in(subject.task, labels))
        share = float(wrong.double().mean())
        if wrong.any() and examples is train and allowed:
            differs = (
                f"; of the training examples {int(wrong.sum()):,} of {len(labels):,} differ, {100 * share:.1f} %, "
                f"and label_noise allows {100 * allowed:g} %"
            )
        elif wrong.any():
            at = int(wrong.nonzero()[0])
            noise = math.ceil(100 * share) / 100
            allow = (
                f", or say how many may be wrong: --label-noise {noise:g}" if examples is train and share < 0.5 else ""
            )
            raise InputError(
                f"{name}: example {at} has concepts {concepts[at].tolist()} and label {labels[at].tolist()}, but the "
                f"rule gives {given[at].tolist()} ({int(wrong.sum()):,} of {len(labels):,} examples differ); correct "
                f"the labels, the concepts or the rule{allow}"
            )
        strange = ~space.consist_of_primitives(concepts)
        if strange.any():
            at = int(strange.nonzero()[0])
            warnings.warn(
                f"{name}: example {at} has concepts {concepts[at].tolist()}, among them values whose combination is no "
                f"primitive ({int(strange.sum()):,} of {len(labels):,} examples), so that no prototype stands for it; "
                "add the primitive and its anchor, or correct the concepts",
                stacklevel=2,
            )
        total += len(concepts) - int(wrong.sum())
    if not total:
        raise NotApplicable("the true concepts are not given")
    return f"the rule gives the label of {count(total, 'example')} whose concepts are known{differs}"


def anchors_are_complete(subject: Subject) -> str:
    data = subject.data
    anchors = arrange_anchors(subject.task.space, data.anchors, data.train.inputs.shape[2:])
    check_kinds(subject.task.space, data.train.inputs, anchors)
    inputs, shown = sum(len(own.inputs) for own in anchors), sum(len(own.anchored()[0]) for own in anchors)
    return f"{count(inputs, 'input')} of {count(shown, 'primitive')}"


def encoder_gives_vectors(subject: Subject) -> str:
    """The encoders are made and tried as `fit` does it."""
    shape = subject.data.train.inputs.shape[2:]
    anchors = arrange_anchors(subject.task.space, subject.data.anchors, shape)
    encoders = subject.model.encoders(anchors, Streams(subject.seed))
    return f"inputs become vectors, by {', '.join(type(encoder).__name__ for encoder in encoders.values())}"


def training_starts(subject: Subject) -> str:
    """Runs what `train` runs before its first step, so that what it would refuse is known now."""
    data, model = subject.data, subject.model
    check_data(subject.task, data)
    training = model.prepared(data.train.inputs, data.train.labels, data.anchors, data.train.concepts)
    labels = count(len(unique_labels(training.labels)[0]), "label")
    return f"method {model.method!r} can start on {count(len(training.labels), 'example')} with {labels}"


def _read_some(name: str, inputs: Inputs) -> Tensor:
    """The inputs; of a source, some; where one of these is to be skipped, a warning says so."""
    if not isinstance(inputs, LazyInputs):
        return inputs
    asked = inputs.sampled()
    read, shown = inputs.read(asked)
    if len(read) < len(asked):
        some = f" of the {len(asked)} that were looked at" if len(asked) < len(inputs) else ""
        warnings.warn(f"{name}: {inputs.lost(set(asked) - set(read))}{some}, and are left out", stacklevel=3)
    return shown


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether both hold the same values, NaN included."""
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _tensors(data: Data) -> dict[str, Tensor]:
    """Everything in the data that is a tensor, by what a person calls it."""
    sets = {"training": data.train, **{f"test ({name})": examples for name, examples in data.tests.items()}}
    named = {f"{name} {part}": value for name, examples in sets.items() for part, value in examples._asdict().items()}
    groups = data.anchors if isinstance(data.anchors, Mapping) else {"": data.anchors}
    for name, anchors in groups.items():
        if isinstance(anchors, Anchors):
            named |= {f"anchor {part} {name}".strip(): value for part, value in anchors._asdict().items()}
    return {name: value for name, value in named.items() if isinstance(value, Tensor)}
