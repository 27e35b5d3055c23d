"""Values that a rule cannot tell apart, against every assignment of a small space."""

import itertools

import pytest
import torch

import softpnet as sp
from softpnet.rules.compile import compilation
from softpnet.rules.exchange import alike

SPACE = sp.ConceptSpace(slots=2, values=4)
RULES = {
    "parity": lambda c: c.sum(-1) % 2,
    "sum": lambda c: c.sum(-1),
    "equal": lambda c: (c[..., 0] == c[..., 1]).long(),
    "one of them": lambda c: (c == 2).any(-1).long(),
}


@pytest.mark.parametrize("name", RULES)
def test_they_are_those_that_can_be_exchanged_in_every_assignment(name):
    every = SPACE.all()
    labels = RULES[name](every)
    expected = set()
    for one, other in itertools.combinations(range(4), 2):
        renamed = torch.arange(4)
        renamed[[one, other]] = renamed[[other, one]]
        if torch.equal(RULES[name](renamed[every]), labels):
            expected.add((one, other))
    assert {(pair.one, pair.other) for pair in alike(sp.Task(SPACE, RULES[name]))} == expected


def test_a_label_too_rare_for_random_assignments_tells_values_apart():
    wanted = torch.arange(8) % 4
    rare = sp.Task(sp.ConceptSpace(slots=8, values=4), lambda c: (c == wanted).all(-1).long())
    assert len(list(alike(rare))) == 6  # one assignment of 65,536 has the label 1
    compilation(rare)
    assert not list(alike(rare))
