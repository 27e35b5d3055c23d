"""Every question to a compiled rule against brute force, over random rules."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from bench.growth import peak_bytes
from softpnet.rules.diagram import Diagram
from softpnet.rules.labels import LabelIndex, unique_labels
from softpnet.rules.machine import Machine
from softpnet.rules.merge import TooManyNodes, check_budget
from softpnet.rules.sifting import sifted, swapped
from softpnet.rules.table import from_table
from softpnet.rules.trie import from_rows
from softpnet.task.concepts import ConceptSpace
from torture.random_rules import GAMMAS, MOST, problems


@settings(max_examples=100, deadline=None)  # torture tries 2,000
@given(problems(), st.sampled_from(GAMMAS), st.integers(1, MOST))
def test_every_sweep_gives_what_brute_force_gives(problem, gamma, count):
    assert problem.faults(gamma, count) == []


@settings(max_examples=60, deadline=None)
@given(problems())
def test_rows_give_the_same_diagram_as_the_table_and_no_two_nodes_of_a_layer_are_equal(problem):
    diagram = problem.diagram
    shuffled = torch.randperm(len(problem.every), generator=problem.generator)
    rows = problem.every[shuffled]
    assert from_rows(problem.space, rows, problem.rule(rows), problem.order, None).same(diagram)
    assert all(len(layer.unique(dim=0)) == len(layer) for layer in diagram.edges)
    # and none is missing: a node is a function of the concepts that are still to be read
    table = unique_labels(problem.labels)[1].view(problem.space.sizes).permute(problem.order)
    for at, width in enumerate(diagram.widths):
        assert width == len(table.flatten(0, at - 1).unique(dim=0)) if at else width == 1


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 4))
def test_another_order_is_the_same_rule_and_as_small_as_if_it_had_been_compiled_so(problem, layer):
    if problem.space.k > 1:
        other = swapped(problem.diagram, min(layer, problem.space.k - 2))
        assert other.nodes == from_table(problem.space, problem.rule, other.order).nodes
    better = sifted(problem.diagram)
    assert better.nodes <= problem.diagram.nodes
    assert better.same(from_table(problem.space, problem.rule, better.order))


def test_sifting_finds_the_order_in_which_pairs_stand_together():
    """Three pairs that must be equal, first all left ones, then all right ones: 2^3 nodes, or two per pair."""
    space = ConceptSpace(slots=8, values=2)
    diagram = from_table(space, lambda c: (c[..., :4] == c[..., 4:]).all(-1).long(), range(8))
    assert max(diagram.widths) == 16 and max(sifted(diagram).widths) == 3


@pytest.fixture(scope="module")
def sums():
    space = ConceptSpace(slots=3, values=4)
    return from_table(space, lambda c: c.sum(-1), range(3))


def test_the_gradient_of_log_prob_is_right(sums):
    logits = torch.randn(3, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([0, 4, 9])
    assert torch.autograd.gradcheck(lambda x: sums.log_prob(x.log_softmax(-1), labels), logits)


def test_a_label_that_cannot_be_has_no_probability_and_no_gradient(sums):
    log_p = torch.zeros(2, 3, 4).log_softmax(-1).requires_grad_()
    found = sums.log_prob(log_p, torch.tensor([10, 3]))
    assert found[0] == -torch.inf and found[1].isfinite()
    found[1].backward()
    assert log_p.grad[0].abs().sum() == 0 and log_p.grad.isfinite().all()
    assert sums.marginals(log_p.detach(), torch.tensor([10, 3]))[0].abs().sum() == 0


def test_values_of_no_probability_are_never_in_a_target(sums):
    log_p = torch.zeros(1, 3, 4).log_softmax(-1)
    log_p[:, 0, 1:] = -torch.inf
    target = sums.marginals(log_p, torch.tensor([3]))
    assert target[0, 0].tolist() == [1, 0, 0, 0] and target.isfinite().all()
    impossible = sums.marginals(log_p, torch.tensor([9]))  # needs a 3 in the first place
    assert impossible.abs().sum() == 0 and sums.log_prob(log_p, torch.tensor([9]))[0] == -torch.inf


@pytest.mark.parametrize("gamma", [1.0, 0.01])
def test_single_precision_is_safe_where_log_p_is_minus_ten_thousand(sums, gamma):
    generator = torch.Generator().manual_seed(0)
    log_p = (-1e4 * torch.rand(64, 3, 4, generator=generator)).float()
    log_p -= log_p.amax(-1, keepdim=True)
    labels = torch.arange(64) % 10
    target = sums.marginals(log_p, labels, gamma)
    torch.testing.assert_close(target.sum(-1), torch.ones(64, 3))
    rows, exists = sums.best(log_p, labels, 1)
    assert exists.all() and torch.equal(rows[:, 0].sum(-1), labels)
    assert sums.log_prob(log_p, labels).isfinite().all()


def test_at_temperature_zero_the_target_is_the_best_assignment(sums):
    log_p = torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    labels = torch.arange(8)
    rows, _ = sums.best(log_p, labels, 1)
    assert torch.equal(sums.marginals(log_p, labels, 0.0).argmax(-1), rows[:, 0])
    cold = sums.marginals(log_p, labels, 1e-4)
    torch.testing.assert_close(cold, sums.marginals(log_p, labels, 0.0))


def chi_square(found, expected):
    return float(((found - expected) ** 2 / expected).sum())


def test_samples_of_a_label_are_uniform(sums):
    drawn = sums.sample(torch.full((12_000,), 4), torch.Generator().manual_seed(0))
    found = drawn.unique(dim=0, return_counts=True)[1]
    assert len(found) == 12 and chi_square(found, torch.full((12,), 1000.0)) < 31.3  # 11 degrees, 0.1 %


def test_samples_of_log_p_follow_the_posterior(sums):
    log_p = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    labels = torch.full((20_000,), 3)
    drawn = sums.sample(labels, torch.Generator().manual_seed(0), log_p.expand(20_000, -1, -1))
    share = torch.nn.functional.one_hot(drawn, 4).double().mean(0)
    assert (share - sums.marginals(log_p, labels[:1])[0]).abs().max() < 0.015


def test_many_layers_are_swept_in_pieces_and_hold_little_memory():
    """Of k layers sqrt(2 k) are held: at most four times the edges of the largest, beside one copy of log p."""
    k, h, width, batch = 200, 10, 30, 8
    space, generator = ConceptSpace(slots=k, values=h), torch.Generator().manual_seed(0)
    steps = torch.randint(width, (k, h), generator=generator)
    counter = Machine(
        0, lambda states, concept, values: (states + steps[concept, values]) % width, lambda states: states
    )
    rule = counter.compiled(space)
    assert isinstance(rule, Diagram)
    log_p = torch.randn(batch, k, h, generator=generator).log_softmax(-1)
    labels = torch.arange(batch)
    total = torch.eye(width, dtype=torch.float64)[0].expand(batch, -1)  # [B, W], how probable each sum is
    for p, step in zip(log_p.double().exp().unbind(1), steps.tolist(), strict=True):
        total = sum(p[:, v, None] * total.roll(by, 1) for v, by in enumerate(step))
    torch.testing.assert_close(rule.log_prob(log_p.double(), labels), total[labels, labels].log())
    largest = max(edges.numel() for edges in rule.edges) * batch
    held = peak_bytes(lambda: rule.marginals(log_p, labels)) / 8
    assert held - log_p.numel() <= 4 * largest


def test_known_labels_are_sorted_once(sums, monkeypatch):
    made = []
    monkeypatch.setattr("softpnet.rules.diagram.LabelIndex", lambda known: made.append(1) or LabelIndex(known))
    diagram, labels = swapped(swapped(sums, 0), 0), torch.tensor([3, 4])
    for _ in range(3):
        diagram.knows(labels), diagram.layers(labels), diagram.contains(torch.zeros(2, 3, dtype=torch.int64), labels)
    assert made == [1]


def test_counts_beyond_64_bits_are_exact():
    space = ConceptSpace(slots=40, values=10)
    edges = [torch.zeros(1, 10, dtype=torch.int64)] * 40
    assert Diagram(space, range(40), edges, torch.tensor([7])).count(torch.tensor([7])) == [10**40]


def test_assignments_of_no_known_label_are_in_no_answer():
    space = ConceptSpace(slots=2, values=3)
    rows = torch.tensor([[0, 0], [1, 1]])
    diagram = from_rows(space, rows, torch.tensor([5, 5]), range(2), None)
    assert not diagram.is_total and diagram.labels.tolist() == [5] and diagram.count(torch.tensor([5])) == [2]
    best, exists = diagram.best(torch.zeros(1, 2, 3), torch.tensor([5]), 9)
    assert sorted(best[0][exists[0]].tolist()) == rows.tolist()
    total = from_rows(space, rows, torch.tensor([5, 5]), range(2), torch.tensor(0))
    assert total.is_total and total.count(torch.tensor([0, 5])) == [7, 2]


def test_a_diagram_beyond_its_budget_says_so_with_its_widths():
    with pytest.raises(TooManyNodes, match=r"more than 200,000 nodes \(nodes per layer so far: 1 10 200,000\); try"):
        check_budget([1, 10, 200_000])


def test_a_table_beyond_its_budget_names_its_last_layers_in_their_order(monkeypatch):
    monkeypatch.setattr("softpnet.rules.merge.BUDGET", 10)
    with pytest.raises(TooManyNodes, match=r"more than 10 nodes \(nodes per layer so far: 4 7\); try"):
        from_table(ConceptSpace(slots=3, values=4), lambda c: c.sum(-1), range(3))
