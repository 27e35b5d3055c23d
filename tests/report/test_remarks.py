"""Concepts that stay wrong while labels are right are remarked upon, by the worst of them."""

import re
from pathlib import Path

import torch
from torch.nn.functional import one_hot

import softpnet as sp
from softpnet.report.judge import scores
from softpnet.report.remarks import remarks, worst_gap

SCENE = sp.ConceptSpace(
    *(sp.Group((slot,), 2, name, value_names=[["low", "high"]]) for slot, name in enumerate(("size", "light", "speed")))
)
TRUE = torch.arange(100)[:, None] // torch.tensor([1, 2, 4]) % 2  # [100, 3]


class Nothing(torch.nn.Identity):
    """Stands in for a network that is not asked."""

    device = torch.device("cpu")


class Reads(sp.Learner):
    """Sees the concepts that it is given, whatever the images are."""

    def __init__(self, task, seen):
        super().__init__(task)
        self.seen, self.module, self.input_shape = seen, Nothing(), torch.Size((1, 1, 1))

    def predict(self, inputs, reject=None):
        sure = one_hot(self.seen, self.task.space.h).float()
        return sp.Prediction(self.seen, self.task.rule(self.seen), sure)


def told(rule, seen, space=SCENE, true=TRUE, concepts=True):
    """What is remarked of a model that sees this instead of what is true."""
    task = sp.Task(space, rule)
    examples = sp.Examples(torch.zeros(len(true), space.slots, 1, 1, 1), rule(true), true if concepts else None)
    model, tests = Reads(task, seen), {"test": examples}
    return remarks(model, tests, scores(model, tests))


def misread(share, column=2):
    """The truth, with so many of 48 (or 50) high ones of a column read as low."""
    seen = TRUE.clone()
    seen[seen[:, column].nonzero().flatten()[:share], column] = 0
    return seen


def test_one_badly_read_group_is_named_although_the_mean_over_groups_is_fine():
    (said,) = told(lambda c: c[..., 0] + 2 * c[..., 1], misread(28))
    assert said.startswith(
        "test: labels are right more often than 'speed', by 28.0 points (58 % of 'high' read as 'low')."
    )
    (page,) = re.findall(r"docs/\S+\.md", said)
    assert (Path(__file__).parents[2] / page).exists()


def test_what_is_read_right_most_of_the_time_is_not_remarked_upon():
    assert told(lambda c: c[..., 0] + 2 * c[..., 1], misread(4)) == []
    assert len(told(lambda c: c[..., 0] + 2 * c[..., 1], misread(6))) == 1  # more than five points
    assert told(lambda c: (c * torch.tensor([4, 2, 1])).sum(-1), misread(28)) == []  # labels are as wrong


def test_without_true_concepts_nothing_can_be_said():
    assert told(lambda c: c[..., 0], misread(28), concepts=False) == []


def test_a_run_that_was_stopped_before_its_first_epoch_was_done_gets_no_diagnosis():
    task = sp.Task(SCENE, lambda c: c[..., 0])
    tests = {"test": sp.Examples(torch.zeros(len(TRUE), 3, 1, 1, 1), task.rule(TRUE), TRUE)}
    model = Reads(task, misread(28))
    (values,) = (found := scores(model, tests)).values()
    assert len(remarks(model, tests, found)) == 1 and worst_gap(model, values) > 0.1
    model.interrupted = True
    assert remarks(model, tests, found) == [] and worst_gap(model, values) == 0
    model.history = [{"epoch": 1}]
    assert len(remarks(model, tests, found)) == 1


def test_a_single_group_is_called_concepts_and_an_attribute_by_its_number():
    first_only = TRUE * torch.tensor([1, 0, 0])
    (said,) = told(lambda c: c[..., 0], first_only, sp.ConceptSpace(slots=3, values=2))
    assert "labels are right more often than concepts, by 32.7 points (66 % of '1' read as '0')" in said
    two = sp.ConceptSpace(sp.Group((0,), 2, "size"), sp.Group((1,), (2, 2), "look"))
    (said,) = told(lambda c: c[..., 0] + 2 * c[..., 1], misread(28), two)
    assert "labels are right more often than 'look, attribute 1', by 28.0 points" in said


def test_an_entry_of_the_label_is_held_against_the_groups_that_it_depends_on_and_no_other():
    dark = misread(40, column=1)[:, 1]
    seen = torch.stack([TRUE[:, 0], dark, TRUE[:, 2] * (1 - TRUE[:, 0])], dim=1)  # speed is wrong where size is high

    def vector(c):
        return torch.stack([c[..., 1], torch.maximum(c[..., 0], c[..., 2])], dim=-1)

    (said,) = told(vector, seen)
    assert said.startswith("test: entry 1 of the labels is right more often than 'speed', by 24.0 points")
    only_light = torch.stack([TRUE[:, 0], dark, TRUE[:, 2]], dim=1)
    assert told(vector, only_light) == [], "light is read wrong, and so is the entry that depends on it"
