"""Anchors that are confirmed training slots."""

import pytest
import torch

import softpnet as sp

SPACE = sp.ConceptSpace(slots=2, values=3)
INPUTS = torch.arange(20.0).view(5, 2, 2)  # [N, n, D]
TWO = sp.ConceptSpace(sp.Group([0, 1], 3, name="size"), sp.Group([1], (2, 2), name="look"))


class Counted:
    """A source that notes which items are read."""

    def __init__(self):
        self.read = []

    def __len__(self):
        return len(INPUTS)

    def __getitem__(self, number):
        self.read.append(number)
        return INPUTS[number]


def test_training_slots_become_anchors():
    inputs, concepts = sp.Anchors.at(SPACE, INPUTS, [[4, 1], [0, 0]], [2, 0])
    assert torch.equal(inputs, torch.stack([INPUTS[4, 1], INPUTS[0, 0]])) and concepts.tolist() == [2, 0]


def test_of_a_lazy_source_only_the_examples_that_are_named_are_read_and_each_once():
    source = Counted()
    found = sp.Anchors.at(SPACE, source, torch.tensor([[4, 1], [2, 0], [4, 0]]), torch.tensor([2, 0, 1]))
    assert torch.equal(found.inputs, torch.stack([INPUTS[4, 1], INPUTS[2, 0], INPUTS[4, 0]]))
    assert sorted(source.read) == [0, 2, 4]  # the first one says what inputs are like


def test_attribute_values_of_a_group_are_taken_as_in_any_anchors():
    found = sp.Anchors.at(TWO, INPUTS, [[3, 1]], [[1, 0]], group="look")
    assert found.concepts.tolist() == [[1, 0]] and torch.equal(found.inputs, INPUTS[3, 1:])


def test_more_anchors_are_joined_to_those_there_are_in_the_encoders_numbers():
    bytes_ = (INPUTS * 10).to(torch.uint8)
    both = sp.Anchors(torch.zeros(1, 2), torch.tensor([1])).joined(sp.Anchors.at(SPACE, bytes_, [[1, 1]], [2]))
    assert torch.allclose(both.inputs, torch.tensor([[0, 0], [60 / 255, 70 / 255]]))
    assert both.concepts.tolist() == [1, 2]


@pytest.mark.parametrize("other", [sp.Anchors(INPUTS[0, :, :1], torch.arange(2)), sp.Anchors(INPUTS[0], INPUTS[0])])
def test_anchors_of_another_size_are_not_joined(other):
    with pytest.raises(sp.InputError, match=r"cannot be joined to those of .*; give both the same size"):
        sp.Anchors(INPUTS[0], torch.arange(2)).joined(other)


@pytest.mark.parametrize(
    "words, changes",
    [
        (["slot [5, 0]", "example 5", "the inputs have 5", "numbered from 0"], {"slots": [[0, 0], [5, 0]]}),
        (["slot [-1, 0]", "example -1"], {"slots": [[0, 0], [-1, 0]]}),
        (["slot [1, 2]", "group 'concept'", "reads slots [0, 1]"], {"slots": [[0, 0], [1, 2]]}),
        (["slot [0, 1]", "concepts 2 and 1", "leave out the wrong one"], {"slots": [[0, 1], [0, 1]]}),
        (["slots have shape [2]", "[M, 2]"], {"slots": [0, 1]}),
        (["slots have shape [0, 2]", "[M, 2]"], {"slots": torch.zeros(0, 2).long(), "concepts": []}),
        (["slots are torch.float32", "whole numbers"], {"slots": torch.zeros(2, 2)}),
        (["slots cannot be read", "whole numbers"], {"slots": "first"}),
        (["2 slots", "concepts of shape [3]"], {"concepts": [0, 1, 2]}),
        (["concepts are torch.float32"], {"concepts": [0.5, 1.0]}),
        (["slots are given for group None", "['size', 'look']"], {"space": TWO}),
        (["slots are given for group 'colour'", "['concept']"], {"group": "colour"}),
        (["slot [0, 0]", "not read by group 'look'", "[1]"], {"space": TWO, "group": "look"}),
        (["inputs have 3 slots"], {"inputs": torch.zeros(5, 3, 2)}),
    ],
)
def test_what_cannot_be_anchors_is_named(words, changes):
    given = {"space": SPACE, "inputs": INPUTS, "slots": [[0, 0], [1, 1]], "concepts": [2, 1], **changes}
    with pytest.raises(sp.InputError) as error:
        sp.Anchors.at(**given)
    assert all(word in str(error.value) for word in words), error.value
    assert "\n" not in str(error.value)
