"""Temperatures and thresholds against brute force, and on numbers that can be counted by hand."""

import math

import pytest
import torch

from softpnet import ConceptSpace, Group, InputError, Task
from softpnet.networks.calibration import COOLEST, Calibration, best_temperatures, decided, fitted

SPACE = ConceptSpace(Group(slots=(0, 1), values=3, name="one"), Group(slots=(0,), values=2, name="other"))  # k = 3


def readings(count, scale, seed=0):
    """log p `[B, 3, 3]`; the last concept has two values, so its third is -inf."""
    logits = scale * torch.randn(count, 3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logits[:, 2, 2] = -math.inf
    return logits.log_softmax(-1)


def test_every_group_has_its_own_temperature_and_the_order_of_values_stays():
    log_p = readings(20, 3)
    found = Calibration(torch.tensor([2.0, 0.5]), torch.ones(1)).tempered(SPACE, log_p)
    expected = torch.cat([log_p[:, :2].exp() ** 0.5, log_p[:, 2:].exp() ** 2], dim=1)
    torch.testing.assert_close(found.exp(), expected / expected.sum(-1, keepdim=True))
    assert torch.equal(found.argmax(-1), log_p.argmax(-1))


def test_the_temperatures_that_made_the_targets_are_found_again():
    log_p, made = readings(50, 2), Calibration(torch.tensor([1.7, 0.6]), torch.ones(1))
    found = best_temperatures(SPACE, log_p, made.tempered(SPACE, log_p).exp())
    torch.testing.assert_close(found, made.temperatures, atol=1e-4, rtol=0)


def test_no_temperature_of_a_grid_has_a_lower_cross_entropy():
    log_p = readings(40, 4)
    target = torch.nn.functional.one_hot(readings(40, 1, seed=1).argmax(-1), 3)
    target[:10] = 0  # without a target

    def cross_entropy(temperatures):
        told = Calibration(temperatures, torch.ones(1)).tempered(SPACE, log_p)
        return -(target * told.masked_fill(told.isinf(), 0)).sum(2).sum(0)  # [k]

    best = cross_entropy(best_temperatures(SPACE, log_p, target))
    for temperature in torch.linspace(0.3, 15, 100):
        other = cross_entropy(temperature.expand(2))
        assert best[:2].sum() <= other[:2].sum() + 1e-9 and best[2] <= other[2] + 1e-9


def test_without_targets_a_temperature_is_one_and_where_all_is_right_it_is_bounded():
    log_p = readings(30, 2)
    target = torch.nn.functional.one_hot(log_p.argmax(-1), 3)
    target[:, 2] = 0
    torch.testing.assert_close(best_temperatures(SPACE, log_p, target), torch.tensor([COOLEST, 1.0]))


def test_the_threshold_is_the_lowest_at_which_the_expected_error_is_kept():
    found = Calibration(torch.ones(1), torch.tensor([1.0, 0.9, 0.8, 0.5]))  # mean errors 0, 0.05, 0.1, 0.2
    thresholds = [found.threshold(reject) for reject in (0, 0.049, 0.051, 0.101, 0.199, 0.201, 1)]
    assert thresholds == pytest.approx([1.0, 1.0, 0.9, 0.8, 0.8, 0.0, 0.0])
    assert Calibration(torch.ones(1), torch.tensor([0.9])).threshold(0.05) == math.inf  # nothing is sure enough


def test_many_confidences_are_kept_as_a_thousand_with_the_same_thresholds():
    log_p = readings(2000, 2).float()
    kept = fitted(SPACE, log_p, torch.zeros(2000, 3, 3))
    every = Calibration(kept.temperatures, log_p.exp().amax(-1).flatten().sort(descending=True).values)
    assert len(kept.confidences) == 1001 and (kept.confidences.diff() <= 0).all()
    for reject in (0.01, 0.05, 0.1):
        assert kept.threshold(reject) == pytest.approx(every.threshold(reject), abs=0.01)


CONFIDENCES = torch.tensor([0.6, 0.8, 0.9, 0.95])
SURE = Calibration(torch.ones(1), CONFIDENCES.repeat_interleave(20).sort(descending=True).values)


@pytest.mark.parametrize("reject, told", [(0.3, 4), (0.12, 3), (0.08, 2), (0.06, 1), (0.04, 0)])
def test_abstaining_keeps_the_error_of_held_out_examples_within_the_bound(reject, told):
    """Of twenty that are sure to 0.9, eighteen are right: the probabilities are honest, but for what keeps them from
    being equal to a threshold, where rounding would decide."""
    task = Task(ConceptSpace(slots=1, values=2), lambda c: c[..., 0])
    sure = 0.001 + CONFIDENCES.repeat_interleave(20)
    wrong = torch.arange(20) < ((1 - CONFIDENCES) * 20).round()[:, None]  # [4, 20]
    found = decided(task, torch.stack([1 - sure, sure], dim=-1)[:, None].log(), SURE, reject)
    kept = found.concepts[:, 0] >= 0
    assert torch.equal(kept, (sure > 0.01 + CONFIDENCES.flip(0)[told] if told < 4 else sure > 0))
    if told:
        assert float(wrong.flatten()[kept].float().mean()) <= reject + 1e-6


def test_a_label_is_told_where_all_of_its_concepts_are():
    log_p = torch.tensor([[[0.03, 0.97], [0.08, 0.92]], [[0.4, 0.6], [0.97, 0.03]]]).log()
    space = ConceptSpace(slots=2, values=2)
    plain = decided(Task(space, lambda c: c.sum(-1)), log_p, SURE, 0.1)
    assert plain.concepts.tolist() == [[1, 1], [-1, 0]] and plain.labels.tolist() == [2, -1]
    vectors = decided(Task(space, lambda c: c), log_p, SURE, 0.1)
    assert vectors.labels.tolist() == [[1, 1], [-1, -1]]
    assert decided(Task(space, lambda c: c), log_p, SURE).labels.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("reject", [-0.01, 1.01, 5, float("nan"), True, "0.05", [0.05]])
def test_a_share_that_is_none_is_refused(reject):
    task = Task(ConceptSpace(slots=1, values=2), lambda c: c[..., 0])
    with pytest.raises(InputError, match=r"reject is .*, expected a share from 0 to 1, such as 0\.05"):
        decided(task, torch.zeros(1, 1, 2), SURE, reject)
