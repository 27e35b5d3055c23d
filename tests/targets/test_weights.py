"""Scores, weights, targets and KL against brute force."""

import math

import pytest
import torch

from softpnet import targets as sources
from softpnet.methods import losses
from softpnet.rules import scoring
from softpnet.targets import weights as targets
from softpnet.targets.source import Query
from softpnet.task.concepts import ConceptSpace
from softpnet.task.settings import Settings
from softpnet.task.task import Task


def random_log_p(generator, batch=3, k=3, h=4):
    return torch.randn(batch, k, h, generator=generator).log_softmax(-1)


def test_scores_are_sums_of_concept_log_probabilities(generator):
    log_p = random_log_p(generator)
    rows = torch.randint(4, (3, 5, 3), generator=generator)
    expected = [[sum(log_p[b, i, rows[b, j, i]] for i in range(3)) for j in range(5)] for b in range(3)]
    torch.testing.assert_close(scoring.scores(log_p, rows), torch.tensor(expected))


@pytest.mark.parametrize("gamma", [1.0, 0.3, 0.05])
def test_weights_are_a_tempered_softmax_over_the_valid_candidates(generator, gamma):
    scores = torch.randn(3, 5, generator=generator)
    valid = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0]]).bool()
    found = targets.weights(scores, valid, gamma)
    for b in range(3):
        raw = [math.exp(scores[b, j] / gamma) if valid[b, j] else 0.0 for j in range(5)]
        expected = [value / sum(raw) if sum(raw) else 0.0 for value in raw]
        torch.testing.assert_close(found[b], torch.tensor(expected))


def test_weights_at_temperature_zero_are_all_on_the_best_valid_candidate():
    scores = torch.tensor([[3.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
    valid = torch.tensor([[False, True, True], [False, False, False]])
    assert targets.weights(scores, valid, 0.0).tolist() == [[0, 0, 1], [0, 0, 0]]


def test_weights_stay_finite_for_tiny_probabilities_and_temperatures():
    scores = torch.tensor([[-1e4 * 16, -1e4 * 15, -3e4 * 16]])
    found = targets.weights(scores, torch.ones(1, 3, dtype=torch.bool), 0.01)
    assert found.tolist() == [[0.0, 1.0, 0.0]]


def test_soft_target_is_the_weighted_share_of_each_value(generator):
    rows = torch.randint(4, (2, 6, 3), generator=generator)
    weights = torch.rand(2, 6, generator=generator)
    found = targets.soft_target(rows, weights, h=4)
    for b in range(2):
        for i in range(3):
            for v in range(4):
                expected = sum(weights[b, j].item() for j in range(6) if rows[b, j, i] == v)
                assert found[b, i, v].item() == pytest.approx(expected, abs=1e-6)


SUMS = Task(ConceptSpace(slots=3, values=3), lambda c: c.sum(-1))


def exact_marginal(log_p, labels, gamma):
    """Of p(c|x)^(1/gamma) over every assignment with the label, one at a time."""
    everything, expected = SUMS.space.all(), torch.zeros_like(log_p)
    for b, label in enumerate(labels):
        feasible = everything[everything.sum(1) == label]
        mass = torch.stack([sum(log_p[b, i, row[i]] for i in range(3)) / gamma for row in feasible]).softmax(0)
        for i in range(3):
            expected[b, i] = torch.stack([mass[feasible[:, i] == v].sum() for v in range(3)])
    return expected


@pytest.mark.parametrize("gamma", [1.0, 0.3, 0.05])
@pytest.mark.parametrize("source", ["cache", "kbest", "exact", "auto"])
def test_with_every_candidate_the_soft_target_is_the_exact_tempered_marginal(generator, source, gamma):
    made = sources.make(SUMS, Settings(targets=source, working_set=27), generator)
    labels = torch.tensor([0, 1, 2, 3, 4, 6])
    state = made.start(labels)
    log_p = random_log_p(generator, batch=6, k=3, h=3).double()
    for epoch in range(3):  # the first draw, and later encounters
        found, _ = made.target(state, Query(torch.arange(6), labels, log_p, epoch, gamma), generator)
        torch.testing.assert_close(found, exact_marginal(log_p, labels, gamma), atol=1e-6, rtol=0)


@pytest.mark.parametrize("source", ["exact", "auto"])
def test_exact_targets_do_not_depend_on_the_size_of_the_working_set(generator, source):
    made = sources.make(SUMS, Settings(targets=source, working_set=1, kbest_pool=1), generator)
    labels, log_p = torch.tensor([3, 2]), random_log_p(generator, batch=2, k=3, h=3).double()
    found, _ = made.target(made.start(labels), Query(torch.arange(2), labels, log_p, 0, 1.0), generator)
    torch.testing.assert_close(found, exact_marginal(log_p, labels, 1.0))


@pytest.mark.parametrize("source", ["cache", "kbest", "exact", "auto"])
def test_the_best_target_is_the_one_best_assignment(generator, source):
    made = sources.make(SUMS, Settings(targets=source, target="best", working_set=27), generator)
    labels, log_p = torch.arange(7), random_log_p(generator, batch=7, k=3, h=3).double()
    found, _ = made.target(made.start(labels), Query(torch.arange(7), labels, log_p, 0, 1.0), generator)
    torch.testing.assert_close(found, exact_marginal(log_p, labels, 1e-4))


def test_kl_matches_its_definition_and_ignores_padding(generator):
    log_p = random_log_p(generator)
    log_p = torch.nn.functional.pad(log_p, (0, 1), value=-math.inf)  # a value that these concepts do not have
    target = torch.nn.functional.pad(torch.rand(3, 3, 4, generator=generator).softmax(-1), (0, 1))
    target[0, 0] = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
    expected = 0.0
    for b in range(3):
        for i in range(3):
            for v in range(4):
                t = target[b, i, v].item()
                expected += t * (math.log(t) - log_p[b, i, v].item()) / 3 if t > 0 else 0.0
    assert losses.kl(target, log_p).item() == pytest.approx(expected, abs=1e-6)


def test_gradient_of_kl_passes_gradcheck(generator):
    logits = torch.randn(2, 3, 4, generator=generator, dtype=torch.double, requires_grad=True)
    target = torch.rand(2, 3, 4, generator=generator, dtype=torch.double).softmax(-1)
    target[0, 0] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    assert torch.autograd.gradcheck(lambda x: losses.kl(target, x.log_softmax(-1)), logits)


def test_gradient_of_kl_is_finite_where_log_p_is_minus_infinity():
    logits = torch.zeros(1, 1, 2, requires_grad=True)
    log_p = torch.nn.functional.pad(logits.log_softmax(-1), (0, 1), value=-math.inf)
    losses.kl(torch.tensor([[[1.0, 0.0, 0.0]]]), log_p).backward()
    assert logits.grad.tolist() == [[[-0.5, 0.5]]]
