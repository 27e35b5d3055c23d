"""Spaces, groups, and how joints become marginals."""

import itertools
import json

import numpy as np
import pytest
import torch

from softpnet.errors import TaskError
from softpnet.task.concepts import ConceptSpace, Group, row_keys


def test_the_shape_colour_grid_falls_out_of_the_space(generator):
    space = ConceptSpace(slots=2, values=(3, 3))
    joint = torch.randn(4, 2, 9, generator=generator).log_softmax(-1)
    found = space.log_p([joint]).exp()  # [4, 4, 3]
    grid = joint.exp().view(4, 2, 3, 3)
    torch.testing.assert_close(found.view(4, 2, 2, 3)[:, :, 0], grid.sum(3))  # shape: colours summed out
    torch.testing.assert_close(found.view(4, 2, 2, 3)[:, :, 1], grid.sum(2))


def test_groups_of_different_sizes_are_padded_with_impossible_values(generator):
    space = ConceptSpace(Group((0, 1), 4, name="digit"), Group((1,), (2, 3), name="mark"))
    assert (space.k, space.h, space.sizes) == (4, 4, (4, 4, 2, 3))
    joints = [torch.randn(5, 2, 4, generator=generator), torch.randn(5, 1, 6, generator=generator)]
    found = space.log_p([j.log_softmax(-1) for j in joints]).exp()
    torch.testing.assert_close(found.sum(-1), torch.ones(5, 4))
    assert found[:, 2, 2:].abs().max() == 0 and found[:, 3, 3:].abs().max() == 0


def test_a_subset_of_primitives_gives_their_marginals():
    space = ConceptSpace(Group((0,), (2, 2), primitives=[(0, 0), (1, 0), (1, 1)]))
    found = space.log_p([torch.tensor([[[0.2, 0.3, 0.5]]]).log()]).exp()
    torch.testing.assert_close(found[0], torch.tensor([[0.2, 0.8], [0.5, 0.5]]))


def test_primitive_ids_are_found_again():
    space = ConceptSpace(Group((0, 1), (2, 2), primitives=[(0, 0), (1, 0), (1, 1)]))
    assert space.primitives(torch.tensor([1, 1, 0, 1]))[0].tolist() == [2, -1]


def test_enumeration_lists_every_assignment_once():
    space = ConceptSpace(Group((0,), 2, name="a"), Group((0,), 3, name="b"))
    assert [tuple(row) for row in space.all().tolist()] == list(itertools.product(range(2), range(3)))


@pytest.mark.parametrize("sizes", [(3, 4, 5), (9,) * 81])
def test_keys_tell_rows_apart(generator, sizes):
    rows = torch.stack([torch.randint(h, (2000,), generator=generator) for h in sizes], 1)
    neighbours = rows.clone()
    neighbours[:, -1] = (neighbours[:, -1] + 1) % sizes[-1]
    both = torch.cat([rows, neighbours])
    assert len(row_keys(both, sizes).unique()) == len(both.unique(dim=0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Group((0, 0), 3), "distinct slots"),
        (lambda: Group((0,), 0), "positive"),
        (lambda: Group((0,), (2, 2), primitives=[(0, 0), (0, 1)]), "no primitive .* has value 1 in attribute 0"),
        (lambda: Group((0,), 2, primitives=[(0,), (1,), (1,)]), "twice"),
        (lambda: Group((0,), 2, primitives=[(0,), (2,)]), r"\(2,\) .* outside"),
        (lambda: Group((0,), 2, value_names=["abc"]), "value_names"),
        (lambda: ConceptSpace(Group((0,), 2), Group((1,), 2)), "own name"),
        (lambda: ConceptSpace(slots=2), "slots and values"),
        (lambda: Group(3, 2), r"slots of group 'concept' are 3, expected whole numbers, as in slots=\[0, 1\]"),
        (lambda: Group((0.5,), 2), "slots of group .* expected whole numbers"),
        (lambda: Group((0,), 2.5), "values of group 'concept' are 2.5, expected whole numbers, as in values=10"),
        (lambda: Group((0,), "3"), "values of group 'concept' are '3', expected whole numbers"),
        (lambda: Group((0,), 10**20), "100,000,000,000,000,000,000 combinations.* at most 100,000.* primitives="),
        (lambda: Group((0,), 2, primitives=[0, 1]), "a primitive of group 'concept' is 0, expected whole numbers"),
        (lambda: Group((0,), 2, primitives=5), "primitives 5 .* expected a tuple per primitive"),
        (lambda: Group((0,), 2, value_names=5), "value_names 5, expected .* a list of names per attribute"),
        (lambda: ConceptSpace(slots=2.5, values=3), "slots of a ConceptSpace are .2.5., expected whole numbers"),
        (lambda: ConceptSpace("digit"), "given 'digit', expected a softpnet.Group"),
    ],
)
def test_a_wrong_space_says_what_is_wrong(make, says):
    with pytest.raises(TaskError, match=says):
        make()


NAMES = ["", " ", "two\nlines", "\x1b[31mred", "\udcff", "x" * 101, 3, None]


@pytest.mark.parametrize("name", NAMES)
def test_what_people_call_something_must_be_printable(name):
    for made in (lambda: Group((0,), 2, name=name), lambda: Group((0,), 2, value_names=[["on", name]])):
        with pytest.raises(TaskError, match=r"is named .* expected 1 to 100 printable characters"):
            made()


def test_two_values_of_one_name_are_refused_since_their_probabilities_would_be_one():
    with pytest.raises(TaskError, match="attribute 1 of group 'sign' has 2 values named 'red'; expected each"):
        Group((0,), (2, 3), name="sign", value_names=[["a", "b"], ["red", "blue", "red"]])
    Group((0,), (2, 2), value_names=[["a", "b"], ["a", "b"]])  # of two attributes they are told apart


def test_a_group_s_name_must_fit_into_a_file_s():
    with pytest.raises(TaskError, match="too long for a file's name"):
        Group((0,), 2, name="é" * 40)


@pytest.mark.parametrize("values", [np.int64(4), np.array(4), torch.tensor(4), np.array([4]), [np.uint8(4)]])
def test_numbers_of_any_library_make_a_space(values):
    space = ConceptSpace(slots=np.int64(2), values=values)
    assert space.sizes == (4, 4) and all(type(h) is int for h in space.sizes)
    assert json.dumps(space.sizes) == "[4, 4]"
