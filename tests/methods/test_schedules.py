import pytest

from softpnet.methods import schedules


def test_gamma_decays_to_its_floor():
    gamma = schedules.exponential(1.0, 0.95, 0.01)
    assert [gamma(0), gamma(1), gamma(2)] == pytest.approx([1.0, 0.95, 0.9025])
    assert gamma(1000) == 0.01


def test_lambda_is_zero_for_three_epochs_then_rises_over_five():
    weight = schedules.ramp(1.0, delay=3, length=5)
    assert [weight(e) for e in range(10)] == pytest.approx([0, 0, 0, 0.2, 0.4, 0.6, 0.8, 1, 1, 1])


def test_lambda_without_a_ramp_is_constant():
    assert [schedules.ramp(5.0, 0, 0)(e) for e in (0, 1, 9)] == [5.0, 5.0, 5.0]


def test_the_learning_rate_halves_every_three_epochs():
    rate = schedules.halving(1.0, 3)
    assert [rate(e) for e in range(7)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    assert schedules.halving(1.0, 0)(50) == 1.0
