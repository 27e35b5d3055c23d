"""Two threads and one global random generator: none takes part of what the other one draws."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, InputError, Learner, Task, check_task
from torture.subject import PATIENCE_S

GENERATOR = torch.Generator().manual_seed(0)
CONCEPTS = torch.randint(3, (16, 2), generator=GENERATOR)
INPUTS = torch.rand(16, 2, 1, 8, 8, generator=GENERATOR)
ANCHORS = Anchors(torch.rand(3, 1, 8, 8, generator=GENERATOR), torch.arange(3))
TASK = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="sums")


def encoder(channels):
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64 * channels, 8))


def fit(progress=None, seed=0, watch=None, run=None):
    small = {"epochs": 2, "batch_size": 8, "warmup_steps": 2, "episodes": 2, "copies": 1, "threads": 1}
    model = Learner(TASK, encoder=encoder, seed=seed, **small)
    return model.fit(INPUTS, CONCEPTS.sum(1), ANCHORS, progress=progress, watch=watch, run=run)


def weights(model):
    return torch.cat([parameter.flatten() for parameter in model.module.parameters()])


def in_thread(function):
    with ThreadPoolExecutor(1, "other") as pool:
        return pool.submit(function).exception(timeout=PATIENCE_S)


@pytest.mark.parametrize("what", ["fit", "load", "check"])
def test_while_one_thread_trains_another_one_is_refused_and_the_training_does_not_notice(what, tmp_path):
    alone = weights(fit(run=tmp_path / "run"))
    others = {
        "fit": lambda: fit(seed=1),
        "load": lambda: Learner.load(tmp_path / "run", task=TASK, encoder=encoder),
        "check": lambda: check_task(TASK),
    }
    refused = []
    model = fit(progress=lambda step: refused.append(in_thread(others[what])) if step.step == 1 else None)
    assert len(refused) == 3 and all(isinstance(error, InputError) for error in refused)
    assert "thread 'MainThread' is training" in str(refused[0]) and "a process of its own" in str(refused[0])
    assert torch.equal(weights(model), alone)
    assert in_thread(others[what]) is None, "the turn was not given back"


def test_a_training_may_train_and_load_in_its_own_thread(tmp_path):
    alone = weights(fit(run=tmp_path / "run"))

    def look(model, state):
        other = Learner.load(tmp_path / "run", task=TASK, encoder=encoder)
        assert torch.equal(weights(fit()), alone)
        return {"same": float(torch.equal(weights(other), alone))}

    watched = fit(watch=look)
    assert torch.equal(weights(watched), alone) and [epoch["same"] for epoch in watched.history] == [1.0, 1.0]


def test_a_training_that_failed_gives_the_turn_back():
    with pytest.raises(ZeroDivisionError):
        fit(progress=lambda step: 1 / 0)
    assert in_thread(fit) is None


def test_threads_that_make_networks_at_the_same_time_wait_for_each_other(tmp_path):
    alone = weights(fit(run=tmp_path / "run"))
    together = threading.Barrier(4)

    def load(_):
        together.wait(PATIENCE_S)
        return weights(Learner.load(tmp_path / "run", task=TASK, encoder=encoder))

    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(found, alone) for found in pool.map(load, range(4), timeout=PATIENCE_S))
