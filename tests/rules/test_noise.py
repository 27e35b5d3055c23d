"""Labels that may be wrong, against a sum over every assignment."""

import pytest
import torch

import softpnet as sp
from softpnet import targets
from softpnet.rules.compile import compilation
from softpnet.rules.noise import noisy_marginals
from softpnet.targets.source import Query
from softpnet.task.settings import Settings

SPACE = sp.ConceptSpace(sp.Group([0, 1], 3, name="height"), sp.Group([2], 2, name="light"))
EVERY = SPACE.all()


def total(c):
    return c.sum(-1)


def pair(c):
    return torch.stack([c[..., 0] + c[..., 1], c[..., 2]], -1)


def readings(count, sharpness=1.0, dtype=torch.float64):
    raw = sharpness * torch.randn(count, SPACE.k, SPACE.h, generator=torch.Generator().manual_seed(0), dtype=dtype)
    possible = torch.arange(SPACE.h) < torch.tensor(SPACE.sizes)[:, None]
    return raw.masked_fill(~possible, -torch.inf).log_softmax(-1)


def enumerated(rule, log_p, labels, noise):
    """Marginals of p(c | x, observed label), and log P(observed label | x), assignment by assignment."""
    count = len(rule(EVERY).unique(dim=0))
    same = (rule(EVERY)[None] == labels[:, None]).reshape(len(labels), len(EVERY), -1).all(-1)  # [B, M]
    likelihood = torch.where(same, 1 - noise, noise / (count - 1)).to(log_p)
    joint = torch.stack([log_p[:, i, EVERY[:, i]] for i in range(SPACE.k)]).sum(0).exp() * likelihood  # [B, M]
    posterior = joint / joint.sum(1, keepdim=True)
    marginals = torch.stack([posterior @ (EVERY == v).to(log_p) for v in range(SPACE.h)], -1)  # [B, k, h]
    return marginals, joint.sum(1).log()


@pytest.mark.parametrize("rule", [total, pair])
@pytest.mark.parametrize("noise", [1e-6, 0.05, 0.7])
@pytest.mark.parametrize("sharpness", [0.1, 3.0, 40.0])
def test_the_target_is_the_posterior_under_labels_that_are_wrong_at_random(rule, noise, sharpness):
    labels = rule(EVERY).unique(dim=0)
    log_p = readings(len(labels), sharpness)
    found = noisy_marginals(compilation(sp.Task(SPACE, rule)).rule, log_p, labels, noise)
    torch.testing.assert_close(found, enumerated(rule, log_p, labels, noise)[0])


def test_the_kl_towards_it_has_the_gradient_of_the_likelihood():
    labels = total(EVERY).unique()
    raw = torch.randn(len(labels), 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    raw[:, 2, 2] = -torch.inf
    raw.requires_grad_()
    log_p = raw.log_softmax(-1)
    (wanted,) = torch.autograd.grad(-enumerated(total, log_p, labels, 0.2)[1].sum(), raw, retain_graph=True)
    target = noisy_marginals(compilation(sp.Task(SPACE, total)).rule, log_p.detach(), labels, 0.2)
    (found,) = torch.autograd.grad(-(target * log_p.masked_fill(target == 0, 0.0)).sum(), raw)
    torch.testing.assert_close(found, wanted)


def test_a_label_that_the_network_is_sure_to_be_wrong_no_longer_teaches():
    sure = readings(1).new_full((1, 3, 3), -30.0)
    sure[:, :, 0] = 0.0  # all zeros, whose sum is 0
    rule = compilation(sp.Task(SPACE, total)).rule
    trusting = rule.marginals(sure, torch.tensor([5]))
    doubting = noisy_marginals(rule, sure, torch.tensor([5]), 0.05)
    assert trusting[0, :, 0].max() < 0.01 and doubting[0, :, 0].min() > 0.99


def source_for(task, labels, **settings):
    source = targets.make(task, Settings().override(**settings), torch.Generator())
    return source, source.start(labels)


@pytest.mark.parametrize("name", ["exact", "auto"])
def test_exact_targets_follow_the_setting_at_the_temperature_of_the_moment(name):
    labels = total(EVERY).unique()
    log_p = readings(len(labels))
    source, state = source_for(sp.Task(SPACE, total), labels, targets=name, label_noise=0.1)
    found, _ = source.target(state, Query(torch.arange(len(labels)), labels, log_p, 0, 0.5), torch.Generator())
    tempered = (log_p / 0.5).log_softmax(-1)
    torch.testing.assert_close(found, enumerated(total, tempered, labels, 0.1)[0])
    assert source.doubts_labels


def test_a_machine_that_sees_the_label_cannot_say_how_many_labels_there_are():
    machine = sp.Machine(
        0, lambda states, concept, values, labels: states + values, accept=lambda s, y: s == y, rule=total
    )
    with pytest.raises(sp.InputError, match="label_noise needs to know how many labels there are, but a Machine"):
        source_for(sp.Task(SPACE, machine), torch.tensor([3]), targets="exact", label_noise=0.1)


def test_label_noise_and_unknown_entries_do_not_go_together():
    with pytest.raises(
        sp.InputError, match=r"label \[2, -1\] of example 1 .* label_noise cannot use; set label_noise to 0"
    ):
        source_for(sp.Task(SPACE, pair), torch.tensor([[2, 1], [2, -1]]), targets="exact", label_noise=0.1)


@pytest.mark.parametrize("value", [-0.1, 1.0, 20])
def test_a_share_of_wrong_labels_is_below_1(value):
    with pytest.raises(sp.InputError, match=f"setting label_noise is {value}, expected a share, 0 to below 1"):
        Settings().override(label_noise=value)


def test_the_best_candidate_alone_knows_no_doubt():
    with pytest.raises(sp.InputError, match=r"setting label_noise is 0.1, expected 0 with target = 'best'"):
        Settings().override(label_noise=0.1, target="best")


@pytest.mark.parametrize("name", ["exact", "auto"])
def test_a_label_that_no_assignment_has_is_wrong_for_certain_and_leaves_the_whole_space(name):
    task, labels = sp.Task(SPACE, total), torch.tensor([3, 99, 99])
    source, state = source_for(task, labels, targets=name, label_noise=0.1, balance=1.0)
    log_p = readings(3)
    found = noisy_marginals(compilation(task).rule, log_p, labels, 0.1)
    assert torch.allclose(found, enumerated(total, log_p, labels, 0.1)[0])
    assert source.notes()[-1].startswith("2 examples have a label that no assignment has")
    assert torch.isfinite(state.usage).all() and state.usage.sum(1).allclose(torch.ones(SPACE.k).double())


def test_labels_that_no_assignment_has_are_refused_where_none_may_be_wrong_or_all_would_be():
    task = sp.Task(SPACE, total)
    with pytest.raises(sp.InputError, match="values of the concepts give"):
        source_for(task, torch.tensor([3, 99]), targets="exact")
    with pytest.raises(sp.InputError, match="values of the concepts give"):
        source_for(task, torch.tensor([99, 99]), targets="auto", label_noise=0.1)
