"""What neither rule nor anchors tell apart, against every map of the primitives of a small space."""

import itertools

import pytest
import torch

import softpnet as sp
from softpnet.rules import misreadings as searched
from softpnet.rules.compile import compilation
from softpnet.rules.misreadings import misreadings

FOUR = sp.ConceptSpace(slots=2, values=4)
PAIRS = sp.ConceptSpace(slots=2, values=(2, 2))
SOME_PAIRS = sp.ConceptSpace(sp.Group((0, 1), (3, 2), primitives=[(0, 0), (1, 1), (2, 1)]))
TWO_GROUPS = sp.ConceptSpace(sp.Group((0, 1), 2, "left"), sp.Group((2,), 3, "right"))


def tour(c):
    """No two values can be exchanged, but 1, 2 and 3 may be taken for each other in a circle."""
    a, b = c[..., 0], c[..., 1]
    return torch.where((a == 0) & (b == 0), 6, torch.where(a == 0, 4, torch.where(b == 0, 5, (b - a) % 3)))


def xor(c):
    return (c[..., 0] ^ c[..., 1]) * 2 + (c[..., 2] ^ c[..., 3])


CASES = {
    "circle": (FOUR, tour),
    "sum": (FOUR, lambda c: c.sum(-1)),
    "equal": (FOUR, lambda c: (c[..., 0] == c[..., 1]).long()),
    "label vectors": (FOUR, lambda c: c % 3),
    "xor of attributes": (PAIRS, xor),
    "each its own": (PAIRS, lambda c: c[..., 0] + 2 * c[..., 1] + 4 * c[..., 2] + 8 * c[..., 3]),
    "some pairs": (SOME_PAIRS, lambda c: c[..., 1] + c[..., 3]),
    "two groups": (TWO_GROUPS, lambda c: (c[..., 0] == c[..., 1]) * (1 + c[..., 2] // 2)),
    "two groups at once": (TWO_GROUPS, lambda c: (c[..., 0] + c[..., 2]) % 2),
}


def brute_force(space, rule, anchored):
    """Every map of the primitives that keeps every label, and the anchored ones; the true one left out."""
    tables = [group.primitive_table() for group in space.groups]
    every = space.all()[space.consist_of_primitives(space.all())]
    shown, labels, found = space.primitives(every), rule(every), []
    for maps in itertools.product(*(itertools.product(range(len(t)), repeat=len(t)) for t in tables)):
        if any(renamed[at] != at for renamed, own in zip(maps, anchored, strict=True) for at in own):
            continue
        parts = [table[torch.tensor(m)[ids]].flatten(1) for table, m, ids in zip(tables, maps, shown, strict=True)]
        if torch.equal(rule(torch.cat(parts, 1)), labels):
            found.append(maps)
    return [maps for maps in found if any(m != tuple(range(len(m))) for m in maps)]


def with_more(space, anchored, named):
    """The primitives anchored, and those that are named as being enough."""
    several = len(space.groups) > 1
    return [
        {*own, *(at for at, name in enumerate(g.primitive_names) if f"{g.name} " * several + repr(name) in named)}
        for g, own in zip(space.groups, anchored, strict=True)
    ]


@pytest.mark.parametrize("name", CASES)
def test_they_are_found_exactly_where_some_map_of_the_primitives_keeps_every_label(name):
    space, rule = CASES[name]
    task, outcomes = sp.Task(space, rule), set()
    sizes = [len(group.primitives) for group in space.groups]
    subsets = [[s for n in range(size + 1) for s in itertools.combinations(range(size), n)] for size in sizes]
    for anchored in itertools.product(*subsets):
        wrong = brute_force(space, rule, anchored)
        found = misreadings(task, [torch.tensor(own, dtype=torch.int64) for own in anchored])
        assert bool(found.taken) == bool(wrong) and found.all_tried
        if wrong:
            moves = [sum(m[at] != at for m in maps for at in range(len(m))) for maps in wrong]
            assert len(found.taken) == min(moves)
            assert not brute_force(space, rule, with_more(space, anchored, found.enough))
        outcomes.add(bool(wrong))
    assert False in outcomes


def test_they_are_said_with_an_anchor_that_rules_them_out():
    found = misreadings(sp.Task(FOUR, tour), [torch.tensor([0])])
    assert str(found) == "to take '1' for '2', '2' for '3' and '3' for '1' changes no label"
    assert found.remedy == "'1'"
    found = misreadings(sp.Task(PAIRS, xor), [torch.tensor([0, 3])])
    assert str(found) in {"to take '0 1' for '1 0' changes no label", "to take '1 0' for '0 1' changes no label"}


def test_random_assignments_stand_for_all_of_a_large_space_and_a_compiled_rule_shows_rare_labels():
    many = sp.ConceptSpace(slots=8, values=4)
    wanted = torch.arange(8) % 4
    rare = sp.Task(many, lambda c: (c == wanted).all(-1).long())
    assert misreadings(rare) == ([], [], False)  # one assignment of 65,536 has the label 1, and none is asked about
    compilation(rare)
    assert not misreadings(rare, [torch.arange(3)]).taken


def test_the_work_is_bounded_and_it_is_said_where_not_all_were_tried(monkeypatch):
    space, asked = sp.ConceptSpace(slots=2, values=40), []

    def rule(c):
        asked.append(c.numel())
        return (c[..., 0] == c[..., 1]).long()

    found = misreadings(sp.Task(space, rule))
    assert not found.all_tried, "any order of 40 values keeps every label"
    assert sum(asked) < 2_000_000
    monkeypatch.setattr(searched, "MOST", 3)
    assert misreadings(sp.Task(FOUR, tour)) == ([], [], False)


def test_values_that_random_assignments_hardly_show_together_are_told_apart():
    equal = sp.Task(sp.ConceptSpace(slots=2, values=200), lambda c: (c[..., 0] == c[..., 1]).long())
    found = misreadings(equal, [torch.arange(199)])  # 199 alone is unlike each of the others
    assert not found.taken
