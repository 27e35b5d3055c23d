"""A task's data is looked at as soon as it is made: what training or judging would stumble over is refused at once."""

import numpy
import pytest
import torch

from softpnet import Anchors, ConceptSpace, Data, Examples, InputError, Task, TaskError, check_task
from softpnet.rules.make_cache import make_cache
from softpnet.task.data import make_data
from softpnet.task.inputs import check_data
from softpnet.training.streams import Streams

SPACE = ConceptSpace(slots=2, values=3)
CONCEPTS = SPACE.all()
TRAIN = Examples(torch.rand(9, 2, 1, 8, 8, generator=torch.Generator().manual_seed(0)), CONCEPTS.sum(-1), CONCEPTS)
ANCHORS = Anchors(torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(3))


def made(tests, train=TRAIN):
    """The data of a task with these test sets, made and looked at as `softpnet train` does it."""
    task = Task(SPACE, lambda c: c.sum(-1), name="sums", data=lambda streams: Data(train, ANCHORS, tests))
    data = make_data(task, Streams(0))
    check_data(task, data)
    return data


@pytest.mark.parametrize(
    "changes, says",
    [
        (
            {"inputs": torch.zeros(9, 2, 1, 9, 9)},
            r"inputs have size \[1, 9, 9\], but the training inputs have \[1, 8, 8\]",
        ),
        ({"inputs": torch.zeros(9, 2, 3, 8, 8)}, r"inputs have size \[3, 8, 8\], but the training inputs"),
        ({"inputs": torch.zeros(9)}, "inputs have rank 1"),
        ({"inputs": None}, "inputs are NoneType"),
        ({"labels": CONCEPTS}, r"labels have shape \[9, 2\], but the rule gives \[N\]"),
        ({"labels": None}, "labels are NoneType"),
        ({"concepts": CONCEPTS[:, :1]}, r"concepts are torch.int64 \[9, 1\], expected an integer tensor \[9, 2\]"),
        ({"concepts": CONCEPTS.float()}, "concepts are torch.float32"),
        ({"concepts": str(CONCEPTS)}, "concepts are str"),
        ({"concepts": CONCEPTS + 1}, r"concepts \[1, 3\] of example 2 lie outside the space"),
    ],
)
def test_a_test_set_that_could_not_be_judged_on_is_refused_before_training(changes, says):
    made({"test": TRAIN})
    with pytest.raises(InputError, match=f"test set 'hard': {says}"):
        made({"test": TRAIN, "hard": TRAIN._replace(**changes)})


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"inputs": TRAIN.inputs[:, 0, 0, 0, 0]}, "inputs have rank 1"),
        ({"labels": CONCEPTS}, r"labels have shape \[9, 2\]"),
        ({"concepts": str(CONCEPTS)}, "concepts are str"),
        ({"concepts": CONCEPTS - 1}, r"concepts \[-1, -1\] of example 0 lie outside the space"),
    ],
)
def test_a_training_set_that_is_none_is_refused_whatever_the_method_looks_at(changes, says):
    with pytest.raises(InputError, match=f"training set: {says}"):
        made({"test": TRAIN}, train=TRAIN._replace(**changes))


@pytest.mark.parametrize("name", ["", "two\nlines", "\x1b[31mred", "x" * 101, 3, None, ("a", "b")])
def test_a_test_set_s_name_must_be_printable(name):
    with pytest.raises(
        TaskError, match=r"a test set of task 'sums' is named .*; expected 1 to 100 printable characters"
    ):
        made({name: TRAIN})


@pytest.mark.parametrize("name", ["", "two\nlines", "\x1b[31mred", 3, None])
def test_a_task_s_name_must_be_printable(name):
    with pytest.raises(TaskError, match=r"a task is named .*; expected 1 to 100 printable characters"):
        Task(SPACE, lambda c: c.sum(-1), name=name)


@pytest.mark.parametrize(
    "tests, says",
    [
        ([TRAIN], r"the test sets of task 'sums' are list, expected a dict by name, {'test': Examples\(...\)}"),
        (TRAIN, "the test sets of task 'sums' are Examples, expected a dict by name"),
        ({"test": tuple(TRAIN)}, "the test set 'test' is tuple, expected softpnet.Examples"),
    ],
)
def test_test_sets_come_as_examples_by_name(tests, says):
    with pytest.raises(TaskError, match=says):
        made(tests)


def test_a_training_set_comes_as_examples():
    with pytest.raises(TaskError, match=r"the training set is Tensor, expected softpnet.Examples"):
        made({"test": TRAIN}, train=TRAIN.inputs)


def test_data_that_cannot_be_made_says_what_was_raised_and_where():
    def data(streams):
        return {}["images"]

    task = Task(SPACE, lambda c: c.sum(-1), name="sums", data=data)
    line = data.__code__.co_firstlineno + 1
    says = f"the data of task 'sums' cannot be made: test_data.py, line {line}, in data, raised KeyError: 'images'"
    with pytest.raises(TaskError, match=says):
        make_data(task, Streams(0))
    assert says in check_task(task)["data"].message


def test_rows_that_cannot_be_made_say_what_was_raised_and_where():
    task = Task(SPACE, lambda c: c.sum(-1), name="sums", rows=lambda generator: 1 // 0)
    says = r"the rows of task 'sums' cannot be made: test_data.py, line \d+, in <lambda>, raised ZeroDivisionError"
    with pytest.raises(TaskError, match=says):
        make_cache(task, torch.Generator().manual_seed(0))


def test_labels_and_concepts_of_any_whole_type_become_int64():
    small = Examples(
        TRAIN.inputs, TRAIN.labels.to(torch.uint16), torch.from_numpy(CONCEPTS.numpy().astype(numpy.uint64))
    )
    data = made({"test": small}, train=small)
    for examples in (data.train, data.tests["test"]):
        assert examples.labels.dtype == examples.concepts.dtype == torch.int64
        assert torch.equal(examples.labels, TRAIN.labels) and torch.equal(examples.concepts, CONCEPTS)


def test_labels_beyond_63_bits_name_their_set():
    large = torch.full((9,), 2**63 - 1).to(torch.uint64)
    large[4] = torch.tensor([2**63], dtype=torch.uint64)[0]
    with pytest.raises(InputError, match=f"the labels of the test set 'test' hold {2**63}, expected .* up to 63 bits"):
        made({"test": TRAIN._replace(labels=large)})
