"""Which slots to label next, against brute force on a tiny space."""

import itertools
import math

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet.training import suggest
from softpnet.training.suggest import LEAST, most_settling, slot_entropies

GENERATOR = torch.Generator().manual_seed(0)
SPACE = sp.ConceptSpace(sp.Group([0, 2], 3, name="size"), sp.Group([2], (2, 2), name="look"))  # slot 1 is not read
CONCEPTS = torch.randint(4, (40, 2), generator=GENERATOR)
PARITY = sp.Task(sp.ConceptSpace(slots=2, values=4), lambda c: c.sum(-1) % 2, augment=None)
SMALL = {
    "epochs": 2,
    "batch_size": 8,
    "warmup_steps": 100,
    "learning_rate": 0.01,
    "copies": 1,
    "threads": 1,
    "augment_inputs": False,
}


def vectors(values, seed=0):
    """Values `[...]` -> noisy one-hot vectors `[..., 4]`."""
    noise = torch.randn(*values.shape, 4, generator=torch.Generator().manual_seed(seed))
    return nn.functional.one_hot(values, 4) + 0.3 * noise


def encoder(size):
    return nn.Sequential(nn.Linear(size, 16), nn.ReLU(), nn.Linear(16, 8))


INPUTS, LABELS = vectors(CONCEPTS), PARITY.rule(CONCEPTS)
ANCHORS = sp.Anchors(vectors(torch.arange(4), seed=1), torch.arange(4))


@pytest.fixture(scope="module")
def model():
    return sp.Learner(PARITY, encoder=encoder, **SMALL).fit(INPUTS, LABELS, ANCHORS)


def brute_force(nats, embedded, anchors, count):
    """The same by loops over the slots, in plain Python numbers."""
    chosen = []
    scales = []
    for slots, own in zip(embedded, anchors, strict=True):
        near = sorted(min(float((v - z).square().sum()) for z in own) for v in slots.flatten(0, 1))
        scales.append(near[(len(near) - 1) // 2])

    def likeness(g, one, other):
        return math.exp(-float((one - other).square().sum()) / scales[g])

    def worth(example, slot):
        total = 0.0
        for g, group in enumerate(SPACE.groups):
            if slot not in group.slots:
                continue
            here = group.slots.index(slot)
            known = [*anchors[g], *(embedded[g][e, group.slots.index(s)] for e, s in chosen if s in group.slots)]
            settles = 0.0
            for e, s in itertools.product(range(len(embedded[g])), range(len(group.slots))):
                before = max(likeness(g, embedded[g][e, s], each) for each in known)
                after = likeness(g, embedded[g][e, s], embedded[g][example, here])
                settles += (float(nats[g][e, s]) + LEAST) * max(0.0, after - before)
            total += (float(nats[g][example, here]) + LEAST) * settles
        return total

    for _ in range(count):
        open_slots = [each for each in itertools.product(range(len(embedded[0])), (0, 2)) if each not in chosen]
        chosen.append(max(open_slots, key=lambda each: worth(*each)))
    return chosen


def test_each_slot_is_the_one_that_settles_most_of_what_those_before_leave_open():
    drawn = [torch.rand(5, 2, generator=GENERATOR).double(), torch.rand(5, 1, generator=GENERATOR).double()]
    embedded = [torch.randn(5, n, 3, generator=GENERATOR).double() for n in (2, 1)]
    anchors = [torch.randn(m, 3, generator=GENERATOR).double() for m in (2, 4)]
    found = most_settling(SPACE, drawn, embedded, anchors, 6)
    assert found.tolist() == [list(each) for each in brute_force(drawn, embedded, anchors, 6)]


def test_every_slot_that_is_read_is_named_once_and_no_other():
    nats = [torch.zeros(3, 2), torch.zeros(3, 1)]  # all sure
    embedded, anchors = [torch.zeros(3, 2, 2), torch.zeros(3, 1, 2)], [torch.zeros(1, 2), torch.zeros(1, 2)]
    found = most_settling(SPACE, nats, embedded, anchors, 6).tolist()
    assert sorted(found) == [[example, slot] for example in range(3) for slot in (0, 2)]


def test_attributes_of_a_slot_are_uncertain_together():
    p = torch.rand(4, SPACE.k, 3, generator=GENERATOR).softmax(-1)
    sizes, look = slot_entropies(SPACE, p)
    by_hand = -(p * p.log()).sum(-1)  # [4, k]
    assert torch.allclose(sizes, by_hand[:, :2]) and torch.allclose(look[:, 0], by_hand[:, 2] + by_hand[:, 3])


def suggested_nats(model, monkeypatch, task=None):
    """What `suggest_anchors` takes for the uncertainty of every slot."""
    seen = []
    monkeypatch.setattr(
        suggest, "most_settling", lambda space, nats, *rest: seen.append(nats) or torch.zeros(1, 2).long()
    )
    suggest.suggest_slots(task or PARITY, model.module, model.calibration, model.anchors, INPUTS, LABELS, 1)
    return seen[0][0]


def test_uncertain_is_what_the_label_leaves_open(model, monkeypatch):
    p = model.predict(INPUTS).probabilities.double()  # [N, 2, 4]
    joint = p[:, 0, :, None] * p[:, 1, None, :]  # [N, 4, 4]
    every = torch.cartesian_prod(torch.arange(4), torch.arange(4)).view(4, 4, 2)
    joint = joint * (PARITY.rule(every) == LABELS[:, None, None])
    joint = joint / joint.sum((1, 2), keepdim=True)
    given = torch.stack([joint.sum(2), joint.sum(1)], 1)  # [N, 2, 4]
    expected = -torch.special.xlogy(given, given).sum(-1)
    found = suggested_nats(model, monkeypatch)
    assert torch.allclose(found.double(), expected, atol=1e-4)
    assert (found.double() < -torch.special.xlogy(p, p).sum(-1) - 1e-3).any()  # the rule settles something


def test_without_a_compiled_rule_uncertain_is_what_is_read(model, monkeypatch):
    monkeypatch.setattr("softpnet.training.calibrate.compiled_rule", lambda task: None)
    p = model.predict(INPUTS).probabilities
    assert torch.allclose(suggested_nats(model, monkeypatch), -torch.special.xlogy(p, p).sum(-1), atol=1e-5)


class Drawn:
    """A source that gives no example 3."""

    def __len__(self):
        return len(INPUTS)

    def __getitem__(self, number):
        return None if number == 3 else INPUTS[number]


def test_suggestions_are_training_slots_from_memory_or_a_lazy_source(model):
    found = model.suggest_anchors(INPUTS, LABELS, 7)
    assert found.shape == (7, 2) and len(found.unique(dim=0)) == 7
    everything = model.suggest_anchors(Drawn(), LABELS, 2 * 39)
    assert sorted(everything[:, 0].unique().tolist()) == [number for number in range(40) if number != 3]


def test_of_many_examples_some_are_looked_at_from_the_first_to_the_last(model, monkeypatch):
    monkeypatch.setattr(suggest, "POOL", 8)
    found = model.suggest_anchors(INPUTS, LABELS, 8)
    assert found[:, 0].unique().tolist() == [0, 13, 26, 39]


def test_a_slot_that_is_an_anchor_already_is_not_named_again(model):
    first = model.suggest_anchors(INPUTS, LABELS, 1)
    more = sp.Anchors.at(PARITY.space, INPUTS, first, CONCEPTS[first[:, 0], first[:, 1]])
    again = sp.Learner(PARITY, encoder=encoder, **SMALL).fit(INPUTS, LABELS, ANCHORS.joined(more))
    assert first.tolist()[0] not in again.suggest_anchors(INPUTS, LABELS, 5).tolist()


@pytest.mark.parametrize("count", [0, -1, 81, 2.0, True, "5"])
def test_a_number_of_slots_that_there_are_not_is_refused(model, count):
    with pytest.raises(sp.InputError, match=r"count is .*, expected a whole number, 1 to 80"):
        model.suggest_anchors(INPUTS, LABELS, count)


def test_a_model_that_is_not_trained_suggests_nothing():
    with pytest.raises(sp.InputError, match="not trained yet"):
        sp.Learner(PARITY, encoder=encoder).suggest_anchors(INPUTS, LABELS, 1)


def test_labels_that_no_assignment_has_are_refused_as_in_a_training(model):
    with pytest.raises(sp.InputError, match="values of the concepts give"):
        model.suggest_anchors(INPUTS, LABELS + 50, count=2)
