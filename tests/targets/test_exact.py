"""Exact targets, what `auto` chooses, and caches that a compiled rule fills."""

import math

import pytest
import torch

import softpnet as sp
from softpnet import targets
from softpnet.errors import InputError, TaskError
from softpnet.experiments.tried import concept_attention
from softpnet.rules import make_cache as caches
from softpnet.rules.compile import Compilation
from softpnet.rules.make_cache import make_cache
from softpnet.rules.scoring import scores
from softpnet.rules.trie import from_rows
from softpnet.targets.exact import concept_kinds
from softpnet.targets.source import Query
from softpnet.targets.weights import soft_target, weights
from softpnet.task.settings import Settings

SPACE = sp.ConceptSpace(slots=3, values=4)
EVERY = SPACE.all()


def total(c):
    return c.sum(-1)


def query(labels, seed=0, gamma=0.5, space=SPACE):
    generator = torch.Generator().manual_seed(seed)
    log_p = torch.randn(len(labels), space.k, space.h, generator=generator).log_softmax(-1)
    return Query(torch.arange(len(labels)), labels, log_p, 0, gamma)


def made(task, labels, **settings):
    source = targets.make(task, Settings().override(**settings), torch.Generator().manual_seed(0))
    return source, source.start(labels)


def brute_force(rule, asked, gamma):
    rows = EVERY.expand(len(asked.labels), -1, -1)
    fits = rule(rows) == asked.labels[:, None]
    return soft_target(rows, weights(scores(asked.log_p, rows), fits, gamma), SPACE.h)


@pytest.mark.parametrize("kind, gamma", [("soft", 0.5), ("best", 0.0)])
@pytest.mark.parametrize("name", ["exact", "auto"])
def test_the_target_is_made_of_every_feasible_assignment(name, kind, gamma):
    asked = query(torch.arange(10))
    source, state = made(sp.Task(SPACE, total), asked.labels, targets=name, target=kind)
    found, _ = source.target(state, asked, torch.Generator())
    torch.testing.assert_close(found, brute_force(total, asked, gamma))
    assert state.tensors() == {}  # nothing is remembered


def small_or_not(c):
    return (c.sum(-1) <= 2).long()


def expected(rule, labels):
    """How often each value occurs in all slots together, where every assignment of S(y) is equally likely."""
    shares = [torch.nn.functional.one_hot(EVERY[rule(EVERY) == y], SPACE.h).double().mean((0, 1)) for y in labels]
    return torch.stack(shares).mean(0)


@pytest.mark.parametrize("balance", [0.4, 1.0])
def test_a_balanced_target_prefers_what_is_read_less_often_than_the_labels_let_expect(balance):
    asked = query(torch.tensor([0, 1, 1, 1]), gamma=1.0)
    source, state = made(sp.Task(SPACE, small_or_not), asked.labels, targets="exact", balance=balance)
    wanted = expected(small_or_not, asked.labels)
    torch.testing.assert_close(state.usage, wanted.expand(3, -1))
    before = torch.tensor([0.2, 0.7, 0.1, 0.0], dtype=torch.float64)
    state.usage.copy_(before.expand(3, -1))
    found, _ = source.target(state, asked, torch.Generator())
    pace = 4 * 3 / (64 * 4)  # readings of a step, over 64 of each of the 4 values
    usage = (1 - pace) * before + pace * asked.log_p.double().exp().mean((0, 1))
    torch.testing.assert_close(state.usage, usage.expand(3, -1))
    gain = ((wanted + 0.0025) / (usage + 0.0025)).log()
    gain = (gain.sign() * (gain.abs() - math.log(1.5)).clamp_min(0)).float()
    assert gain.min() < 0 < gain.max() and (gain == 0).any()  # some lose, some gain, others are within the slack
    torch.testing.assert_close(
        found, brute_force(small_or_not, asked._replace(log_p=asked.log_p + balance * gain), 1.0)
    )


def test_a_value_that_the_rule_leaves_open_and_nobody_reads_comes_back_in_balanced_targets():
    def parity(c):
        return (c % 2).sum(-1)

    labels = torch.zeros(64, dtype=torch.long)  # three even values: 0 or 2
    read = torch.tensor([0.98, 0.0, 0.02, 0.0]).log().expand(64, 3, 4)
    asked = query(labels)._replace(log_p=read, gamma=1.0)
    source, state = made(sp.Task(SPACE, parity), labels, targets="exact", balance=1.0)
    for _ in range(100):
        found, _ = source.target(state, asked, torch.Generator())
    assert 0.2 < found[..., 2].mean() < 0.5
    plain, state = made(sp.Task(SPACE, parity), labels, targets="exact")
    torch.testing.assert_close(plain.target(state, asked, torch.Generator())[0], read.exp())


def test_concept_level_attention_softens_the_evidence_of_the_other_concepts_alone():
    asked = query(torch.arange(10))
    source = concept_attention.Source(sp.Task(SPACE, total), Settings(), torch.Generator())
    found, _ = source.target(source.start(asked.labels), asked, torch.Generator())
    for slot in range(3):
        own = torch.full((3, 1), 0.5).index_fill_(0, torch.tensor([slot]), 1.0)  # what a concept's evidence counts
        wanted = brute_force(total, asked._replace(log_p=own * asked.log_p), 1.0)
        torch.testing.assert_close(found[:, slot], wanted[:, slot])


def test_balance_counts_the_slots_and_attributes_of_a_kind_together():
    space = sp.ConceptSpace(sp.Group([0, 1], (2, 3), name="shape"), sp.Group([2], 2, name="light"))
    assert concept_kinds(space) == [0, 1, 0, 1, 2]
    task = sp.Task(space, lambda c: c[..., 4])
    _, state = made(task, torch.tensor([0, 0, 0, 1]), balance=1.0)
    half, third, light = [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.75, 0.25, 0.0]
    torch.testing.assert_close(state.usage, torch.tensor([half, third, half, third, light], dtype=torch.float64))


@pytest.mark.parametrize("even", [False, True], ids=["as they come", "all labels equally often"])
def test_balance_expects_what_batches_have_however_the_labels_stand(even):
    task = sp.Task(SPACE, lambda c: c[..., 0])  # the label is what the first slot shows
    labels = torch.tensor([0, 1, 1, 2] * 1000)  # every fourth one is a 0
    _, state = made(task, labels, targets="exact", balance=1.0, balanced_labels=even)
    first = torch.tensor([1 / 3, 1 / 3, 1 / 3, 0] if even else [0.25, 0.5, 0.25, 0], dtype=torch.float64)
    torch.testing.assert_close(state.usage[0], (first + 2 * 0.25) / 3)  # the other two slots show anything


def test_without_a_compiled_rule_exact_is_refused_and_auto_takes_the_k_best(uncompiled):
    task, labels = uncompiled(sp.Task(SPACE, total)), torch.arange(10)
    with pytest.raises(TaskError, match=r"targets='exact' needs a compiled rule.*not compiled: it is too large"):
        made(task, labels, targets="exact")
    source, state = made(task, labels, working_set=64, kbest_pool=64)
    asked = query(labels)
    torch.testing.assert_close(source.target(state, asked, torch.Generator())[0], brute_force(total, asked, 0.5))
    assert source.notes() == ["targets: kbest, since the rule is not compiled: it is too large, says the test"]


def test_labels_that_the_compiled_rule_does_not_know_have_the_k_best_beside_exact_targets():
    task = sp.Task(SPACE, total)
    known = EVERY[total(EVERY) <= 4]
    diagram = from_rows(SPACE, known, total(known), range(3), None)
    task.memo["compilation"] = Compilation(diagram, "probed", "no disagreement in 7 checks", 0.0)
    asked = query(torch.arange(10))
    source, state = made(task, asked.labels, working_set=64, kbest_pool=64)
    torch.testing.assert_close(source.target(state, asked, torch.Generator())[0], brute_force(total, asked, 0.5))
    assert source.notes()[0].startswith("targets: exact, and kbest for 5 examples of rare labels; the rule is probed")
    source, _ = made(task, asked.labels, balance=1.0)
    assert "of rare labels, so that balance is off; the rule" in source.notes()[0]


@pytest.mark.parametrize("name", ["exact", "auto", "kbest"])
def test_a_label_without_an_assignment_is_refused_at_the_start(name):
    with pytest.raises(InputError, match=r"values of the concepts give in task 'task': 10 \(example ids 1\)"):
        made(sp.Task(SPACE, total), torch.tensor([3, 10]), targets=name)


def test_what_was_chosen_and_why_is_said_in_one_line():
    source, _ = made(sp.Task(SPACE, total), torch.tensor([3]))
    (said,) = source.notes()
    assert said.startswith("targets: exact; the rule is exact, from a table of all 64 assignments, 12 nodes, at most 7")


# The paper's cache on a rule that brings no rows and no moves


@pytest.fixture
def unlisted(monkeypatch):
    """No space is small enough to be enumerated."""
    monkeypatch.setattr(caches, "ENUMERABLE", 0)


def test_a_cache_holds_all_rows_of_small_labels_and_uniform_draws_of_large_ones(unlisted):
    cache = make_cache(sp.Task(SPACE, total), torch.Generator().manual_seed(0), per_label=6)
    counts = total(EVERY).bincount()
    assert torch.equal(cache.complete, counts <= 6) and (cache.counts <= 6).all()
    assert torch.equal(cache.counts[cache.complete], counts[counts <= 6])
    assert torch.equal(total(cache.rows.long()), cache.labels.repeat_interleave(cache.counts))


def test_a_walk_from_drawn_rows_reaches_rows_that_the_cache_lacks(unlisted):
    labels = torch.full((200,), 4)  # 12 assignments, of which the cache has a few
    source, state = made(sp.Task(SPACE, total), labels, targets="cache", cache_rows=2, working_set=1, draw_factor=1)
    flat = torch.zeros(200, 3, 4).log_softmax(-1)
    for epoch in range(8):
        found, _ = source.candidates(
            state, Query(torch.arange(200), labels, flat, epoch, 1.0), torch.Generator().manual_seed(epoch)
        )
    assert (total(found.rows) == 4).all() and len(found.rows[:, 0].unique(dim=0)) == 12


def test_a_rule_that_cannot_be_drawn_from_has_no_cache(unlisted, uncompiled):
    with pytest.raises(TaskError, match=r"64 assignments, too many to list.*not compiled: it is too large.*; give"):
        make_cache(uncompiled(sp.Task(SPACE, total)), torch.Generator())
