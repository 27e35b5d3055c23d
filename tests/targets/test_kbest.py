"""k-best against brute force."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from softpnet import targets as sources
from softpnet.rules.scoring import scores
from softpnet.targets import kbest
from softpnet.targets.kbest import most_probable
from softpnet.targets.source import Query, State
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.rows import Rows
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.tasks import load


@st.composite
def problems(draw):
    """A small space with concepts of different sizes, a rule, and a batch of log p with ties."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    modulus = draw(st.integers(1, 7))
    seed = draw(st.integers(0, 2**31))
    levels = draw(st.sampled_from([1, 2, 3, 1000]))  # few levels: many ties
    space = ConceptSpace(*[Group((i,), h, name=str(i)) for i, h in enumerate(sizes)])
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(levels, (3, space.k, space.h), generator=generator).double()
    beyond = torch.arange(space.h) >= torch.tensor(sizes)[:, None]
    log_p = raw.masked_fill(beyond, -torch.inf).log_softmax(-1)
    weights = torch.randint(1, 8, (space.k,), generator=generator)
    task = Task(space, lambda c: (c * weights).sum(-1) % modulus)
    labels = torch.randint(modulus, (3,), generator=generator)
    return task, log_p, labels, draw(st.integers(1, 40)), draw(st.integers(1, 12))


@settings(max_examples=100, deadline=None)
@given(problems())
def test_the_pool_holds_the_most_probable_assignments_in_order(problem):
    task, log_p, _, pool, _ = problem
    rows = most_probable(log_p, task.space.sizes, pool)
    every = task.space.all()
    best = scores(log_p, every.expand(3, -1, -1)).sort(dim=1, descending=True).values[:, :pool]
    torch.testing.assert_close(scores(log_p, rows), best)
    assert all(len(example.unique(dim=0)) == len(example) for example in rows)


def query(labels, log_p):
    return Query(torch.arange(len(labels)), labels, log_p, 0, 1.0)


def assert_best(task, log_p, labels, found, kept):
    """Candidates are distinct, feasible, and as probable as the best ones of all; how many the examples have."""
    every = task.space.all()
    for b in range(len(labels)):
        rows = found.rows[b][found.valid[b]]
        assert (task.rule(rows) == labels[b]).all()
        assert len(rows.unique(dim=0)) == len(rows)
        feasible = every[task.rule(every) == labels[b]]
        exact = scores(log_p[b : b + 1], feasible[None])[0].sort(descending=True).values[:kept]
        mine = scores(log_p[b : b + 1], rows[None])[0]
        torch.testing.assert_close(mine, exact[: len(mine)])
        yield len(rows), len(exact)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_with_a_compiled_rule_candidates_are_the_best_of_all_however_small_the_pool(problem):
    task, log_p, labels, _, kept = problem
    source = kbest.Source(task, Settings(kbest_pool=1, working_set=kept), torch.Generator())
    found, info = source.candidates(State(), query(labels, log_p), torch.Generator())
    assert all(has == there for has, there in assert_best(task, log_p, labels, found, kept))
    assert info["found"] == pytest.approx(found.valid.any(1).double().mean().item())


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_without_one_they_are_the_best_feasible_rows_of_the_pool(problem, uncompiled):
    task, log_p, labels, pool, kept = problem
    source = kbest.Source(uncompiled(task), Settings(kbest_pool=pool, working_set=kept), torch.Generator())
    found, info = source.candidates(State(), query(labels, log_p), torch.Generator())
    for has, there in assert_best(task, log_p, labels, found, kept):
        # what survives is a prefix of the exact answer; all of it when the pool is the whole space
        assert has == there or pool < task.space.size
    assert info["found"] == pytest.approx(found.valid.any(1).double().mean().item())


def test_a_rare_label_beyond_the_pool_has_no_candidates_instead_of_wrong_ones(uncompiled):
    task = Task(ConceptSpace(slots=4, values=3), lambda c: (c == 2).all(-1).long())  # label 1 has one row of 81
    log_p = torch.tensor([5.0, 0.0, -5.0]).log_softmax(-1).expand(1, 4, 3)

    def found(given, pool):
        source = kbest.Source(given, Settings(kbest_pool=pool, working_set=5), torch.Generator())
        return source.candidates(State(), query(torch.tensor([1]), log_p), torch.Generator())

    few, info = found(uncompiled(task), 10)
    assert not few.valid.any() and info["found"] == 0
    for every, info in (found(uncompiled(task), 81), found(task, 10)):
        assert every.rows[every.valid].tolist() == [[2, 2, 2, 2]] and info["found"] == 1


def test_labels_that_rows_leave_open_come_from_the_pool_beside_those_of_the_compiled_rule(generator):
    """The rows are the rule, and complete for sum 3 only: of sums 0 and 6 the compiled rule knows nothing."""
    space = ConceptSpace(slots=3, values=3)
    rule = Rows(space.all(), complete=torch.tensor([3]), labels=space.all().sum(-1))
    task, labels = Task(space, rule), torch.tensor([3, 6, 3, 0])
    log_p = torch.randn(4, 3, 3, generator=generator).log_softmax(-1)
    source = kbest.Source(task, Settings(kbest_pool=27, working_set=9), generator)
    found, _ = source.candidates(State(), query(labels, log_p), generator)
    assert [has for has, _ in assert_best(task, log_p, labels, found, 9)] == [7, 1, 7, 1]
    narrow = kbest.Source(task, Settings(kbest_pool=1, working_set=9), generator)
    found, _ = narrow.candidates(State(), query(labels, log_p), generator)
    assert found.valid.sum(1)[[0, 2]].tolist() == [7, 7] and (found.valid.sum(1)[[1, 3]] <= 1).all()


@pytest.mark.parametrize("targets", ["kbest", "auto"])
def test_only_a_label_that_no_compiled_rule_knows_is_warned_of(targets, recwarn, uncompiled):
    task, labels = load("visual_sudoku"), torch.tensor([0, 1])
    sources.make(task, Settings(targets=targets), torch.Generator()).start(labels)
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"none of many random assignments of task .* gave: 1 \(example ids 1\)"):
        sources.make(uncompiled(task), Settings(targets=targets), torch.Generator()).start(labels)
