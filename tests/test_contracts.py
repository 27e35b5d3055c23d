"""Every task and every method that is found keeps the contract: one tiny training each."""

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet import methods, tasks
from softpnet.training.streams import Streams

# so few examples that a training takes a second, in the words of each task's own options
SMALL = {
    "mnist_evenodd": {"train": 16},
    "visual_sudoku": {"train": 4},
    "kand_logic": {"train": 16, "test": 8, "cached": 500},
}
QUICK = {
    "epochs": 2,
    "batch_size": 8,
    "warmup_steps": 1,
    "episodes": 2,
    "copies": 1,
    "working_set": 5,
    "kbest_pool": 64,
}


def small_encoder(channels):
    """What a method's own encoder learns is held in tests/methods/test_golden.py."""
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(49 * channels, 8))


SOURCES = ("cache", "kbest", "exact", "auto")


@pytest.fixture(scope="module")
def prepared():
    """Each task with its data, made once."""
    made = {}

    def prepare(name):
        if name not in made:
            task = tasks.load(name, SMALL.get(name))
            made[name] = (task, task.data(Streams(0)))
        return made[name]

    return prepare


def fit(task, data, method="softpnet", seed=0, **settings):
    free = {name: value for name, value in QUICK.items() if name not in methods.find(method).fixed}
    model = sp.Learner(task, method=method, seed=seed, encoder=small_encoder, **(free | settings))
    return model.fit(data.train.inputs, data.train.labels, data.anchors, concepts=data.train.concepts)


@pytest.mark.parametrize("method", methods.names())
@pytest.mark.parametrize("name", tasks.names())
def test_a_tiny_training_gives_a_usable_model(prepared, name, method):
    task, data = prepared(name)
    model = fit(task, data, method)
    examples = next(iter(data.tests.values()))
    few = sp.Examples(*(part[:6] for part in examples))
    found = model.predict(few.inputs)
    assert found.concepts.shape == (6, task.space.k) and task.space.contains(found.concepts).all()
    assert torch.equal(found.labels, task.rule(found.concepts))
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(6, task.space.k))
    assert torch.equal(found.probabilities.argmax(-1), found.concepts)
    assert all(0 <= value <= 1 for key, value in model.score(*few).items() if key != "gap")
    assert len(model.history) == 2 and all(record["seconds"] > 0 for record in model.history)


@pytest.mark.parametrize("name", tasks.names())
def test_the_same_seed_gives_the_same_weights_and_another_does_not(prepared, name):
    task, data = prepared(name)
    one, two, other = (fit(task, data, seed=seed, epochs=1).module.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("candidates", SOURCES)
@pytest.mark.parametrize("name", tasks.names())
def test_every_candidate_source_trains_every_task(prepared, name, candidates):
    task, data = prepared(name)
    model = fit(task, data, targets=candidates, views=candidates == "auto")
    assert all(record["loss_kl"] > -1e-6 for record in model.history)


@pytest.mark.filterwarnings("ignore:.*none of many random assignments")
def test_a_label_too_rare_for_the_pool_stops_the_training_where_nothing_is_compiled(prepared, uncompiled):
    """A valid board is not among the most probable assignments of a network that has learned nothing yet."""
    task, data = prepared("visual_sudoku")
    with pytest.raises(sp.TrainingError, match="2 of 4 examples had no candidate"):
        fit(uncompiled(task), data, targets="kbest")


@pytest.mark.parametrize("name", tasks.names())
def test_training_leaves_the_global_random_state_alone(prepared, name):
    import random

    import numpy

    task, data = prepared(name)
    before = (torch.random.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist())
    fit(task, data, epochs=1, views=True)
    after = (torch.random.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist())
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]


@pytest.mark.parametrize("name", tasks.names())
def test_moves_and_corruptions_keep_their_word(prepared, name):
    task, data = prepared(name)
    generator = torch.Generator().manual_seed(0)
    rows = data.train.concepts[:, None].expand(-1, 30, -1)
    labels = task.rule(rows)
    if task.corrupt is not None:
        rows = rows[data.train.labels == task.corrupt.source]
        labels = task.rule(rows)
        assert (task.rule(task.corrupt.apply(rows, generator)) == task.corrupt.label).all()
    if task.move is not None:
        moved = task.move(rows, generator)
        assert torch.equal(task.rule(moved), labels) and (moved != rows).any()
