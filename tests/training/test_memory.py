"""Settings that no machine could serve, and batches that no encoder could, are named before training."""

import numpy
import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Group, InputError, Learner, Task, TrainingError
from softpnet.cli import main
from softpnet.task.anchors import AnchorSet
from softpnet.training import memory
from softpnet.training.prepare import check_last_batch

TASK = Task(ConceptSpace(slots=1, values=3), lambda c: c[..., 0])
LABELS = torch.arange(9) % 3
INPUTS = torch.rand(9, 1, 1, 4, 4, generator=torch.Generator().manual_seed(0))
ANCHORS = Anchors(INPUTS[:3, 0], torch.arange(3))
SHORT = {"epochs": 1, "warmup_steps": 1, "episodes": 2, "threads": 1}


def flat(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(16 * channels, 4), nn.BatchNorm1d(4))


def fit(task=TASK, inputs=INPUTS, labels=LABELS, **settings):
    return Learner(task, encoder=flat, **SHORT | settings).fit(inputs, labels, ANCHORS, concepts=labels[:, None])


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 8 * 10**9)


@pytest.mark.parametrize("name", ["working_set", "copies", "episodes", "warmup_examples"])
def test_a_setting_that_needs_more_memory_than_the_machine_has_is_named(name, small_machine):
    with pytest.raises(InputError, match=rf"{name} is 1,000,000,000, which needs about [\d,]+ GB .*; lower {name}"):
        fit(**{name: 10**9})


def test_a_pool_that_needs_more_memory_than_the_machine_has_is_named(small_machine):
    task = Task(ConceptSpace(slots=20, values=4), lambda c: c.sum(-1))
    inputs = INPUTS[:, :1].expand(-1, 20, -1, -1, -1)
    anchors = Anchors(INPUTS[:4, 0], torch.arange(4))
    with pytest.raises(InputError, match=r"kbest_pool is 1,000,000,000, which needs about .*; lower kbest_pool"):
        Learner(task, encoder=flat, kbest_pool=10**9, targets="kbest", **SHORT).fit(inputs, LABELS, anchors)


@pytest.mark.parametrize("name", ["batch_size", "epochs", "walk_steps", "kbest_pool"])
def test_a_count_beyond_all_bounds_is_refused(name):
    with pytest.raises(InputError, match=rf"setting {name} is 1{'0' * 30}, expected a whole number of at most"):
        Learner(TASK, **{name: 10**30})


def test_what_is_asked_for_counts_what_a_training_allocates():
    found = memory.demands(
        Learner(TASK).settings, TASK.space, INPUTS, [AnchorSet(ANCHORS.inputs, torch.arange(len(ANCHORS.inputs)))]
    )
    assert found["batch_size"] == INPUTS.numel() * 4 and found["copies"] >= 4 * ANCHORS.inputs.numel() * 4


def test_an_allocation_that_fails_is_one_sentence():
    with (
        pytest.raises(TrainingError, match=r"^there is not enough memory for a step; lower batch_size"),
        memory.memory_errors_named("this command", "give it less"),
        memory.step_memory_errors_named(),
    ):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="other"), memory.step_memory_errors_named():
        raise RuntimeError("other")


@pytest.mark.parametrize(
    "asks",
    [
        lambda: torch.empty(2**60, dtype=torch.uint8),
        lambda: torch.empty(2**60, 2**60),
        lambda: bytearray(2**62),
        lambda: numpy.empty(2**50),
    ],
)
def test_memory_that_a_command_does_not_get_is_one_sentence(asks, softpnet_here, monkeypatch):
    monkeypatch.setattr(main.COMMANDS["evaluate"], "run", lambda self: asks())
    code, _, error = softpnet_here("evaluate", "run")
    assert code == 2 and error.count("\n") == 1 and "not enough memory for this command; give it less at once" in error


@pytest.mark.parametrize("method", ["supervised", "abduction"])
def test_a_last_batch_of_one_that_batch_norm_cannot_take_is_named_before_training(method):
    with pytest.raises(InputError, match=r"cannot train on one input alone .* 9 examples in batches of 4 leave one"):
        fit(method=method, batch_size=4)
    fit(method=method, batch_size=5)
    fit(method="softpnet", batch_size=4)  # anchors go through the encoder together with the batch


@pytest.mark.parametrize("batch_size, better", [(1, 3), (2, 3), (4, 5)])
def test_a_batch_size_that_leaves_no_example_alone_is_proposed(batch_size, better):
    with pytest.raises(InputError, match=rf"batches of {batch_size} leave one .* choose batch_size = {better},"):
        fit(method="abduction", batch_size=batch_size)
    fit(method="abduction", batch_size=better)


def test_an_encoder_that_reads_one_of_several_slots_is_tried_on_it_alone():
    space = ConceptSpace(Group((0, 1), 3, name="a"), Group((2,), 3, name="b"))
    task = Task(space, lambda c: c[..., 2])
    anchors = {"a": ANCHORS, "b": ANCHORS}
    inputs = INPUTS.expand(-1, 3, -1, -1, -1)
    with pytest.raises(InputError, match="cannot train on one input alone"):
        Learner(task, encoder=flat, method="abduction", batch_size=4, **SHORT).fit(inputs, LABELS, anchors)


def test_of_several_processes_each_has_its_own_last_batch():
    module = Learner(TASK, encoder=flat, method="abduction", **SHORT).prepared(INPUTS, LABELS, ANCHORS).module
    check_last_batch(module, 4, INPUTS, processes=2)  # four examples each
    with pytest.raises(InputError, match="4 examples in batches of 3 leave one"):
        check_last_batch(module, 3, INPUTS, processes=2)
