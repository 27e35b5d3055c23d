"""Rules that are told from outside: the same diagram where it can be told, a refusal where it cannot."""

import pytest
import torch

from softpnet import ConceptSpace, Task
from softpnet.errors import InputError
from softpnet.rules import compile, probe
from softpnet.rules.compile import check_known, compilation
from softpnet.rules.diagram import NotCompiled
from softpnet.rules.probe import probed
from softpnet.rules.table import from_table

SPACE = ConceptSpace(slots=6, values=4)


@pytest.fixture(autouse=True)
def few_checks(monkeypatch):
    """A hundredth of the checks, for the time of a test."""
    monkeypatch.setattr(probe, "CHECKS", 10_000)


def no_rows(space=SPACE):
    return torch.zeros(0, space.k, dtype=torch.int64)


def ascending(c):
    return (c[..., 1:] >= c[..., :-1]).all(-1).long()


def weighted(c):
    return (c * torch.tensor([1, 2, 3, 5, 7, 11])).sum(-1) % 13


@pytest.mark.parametrize("rule", [ascending, weighted, lambda c: torch.stack([weighted(c), ascending(c)], -1)])
@pytest.mark.parametrize("order", [range(6), [5, 2, 0, 1, 4, 3]])
def test_a_probed_diagram_is_that_of_the_table(rule, order):
    found = probed(SPACE, rule, tuple(order), no_rows())
    table = from_table(SPACE, rule, tuple(order))
    if found.rare:  # labels that hardly any assignment has are not told apart
        assert found.diagram.labels.shape[0] + found.rare == table.labels.shape[0]
        assert found.diagram.count(found.diagram.labels) == table.count(found.diagram.labels)
    else:
        assert found.diagram.same(table)
    assert found.checks == 10_000


def needle(c):
    """One assignment of 4^6."""
    return (c == torch.tensor([3, 1, 2, 0, 1, 3])).all(-1).long()


def test_what_random_assignments_never_show_is_found_from_known_rows():
    row = torch.tensor([[3, 1, 2, 0, 1, 3]])
    found = probed(SPACE, needle, range(6), row)
    assert found.diagram.same(from_table(SPACE, needle, range(6))) and found.checks == 10_001


def test_a_disagreement_adds_its_endings_and_it_begins_again(monkeypatch):
    monkeypatch.setattr(probe, "ENDINGS", 16)  # too few at first
    assert probed(SPACE, ascending, range(6), no_rows()).diagram.same(from_table(SPACE, ascending, range(6)))
    monkeypatch.setattr(probe, "ROUNDS", 1)
    with pytest.raises(NotCompiled, match=r"probing found no diagram: after 1 rounds .* of 10,000 assignments still"):
        probed(SPACE, ascending, range(6), no_rows())


def test_a_rule_with_too_many_nodes_to_be_found_is_given_up(monkeypatch):
    monkeypatch.setattr(probe, "QUESTIONS", 1000)
    with pytest.raises(NotCompiled, match=r"probing would ask more than 1,000 questions \(nodes per layer so far: 1\)"):
        probed(SPACE, weighted, range(6), no_rows())


def test_a_probed_rule_is_never_called_exact_and_a_label_too_rare_to_be_seen_is_refused(monkeypatch):
    monkeypatch.setattr(compile, "TABLE", 0)
    task = Task(SPACE, needle)
    found = compilation(task)
    assert found.how == "probed" and "exact" not in str(found) and "no disagreement in 10,000 checks" in str(found)
    with pytest.raises(InputError, match=r"the compiled rule .* does not know: 1 \(example ids 0\).*rare"):
        check_known(task, torch.tensor([1, 0]))
    check_known(task, torch.tensor([0, 0]))
