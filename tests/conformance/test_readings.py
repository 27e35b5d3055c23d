"""Wrong readings that fit every training label are counted exactly."""

import itertools

import pytest
import torch

import softpnet as sp
from softpnet import tasks
from softpnet.conformance import readings
from softpnet.conformance.readings import Values, fitting_readings, one_reading_fits
from softpnet.conformance.subject import Subject

TWO_GROUPS = sp.ConceptSpace(
    sp.Group((0, 1), 3, "height"), sp.Group((1,), (2, 2), "look", value_names=[["a", "b"], ["x", "y"]])
)  # concepts: height, height, a or b, x or y


def brute_force(space, rows, label, maps):
    """The same by trying all: `maps` makes the row of each concept's map from one choice per value."""
    sizes = [h for group in space.groups for h in group.values]
    found = []
    for choice in itertools.product(*(itertools.product(range(h), repeat=h) for h in sizes)):
        read = torch.stack([torch.tensor(choice[maps[i]])[rows[:, i]] for i in range(space.k)], dim=1)
        if torch.equal(label(read), label(rows)):
            found.append([value for each in choice for value in each])
    return found


@pytest.mark.parametrize(
    "space, maps, label",
    [
        (sp.ConceptSpace(slots=2, values=4), [0, 0], lambda c: c.sum(-1)),
        (sp.ConceptSpace(slots=3, values=4), [0, 0, 0], lambda c: (c[..., :2] == c[..., 1:]).long()),
        (TWO_GROUPS, [0, 0, 1, 2], lambda c: (c[..., 0] > c[..., 1]).long() + c[..., 2] * c[..., 3]),
    ],
    ids=["sums", "label vectors", "two groups"],
)
@pytest.mark.parametrize("at_once", [1, 2_000_000])
def test_the_readings_that_fit_are_those_of_brute_force(space, maps, label, at_once, monkeypatch):
    monkeypatch.setattr(readings, "AT_ONCE", at_once)
    for some in (slice(1, None, 5), slice(None)):
        rows = space.all()[some]
        expected = brute_force(space, rows, label, maps)
        assert sorted(fitting_readings(Values(space), rows, label).tolist()) == sorted(expected) and len(expected) > 0


def test_values_that_do_not_occur_are_left_open():
    space = sp.ConceptSpace(slots=2, values=5)
    found = fitting_readings(Values(space), torch.tensor([[0, 3], [3, 3]]), lambda c: c.sum(-1))
    assert found.tolist() == [[0, -1, -1, 3, -1]]


@pytest.mark.parametrize(
    "name, wrong, anchors",
    [
        ("mnist_evenodd", 35, "0 and 1"),  # 6 x 6 readings of even and odd digits; one anchor of each is enough
        ("visual_sudoku", 23, "1, 2 and 3"),  # 24 namings of four digits
        ("kand_logic", 35, "square, circle, red and yellow"),  # 6 namings of shapes x 6 of colours
    ],
)
def test_the_shortcuts_of_the_three_tasks_are_known(name, wrong, anchors):
    options = {} if name == "mnist_evenodd" else {"train": 100}
    said = one_reading_fits(Subject(tasks.load(name, options), seed=0))
    assert f"allow {wrong} wrong readings of the values beside the true one, such as to take " in said
    assert said.endswith(f"; anchors of {anchors} alone would rule out every wrong one")


def task_of(concepts, label, space):
    """A task whose training examples have these concepts; images are nobody's business here."""
    examples = sp.Examples(torch.zeros(len(concepts), 2, 1, 4, 4), label(concepts), concepts)
    return sp.Task(space, label, data=lambda streams: sp.Data(examples, None, {"test": examples}))


def test_what_is_found_is_said_in_the_task_s_own_words():
    def said(label, space=TWO_GROUPS):
        return one_reading_fits(Subject(task_of(space.all(), label, space), seed=0))

    assert said(lambda c: (c * torch.tensor([27, 9, 3, 1])).sum(-1)) == (
        "the labels of all training examples (36 different assignments) allow only the true reading of the values"
    )
    assert said(lambda c: c[..., 0] * 9 + c[..., 1] * 3 + (c[..., 2] == 0)).endswith(
        "such as to take y for x; anchors of x and y alone would rule out every wrong one"
    )
    same = sp.ConceptSpace(slots=2, values=(2, 2))
    assert "such as to take concept 1: 1 for concept 1: 0;" in said(lambda c: c[..., 0] + 2 * c[..., 2], same)


def test_values_that_no_training_example_has_are_named():
    space = sp.ConceptSpace(slots=2, values=4)
    task = task_of(torch.tensor([[0, 3], [3, 3]]), lambda c: c.sum(-1), space)
    assert one_reading_fits(Subject(task, seed=0)) == (
        "the labels of all training examples (2 different assignments), without 1 and 2 among them, "
        "allow only the true reading of the values"
    )


def test_too_many_readings_are_not_counted_and_unknown_concepts_not_guessed(monkeypatch):
    space = sp.ConceptSpace(slots=2, values=4)
    task = task_of(space.all(), lambda c: c.sum(-1) * 0, space)
    assert one_reading_fits(Subject(task, seed=0)).partition(" allow ")[2].startswith("255 wrong readings")
    monkeypatch.setattr(readings, "LIMIT", 200)
    assert "more than 200 readings" in one_reading_fits(Subject(task, seed=0))
    unknown = sp.Task(
        space, task.label, data=lambda streams: task.data(streams)._replace(train=sp.Examples(None, None))
    )
    with pytest.raises(readings.NotApplicable, match="no true concepts"):
        one_reading_fits(Subject(unknown, seed=0))
