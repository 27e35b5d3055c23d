"""Settings that no machine could serve, and batches that no encoder could, are named before training."""

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, InputError, Learner, Task, TrainingError
from softpnet.training import memory

TASK = Task(ConceptSpace(slots=1, values=3), lambda c: c[..., 0])
LABELS = torch.arange(9) % 3
INPUTS = torch.rand(9, 1, 1, 4, 4, generator=torch.Generator().manual_seed(0))
ANCHORS = Anchors(INPUTS[:3, 0], torch.arange(3))
SHORT = {"epochs": 1, "warmup_steps": 1, "episodes": 2, "threads": 1}


def flat(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(16 * channels, 4), nn.BatchNorm1d(4))


def fit(task=TASK, inputs=INPUTS, labels=LABELS, **settings):
    return Learner(task, encoder=flat, **SHORT | settings).fit(inputs, labels, ANCHORS, concepts=labels[:, None])


@pytest.mark.parametrize("name", ["working_set", "copies", "episodes", "warmup_examples"])
def test_a_setting_that_needs_more_memory_than_the_machine_has_is_named(name):
    with pytest.raises(InputError, match=rf"{name} is 1,000,000,000, which needs about [\d,]+ GB .*; lower {name}"):
        fit(**{name: 10**9})


def test_a_pool_that_needs_more_memory_than_the_machine_has_is_named():
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
    found = memory.demands(Learner(TASK).settings, TASK.space, INPUTS, [ANCHORS.inputs])
    assert found["batch_size"] == INPUTS.numel() * 4 and found["copies"] >= 4 * ANCHORS.inputs.numel() * 4


def test_an_allocation_that_fails_is_one_sentence():
    with (
        pytest.raises(TrainingError, match=r"not enough memory for a step; lower batch_size"),
        memory.memory_errors_named(),
    ):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="other"), memory.memory_errors_named():
        raise RuntimeError("other")


@pytest.mark.parametrize("method", ["supervised", "abduction"])
def test_a_last_batch_of_one_that_batch_norm_cannot_take_is_named_before_training(method):
    with pytest.raises(InputError, match=r"cannot train on one input alone .* 9 examples in batches of 4 leave one"):
        fit(method=method, batch_size=4)
    fit(method=method, batch_size=5)
    fit(method="softpnet", batch_size=4)  # anchors go through the encoder together with the batch
