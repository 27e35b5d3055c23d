"""Relabelings that fit every training label are counted exactly, and warned of."""

import itertools
import warnings

import pytest
import torch

import softpnet as sp
from softpnet import tasks
from softpnet.checks.relabelings import no_relabeling_fits
from softpnet.checks.subject import NotApplicable, Subject
from softpnet.rules import relabelings
from softpnet.rules.relabelings import fitting_relabelings

TWO_GROUPS = sp.ConceptSpace(
    sp.Group((0, 1), 3, "height"), sp.Group((1,), (2, 2), "look", value_names=[["a", "b"], ["x", "y"]])
)  # concepts: height, height, a or b, x or y
SOME_PAIRS = sp.ConceptSpace(sp.Group((0, 1), (3, 2), primitives=[(0, 0), (1, 1), (2, 1)]))  # three of six pairs exist


def asked(task):
    """What the check says of a task; it warns exactly where a relabeling fits."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        said = no_relabeling_fits(Subject(task, seed=0))
    assert [str(each.message) for each in caught] == ([] if said.startswith("no relabeling") else [said])
    return said


def brute_force(space, rows, label, maps):
    """The same by trying all: `maps` makes the row of each concept's map from one choice per value."""
    sizes = [h for group in space.groups for h in group.values]
    found = []
    for choice in itertools.product(*(itertools.product(range(h), repeat=h) for h in sizes)):
        read = torch.stack([torch.tensor(choice[maps[i]])[rows[:, i]] for i in range(space.k)], dim=1)
        shown = (torch.cat(space.primitives(read), dim=-1) >= 0).all()
        if shown and torch.equal(label(read), label(rows)):
            found.append([value for each in choice for value in each])
    return found


@pytest.mark.parametrize(
    "space, maps, label",
    [
        (sp.ConceptSpace(slots=2, values=4), [0, 0], lambda c: c.sum(-1)),
        (sp.ConceptSpace(slots=3, values=4), [0, 0, 0], lambda c: (c[..., :2] == c[..., 1:]).long()),
        (TWO_GROUPS, [0, 0, 1, 2], lambda c: (c[..., 0] > c[..., 1]).long() + c[..., 2] * c[..., 3]),
        (SOME_PAIRS, [0, 1, 0, 1], lambda c: c[..., 0] + c[..., 2]),
    ],
    ids=["sums", "label vectors", "two groups", "some pairs"],
)
@pytest.mark.parametrize("at_once", [1, 2_000_000])
def test_the_relabelings_that_fit_are_those_of_brute_force(space, maps, label, at_once, monkeypatch):
    monkeypatch.setattr(relabelings, "AT_ONCE", at_once)
    for some in (slice(1, None, 5), slice(None)):
        rows = space.all()[space.consist_of_primitives(space.all())][some]
        expected = brute_force(space, rows, label, maps)
        assert sorted(fitting_relabelings(space, rows, label).tolist()) == sorted(expected) and len(expected) > 0


def test_values_that_do_not_occur_are_left_open():
    space = sp.ConceptSpace(slots=2, values=5)
    found = fitting_relabelings(space, torch.tensor([[0, 3], [3, 3]]), lambda c: c.sum(-1))
    assert found.tolist() == [[0, -1, -1, 3, -1]]


@pytest.mark.parametrize(
    "name, wrong, anchors",
    [
        ("mnist_evenodd", 35, "0 and 1"),  # 6 x 6 relabelings of even and odd digits; one anchor of each is enough
        ("visual_sudoku", 23, "1, 2 and 3"),  # 24 namings of four digits
        ("kand_logic", 35, "square, circle, red and yellow"),  # 6 namings of shapes x 6 of colours
    ],
)
def test_the_shortcuts_of_the_three_tasks_are_known(name, wrong, anchors):
    options = {} if name == "mnist_evenodd" else {"train": 100}
    said = asked(tasks.load(name, options))
    assert said.startswith(f"{wrong} relabelings of the values keep the labels of all training examples (")
    assert f"; anchors of {anchors} alone would rule out every one" in said


def task_of(concepts, label, space):
    """A task whose training examples have these concepts; images are nobody's business here."""
    examples = sp.Examples(torch.zeros(len(concepts), 2, 1, 4, 4), label(concepts), concepts)
    return sp.Task(space, label, data=lambda streams: sp.Data(examples, None, {"test": examples}))


def test_what_is_found_is_said_in_the_task_s_own_words():
    def said(label, space=TWO_GROUPS):
        return asked(task_of(space.all(), label, space))

    assert said(lambda c: (c * torch.tensor([27, 9, 3, 1])).sum(-1)) == (
        "no relabeling of the values keeps the labels of all training examples (36 different assignments)"
    )
    assert "such as to take y for x; anchors of x and y alone would rule out every one" in said(
        lambda c: c[..., 0] * 9 + c[..., 1] * 3 + (c[..., 2] == 0)
    )
    same = sp.ConceptSpace(slots=2, values=(2, 2))
    assert "such as to take attribute 1: 1 for 0;" in said(lambda c: c[..., 0] + 2 * c[..., 2], same)
    apart = sp.ConceptSpace(sp.Group((0,), 2, "left"), sp.Group((1,), 2, "right"))
    assert "such as to take right 1 for 0;" in said(lambda c: c[..., 0], apart)


def test_relabelings_that_no_prototypes_stand_for_are_not_counted():
    names = [["square", "circle"], ["red", "blue"]]
    pairs = sp.ConceptSpace(sp.Group((0, 1), (2, 2), primitives=[(0, 0), (1, 1)], value_names=names))
    every = pairs.all()[pairs.consist_of_primitives(pairs.all())]

    def same_shape(c):
        return (c[..., 0] == c[..., 2]).long()

    said = asked(task_of(every, same_shape, pairs))
    assert (
        said.startswith("1 relabeling of the values keeps")
        and "square for circle, circle for square, red for blue" in said
    )
    with pytest.raises(NotApplicable, match="no primitive"):
        asked(task_of(pairs.all(), same_shape, pairs))


def test_the_rule_is_asked_about_all_examples_in_calls_of_bounded_size_that_are_never_empty(monkeypatch):
    monkeypatch.setattr(relabelings, "AT_ONCE", 5000)
    asked = []

    def label(c):
        asked.append(c.numel())
        return c[..., 0] * 100 + (c[..., 0] == 0) * c[..., 1]

    space = sp.ConceptSpace(slots=2, values=100)
    rows = torch.tensor([[0, 99], *([i, i % 98] for i in range(1, 100))])  # the first row alone tells 99
    found = fitting_relabelings(space, rows, label)
    assert found is not None and found.shape == (1, 100) and torch.equal(found[0], torch.arange(100))
    assert min(asked) > 0 and max(asked) <= 5000
    many_slots = sp.ConceptSpace(slots=50, values=5)
    found = fitting_relabelings(many_slots, torch.arange(5).repeat(3, 10), lambda c: label(c) + c[..., 1:].sum(-1))
    assert found is not None and max(asked) <= 5000


def test_rows_that_no_relabeling_can_show_are_not_asked_about(monkeypatch):
    monkeypatch.setattr(relabelings, "AT_ONCE", 1)  # one relabeling and one row per call

    def label(c):
        assert c.numel() > 0 and SOME_PAIRS.consist_of_primitives(c).all()
        return c[..., 0] + c[..., 2]

    rows = SOME_PAIRS.all()[SOME_PAIRS.consist_of_primitives(SOME_PAIRS.all())]
    assert fitting_relabelings(SOME_PAIRS, rows, label).tolist() == [[0, 1, 2, 0, 1]]


def test_values_that_no_training_example_has_are_named():
    space = sp.ConceptSpace(slots=2, values=4)
    task = task_of(torch.tensor([[0, 3]] * 200 + [[3, 3]]), lambda c: c.sum(-1), space)
    assert asked(task) == (
        "no relabeling of the values keeps the labels of all training examples "
        "(2 different assignments, none with 1 and 2)"
    )


def test_long_lists_of_values_are_cut_short():
    space = sp.ConceptSpace(slots=2, values=100)
    task = task_of(torch.tensor([[0, 3], [3, 3]]), lambda c: c.sum(-1), space)
    assert asked(task).endswith("(2 different assignments, none with 1, 2, 4, 5, 6, 7, 8, 9 and 90 more)")


def test_where_too_many_relabelings_fit_it_is_said_soon_and_without_much_memory():
    def label(c):
        assert c.numel() <= 2 * relabelings.AT_ONCE
        return (c[..., 0] == c[..., 1]).long()

    space = sp.ConceptSpace(slots=2, values=1000)
    rows = torch.randint(1000, (3000, 2), generator=torch.Generator().manual_seed(0))
    assert fitting_relabelings(space, rows, label) is None
    assert (relabelings.LIMIT, relabelings.TRIED) == (20_000, 2_000_000)  # as docs/your-own-task.md says


def test_work_is_bounded_where_many_relabelings_fit_all_along():
    space, calls = sp.ConceptSpace(slots=2, values=60), []

    def label(c):  # 0 to 4 are read alike, 5 and 6 too, so that 5^5 * 2^2 relabelings fit
        calls.append(c.numel())
        alike = torch.where(c < 5, 0, torch.where(c < 7, 1, c))
        return alike[..., 0] * 1000 + alike[..., 1]

    assert fitting_relabelings(space, torch.arange(60)[:, None].repeat(1, 2), label) is None
    assert sum(calls) <= 2 * relabelings.TRIED + 1000


def test_too_many_relabelings_are_not_counted_and_unknown_concepts_not_guessed(monkeypatch):
    space = sp.ConceptSpace(slots=2, values=4)
    task = task_of(space.all(), lambda c: c.sum(-1) * 0, space)
    assert asked(task).startswith("255 relabelings of the values keep")
    monkeypatch.setattr(relabelings, "LIMIT", 200)
    assert "more than 200 relabelings" in asked(task)
    unknown = sp.Task(space, task.rule, data=lambda streams: task.data(streams)._replace(train=sp.Examples(None, None)))
    with pytest.raises(NotApplicable, match="no true concepts"):
        asked(unknown)
