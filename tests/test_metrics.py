"""Metrics on cases that can be counted by hand."""

import pytest
import torch

from softpnet.metrics import (
    Part,
    calibration_error,
    concept_calibration,
    concept_metrics,
    label_metrics,
    most_frequent_mistake,
)
from softpnet.task.concepts import ConceptSpace, Group


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


SCENE = ConceptSpace(
    Group(slots=(0,), values=2, name="speed", value_names=[["slow", "fast"]]),
    Group(slots=(0, 1), values=(2, 3), name="look"),
)  # concepts: speed, then two attributes of slot 0 and of slot 1


def test_every_group_and_attribute_has_its_own_accuracy():
    true = torch.tensor([[0, 0, 0, 1, 1], [1, 1, 2, 0, 2]])
    found = concept_metrics(SCENE, torch.tensor([[0, 0, 1, 1, 0], [0, 1, 0, 0, 2]]), true)
    assert {name: value for name, value in found.items() if "/" in name} == {
        "concept_accuracy/speed": 0.5,
        "concept_accuracy/look/attribute 0": 1.0,
        "concept_accuracy/look/attribute 1": 0.25,
    }
    attributes = concept_metrics(ConceptSpace(slots=1, values=(2, 2)), true[:, 1:3], true[:, 1:3])
    assert [name for name in attributes if "/" in name] == [
        "concept_accuracy/attribute 0",
        "concept_accuracy/attribute 1",
    ]


def test_every_entry_of_a_label_vector_has_its_own_accuracy():
    true = torch.tensor([[1, 0], [0, 1], [0, 0], [1, 1]])
    found = label_metrics(torch.tensor([[1, 0], [1, 1], [1, 0], [1, 0]]), true)
    assert found["label_accuracy"] == 0.25
    assert {name: value for name, value in found.items() if "/" in name} == {
        "label_accuracy/entry 0": 0.5,
        "label_accuracy/entry 1": 0.75,
    }


def test_where_there_is_one_part_only_nothing_is_said_twice():
    seen = torch.tensor([[0, 2], [2, 0]])
    found = concept_metrics(ConceptSpace(slots=2, values=4), seen, seen) | label_metrics(seen[:, :1], seen[:, :1])
    assert not any("/" in name for name in found)


def test_the_value_most_often_taken_for_another_is_found_with_its_share():
    true = torch.tensor([0] * 10 + [1] * 4)[:, None].repeat(1, 5)
    seen = true.clone()
    seen[:3, 0] = 1  # 3 of 10 slow ones are read as fast
    seen[10:12, 0] = 0  # and 2 of 4 fast ones as slow: a larger share, but fewer
    assert most_frequent_mistake(SCENE, Part("speed", 0, 0), seen, true) == ("slow", "fast", 0.3)
    assert most_frequent_mistake(SCENE, Part("look/attribute 0", 1, 0), seen, true) is None


def test_the_calibration_error_weighs_each_of_fifteen_bins_by_what_is_in_it():
    sure = torch.tensor([1.0, 0.97, 0.95, 0.95, 0.62, 0.61])  # bins 14, 14, 14, 14, 9, 9
    right = torch.tensor([True, True, False, True, False, True])
    expected = 4 / 6 * abs(3 / 4 - (1 + 0.97 + 0.95 + 0.95) / 4) + 2 / 6 * abs(1 / 2 - (0.62 + 0.61) / 2)
    assert calibration_error(sure, right) == pytest.approx(expected)


def test_errors_in_two_directions_do_not_cancel_unless_they_share_a_bin():
    right = torch.tensor([True, False])
    assert calibration_error(torch.tensor([0.5, 0.5]), right) == pytest.approx(0)
    assert calibration_error(torch.tensor([0.6, 0.4]), right) == pytest.approx(0.4)  # bins 9 and 6 of 0.0667 each


def test_every_group_and_attribute_has_its_own_calibration_error():
    probabilities = torch.zeros(2, 5, 3)
    probabilities[..., 0] = 1
    true = torch.zeros(2, 5, dtype=torch.int64)
    true[0, 0] = 1  # speed
    true[:, 2] = 1  # attribute 1 of the first slot
    assert concept_calibration(SCENE, probabilities, true) == pytest.approx(
        {
            "concept_ece": 0.3,
            "concept_ece/speed": 0.5,
            "concept_ece/look/attribute 0": 0.0,
            "concept_ece/look/attribute 1": 0.5,
        }
    )
