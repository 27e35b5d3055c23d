"""Anchors as people have them: several of a value, different numbers, none of some."""

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet.methods.softpnet import Method
from softpnet.task.anchors import AnchorSet, arrange_anchors
from softpnet.task.settings import Settings

SPACE = sp.ConceptSpace(slots=2, values=3)
TASK = sp.Task(SPACE, lambda c: c[..., 0] * 3 + c[..., 1], augment=None)
SMALL = {"epochs": 3, "batch_size": 8, "warmup_steps": 20, "copies": 1, "threads": 1, "augment_inputs": False}


def vectors(values, seed=0):
    """Values `[...]` -> noisy one-hot vectors `[..., 3]`."""
    noise = torch.randn(*values.shape, 3, generator=torch.Generator().manual_seed(seed))
    return nn.functional.one_hot(values, 3) + 0.1 * noise


CONCEPTS = torch.randint(3, (64, 2), generator=torch.Generator().manual_seed(0))
INPUTS, LABELS = vectors(CONCEPTS), TASK.rule(CONCEPTS)


def encoder(size):
    return nn.Sequential(nn.Linear(size, 16), nn.ReLU(), nn.Linear(16, 8))


def test_anchors_are_put_in_the_order_of_their_primitives():
    shown = torch.tensor([2, 0, 2, 0, 2])
    (found,) = arrange_anchors(
        SPACE, sp.Anchors(10.0 * shown[:, None] + torch.arange(5)[:, None], shown), torch.Size([1])
    )
    assert found.primitives.tolist() == [0, 0, 2, 2, 2] and found.inputs.flatten().tolist() == [1, 3, 20, 22, 24]
    values, counts = found.anchored()
    assert (values.tolist(), counts.tolist()) == ([0, 2], [2, 3])
    assert found.one_of_each(3).flatten().tolist() == [1, 0, 20]  # blank where there is none


def test_of_several_anchors_of_a_value_every_step_shows_any_of_them_and_no_other_value_s():
    shown = torch.tensor([0, 0, 0, 2, 2])
    method = Method(TASK, Settings(copies=99), [AnchorSet(torch.arange(5.0)[:, None], shown)])
    (drawn,) = method.augmented_anchors(torch.Generator().manual_seed(0))  # [100, 2, 1]
    assert set(drawn[:, 0].flatten().tolist()) == {0, 1, 2} and set(drawn[:, 1].flatten().tolist()) == {3, 4}


def test_one_anchor_of_each_value_draws_no_random_number():
    method = Method(TASK, Settings(), [AnchorSet(torch.rand(3, 3), torch.arange(3))])
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    (drawn,) = method.augmented_anchors(generator)
    assert torch.equal(drawn, method.anchors[0].inputs.expand(4, 3, 3)) and torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("preset", ["best", "paper"])
@pytest.mark.parametrize("shown", [[0, 1, 2], [2, 2, 1, 0, 0, 0]])
def test_one_or_several_anchors_of_a_value_teach_every_concept(preset, shown):
    shown = torch.tensor(shown)
    model = sp.Learner(TASK, encoder=encoder, preset=preset, seed=0, learning_rate=0.01, **SMALL)
    model.fit(INPUTS, LABELS, sp.Anchors(vectors(shown, seed=1), shown))
    assert torch.equal(model.predict(INPUTS).concepts, CONCEPTS)


@pytest.mark.parametrize("method", ["softpnet", "abduction_anchored", "pnet_sl"])
def test_a_value_without_an_anchor_is_learned_from_the_rule(method, tmp_path):
    shown = torch.tensor([0, 2, 2])
    model = sp.Learner(TASK, encoder=encoder, method=method, seed=0, learning_rate=0.01, **SMALL | {"epochs": 10})
    model.fit(INPUTS, LABELS, sp.Anchors(vectors(shown, seed=1), shown))
    assert torch.equal(model.predict(INPUTS).concepts, CONCEPTS)
    model.save(tmp_path / "model")
    again = sp.Learner.load(tmp_path / "model", task=TASK, encoder=encoder)
    assert torch.equal(again.predict(INPUTS).probabilities, model.predict(INPUTS).probabilities)
    assert all(map(torch.equal, again.anchors[0], model.anchors[0]))


def test_sequences_of_token_ids_are_read_by_an_encoder_that_takes_them(tmp_path):
    words = torch.stack([CONCEPTS, CONCEPTS + 3, CONCEPTS], dim=-1)  # [N, n, 3], "sentences" of three tokens
    task = sp.Task(SPACE, TASK.rule)
    reader = lambda length: nn.Sequential(nn.Embedding(6, 8), nn.Flatten(), nn.Linear(8 * length, 8))  # noqa: E731
    values = torch.arange(3)
    anchors = sp.Anchors(torch.stack([values, values + 3, values], dim=-1), values)
    model = sp.Learner(task, encoder=reader, seed=0, learning_rate=0.01, **SMALL).fit(words, LABELS, anchors)
    assert torch.equal(model.predict(words).concepts, CONCEPTS)
    model.save(tmp_path / "model")
    assert torch.equal(sp.Learner.load(tmp_path / "model", task=task, encoder=reader).predict(words).concepts, CONCEPTS)


def test_vectors_are_augmented_by_noise_unless_the_task_says_otherwise():
    method = Method(sp.Task(SPACE, TASK.rule), Settings(), [AnchorSet(vectors(torch.arange(3)), torch.arange(3))])
    (drawn,) = method.augmented_anchors(torch.Generator().manual_seed(0))
    apart = (drawn[1:] - drawn[0]).std() / drawn[0].std(-1).mean()
    assert torch.equal(drawn[0], method.anchors[0].inputs) and 0.05 < apart < 0.2


def test_vectors_need_no_encoder_and_whole_numbers_do():
    model = sp.Learner(TASK, seed=0, **SMALL).fit(INPUTS, LABELS, sp.Anchors(vectors(torch.arange(3)), torch.arange(3)))
    assert torch.equal(model.predict(INPUTS).concepts, CONCEPTS)
    with pytest.raises(sp.InputError, match=r"inputs are whole numbers of size \[1\], for which there is no encoder"):
        sp.Learner(TASK).fit(CONCEPTS[..., None], LABELS, sp.Anchors(torch.arange(3)[:, None], torch.arange(3)))


@pytest.mark.parametrize("method", ["abduction", "softg", "softg_k", "supervised"])
def test_methods_without_anchors_learn_the_same_whatever_inputs_take_their_place(method):
    each = [
        sp.Learner(TASK, encoder=encoder, method=method, seed=0, **SMALL)
        .fit(INPUTS, LABELS, sp.Anchors(INPUTS[at : at + 3, 0], torch.arange(3)), concepts=CONCEPTS)
        .predict(INPUTS)
        .probabilities
        for at in (0, 20)
    ]
    assert torch.equal(*each)


def test_no_anchors_at_all_are_refused_with_what_to_give():
    with pytest.raises(
        sp.InputError, match=r"are NoneType, .* a method that uses none takes any inputs, one per value"
    ):
        sp.Learner(TASK, method="abduction", **SMALL).fit(INPUTS, LABELS, None)
