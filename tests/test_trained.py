"""What a trained model answers part by part, and how little of its inputs it holds meanwhile."""

import gc
import weakref

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet.errors import InputError
from softpnet.networks import reader

TASK = sp.Task(sp.ConceptSpace(slots=2, values=3), lambda c: c.sum(-1))
ANCHORS = sp.Anchors(torch.eye(3), torch.arange(3))
CONCEPTS = torch.randint(3, (40, 2), generator=torch.Generator().manual_seed(0))
INPUTS = torch.eye(3)[CONCEPTS] + 0.1 * torch.randn(40, 2, 3, generator=torch.Generator().manual_seed(1))
AT_ONCE = 4


@pytest.fixture(scope="module")
def model():
    made = sp.Learner(TASK, encoder=lambda size: nn.Linear(3, 4), epochs=1, warmup_steps=5, threads=1)
    return made.fit(INPUTS, CONCEPTS.sum(-1), ANCHORS)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(reader, "AT_ONCE", 2 * AT_ONCE)


class Watched:
    """A source that knows how many of its items were read, and how many of them were ever in memory together."""

    def __init__(self, items=INPUTS):
        self.items, self.read, self.most = items, 0, 0
        self.alive = weakref.WeakSet()

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        item = self.items[number].clone()
        self.alive.add(item)
        self.read += 1
        self.most = max(self.most, len(self.alive))
        return item


def test_streamed_parts_are_the_prediction_bit_for_bit(model):
    for reject in (None, 0.05):
        parts = list(model.stream(Watched(), reject))
        assert [len(part.concepts) for part in parts] == [AT_ONCE] * 10
        for found, whole in zip(zip(*parts, strict=True), model.predict(INPUTS, reject), strict=True):
            assert torch.equal(torch.cat(found), whole)


def test_first_answers_come_before_the_rest_is_read(model):
    source = Watched()
    first = next(model.stream(source))
    assert torch.equal(first.labels, model.predict(INPUTS[:AT_ONCE]).labels)
    assert source.read == 1 + AT_ONCE  # one tells what inputs are like


def test_no_answer_holds_more_of_a_source_than_the_part_under_way(model):
    gc.collect()
    for ask in (
        lambda source: [part.labels for part in model.stream(source)],
        model.predict,
        model.embed,
        lambda source: model.score(source, CONCEPTS.sum(-1), CONCEPTS),
    ):
        source = Watched()
        ask(source)
        assert source.read >= len(INPUTS)
        assert source.most <= 2 * AT_ONCE


def test_a_stream_does_not_leave_inference_mode_on(model):
    parts = model.stream(INPUTS)
    next(parts)
    assert not torch.is_inference_mode_enabled()


def test_what_cannot_be_streamed_is_said_at_once_or_named_by_its_number(model):
    with pytest.raises(InputError, match="reject is 2, expected a share from 0 to 1"):
        model.stream(INPUTS, reject=2)
    with pytest.raises(InputError, match=r"inputs have size \[5\], expected \[3\]"):
        model.stream(torch.zeros(1, 2, 5))
    with pytest.raises(InputError, match="not trained yet"):
        sp.Learner(TASK).stream(INPUTS)
    lost = INPUTS.clone()
    lost[AT_ONCE + 1] = torch.inf
    parts = model.stream(Watched(lost))
    next(parts)
    with pytest.raises(InputError, match=f"input {AT_ONCE + 1} holds inf, expected finite"):
        next(parts)
