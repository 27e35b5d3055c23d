"""What stopped new users once, in the order in which they met it: data of their own from the first line to the last.

Each step has tests of its own elsewhere; here they meet on one small task. An augmentation of one's own is in
`test_bad_input.py`, a new labelled table in `cli/test_cli.py`.
"""

import pytest
import torch
from torch.utils.data import Dataset

import softpnet as sp

SMALL = {"epochs": 8, "batch_size": 20, "warmup_steps": 30, "warmup_examples": 0, "learning_rate": 0.01, "threads": 1}
VALUES = torch.randint(3, (120, 2), generator=torch.Generator().manual_seed(0))
SUMS = VALUES.sum(-1)


def rule(c):
    return c.sum(-1)


def shown(values):
    """A vector of six numbers for every value, with noise: [...] -> [..., 6]."""
    noise = torch.randn(*values.shape, 6, generator=torch.Generator().manual_seed(1))
    return 3 * torch.eye(3).repeat(1, 2)[values] + 0.3 * noise


VECTORS = shown(VALUES)  # [N, n, D]
KNOWN = sp.Anchors(shown(torch.tensor([0, 0, 0, 2])), torch.tensor([0, 0, 0, 2]))  # three of 0, none of 1


class Pairs(Dataset):
    def __len__(self):
        return len(VECTORS)

    def __getitem__(self, number):
        return VECTORS[number]


def task(slots=2, **more):
    return sp.Task(sp.ConceptSpace(slots=slots, values=3), rule, **more)


@pytest.fixture(scope="module")
def model():
    return sp.Learner(task(augment=None), seed=0, **SMALL).fit(VECTORS, SUMS, KNOWN)


def test_vectors_with_three_anchors_of_one_value_and_none_of_another_train_without_augmentation(model):
    assert model.score(VECTORS, SUMS, VALUES)["concept_accuracy"] > 0.95


def test_a_dataset_takes_the_place_of_a_tensor(model):
    other = sp.Learner(task(augment=None), seed=0, **SMALL).fit(Pairs(), SUMS, KNOWN)
    assert torch.equal(other.predict(Pairs()).probabilities, model.predict(VECTORS).probabilities)


def test_examples_are_held_out_and_training_stops_when_they_get_no_better():
    patient = sp.Learner(task(), seed=0, validation=0.25, patience=1, keep="best", **SMALL | {"epochs": 40})
    patient.fit(VECTORS, SUMS, KNOWN)
    assert len(patient.history) < 40 and "validation_label_accuracy" in patient.history[-1]


def test_what_was_learned_is_the_start_of_a_larger_task_and_its_encoder_is_handed_out(model):
    values = VALUES.reshape(-1, 4)
    more = sp.Learner(task(slots=4), seed=0, init=model, **SMALL | {"epochs": 1, "warmup_steps": 0})
    more.fit(VECTORS.reshape(-1, 4, 6), values.sum(-1), KNOWN)
    assert more.score(VECTORS.reshape(-1, 4, 6), values.sum(-1), values)["concept_accuracy"] > 0.95
    assert more.encoder()(VECTORS[:, 0]).shape[0] == 120
