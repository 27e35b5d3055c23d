"""Metrics on cases that can be counted by hand."""

import pytest
import torch

from softpnet.concepts import ConceptSpace, Group
from softpnet.metrics import concept_metrics, label_metrics


def test_binary_labels_are_judged_by_the_f1_of_class_one():
    found = label_metrics(torch.tensor([1, 1, 0, 0, 0]), torch.tensor([1, 0, 1, 0, 0]))
    assert found == pytest.approx({"label_accuracy": 0.6, "label_f1": 0.5})


def test_always_answering_no_has_half_the_accuracy_and_no_f1():
    assert label_metrics(torch.zeros(4).long(), torch.tensor([1, 0, 1, 0])) == {"label_accuracy": 0.5, "label_f1": 0.0}


def test_other_labels_are_judged_by_macro_f1():
    found = label_metrics(torch.tensor([3, 3, 5, 7]), torch.tensor([3, 5, 5, 7]))
    assert found["label_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)


def test_a_label_vector_is_right_only_as_a_whole():
    found = label_metrics(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
    assert found["label_accuracy"] == 0.5


def test_both_conventions_of_concept_accuracy():
    space = ConceptSpace(slots=2, values=(2, 2))
    true = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0]])
    found = concept_metrics(space, torch.tensor([[0, 0, 1, 0], [0, 1, 0, 1]]), true)
    assert found["concept_accuracy"] == pytest.approx(5 / 8)  # attribute by attribute
    assert found["primitive_accuracy"] == pytest.approx(2 / 4)  # both attributes of a slot
    # primitives 0 and 1 are right, 3 is read as 2, 2 is read as 1
    assert found["primitive_f1"] == pytest.approx((1 + 2 / 3 + 0 + 0) / 4)


def test_values_that_neither_occur_nor_are_predicted_take_nothing_from_f1():
    seen = torch.tensor([[0, 2], [2, 0]])
    found = concept_metrics(ConceptSpace(slots=2, values=4), seen, seen)
    assert found["concept_f1"] == found["primitive_f1"] == 1.0 and found["collapse"] == 0.5


def test_where_nothing_seen_is_a_primitive_its_f1_is_zero():
    space = ConceptSpace(Group(slots=(0,), values=(2, 2), primitives=((0, 0), (1, 1))))
    mixed = torch.tensor([[0, 1], [1, 0]])
    assert concept_metrics(space, mixed, mixed)["primitive_f1"] == 0.0


def test_collapse_is_the_share_of_values_never_predicted():
    space = ConceptSpace(slots=2, values=4)
    found = concept_metrics(space, torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0, 1], [2, 3]]))
    assert found["collapse"] == 0.5
