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


@settings(max_examples=300, deadline=None)
@given(problems())
def test_the_pool_holds_the_most_probable_assignments_in_order(problem):
    task, log_p, _, pool, _ = problem
    rows = most_probable(log_p, task.space.sizes, pool)
    every = task.space.all()
    best = scores(log_p, every.expand(3, -1, -1)).sort(dim=1, descending=True).values[:, :pool]
    torch.testing.assert_close(scores(log_p, rows), best)
    assert all(len(example.unique(dim=0)) == len(example) for example in rows)


@settings(max_examples=300, deadline=None)
@given(problems())
def test_candidates_are_the_best_feasible_rows_of_the_pool(problem):
    task, log_p, labels, pool, kept = problem
    source = kbest.Source(task, Settings(kbest_pool=pool, working_set=kept), torch.Generator())
    query = Query(torch.arange(3), labels, log_p, 0, 1.0)
    found, info = source.candidates(State(), query, torch.Generator())
    every = task.space.all()
    for b in range(3):
        rows = found.rows[b][found.valid[b]]
        assert (task.rule(rows) == labels[b]).all()
        assert len(rows.unique(dim=0)) == len(rows)
        feasible = every[task.rule(every) == labels[b]]
        exact = scores(log_p[b : b + 1], feasible[None])[0].sort(descending=True).values[:kept]
        mine = scores(log_p[b : b + 1], rows[None])[0]
        # what survives is a prefix of the exact answer; all of it when the pool is the whole space
        torch.testing.assert_close(mine, exact[: len(mine)])
        if pool >= len(every):
            assert len(mine) == min(kept, len(feasible))
    assert info["found"] == pytest.approx(found.valid.any(1).double().mean().item())


def test_a_rare_label_beyond_the_pool_has_no_candidates_instead_of_wrong_ones():
    task = Task(ConceptSpace(slots=4, values=3), lambda c: (c == 2).all(-1).long())  # label 1 has one row of 81
    log_p = torch.tensor([5.0, 0.0, -5.0]).log_softmax(-1).expand(1, 4, 3)
    query = Query(torch.tensor([0]), torch.tensor([1]), log_p, 0, 1.0)
    few, info = kbest.Source(task, Settings(kbest_pool=10, working_set=5), torch.Generator()).candidates(
        State(), query, torch.Generator()
    )
    assert not few.valid.any() and info["found"] == 0
    every, _ = kbest.Source(task, Settings(kbest_pool=81, working_set=5), torch.Generator()).candidates(
        State(), query, torch.Generator()
    )
    assert every.rows[every.valid].tolist() == [[2, 2, 2, 2]]


def test_auto_does_not_warn_of_a_rare_label_that_has_a_complete_list(recwarn):
    task = load("visual_sudoku")
    labels, generator = torch.tensor([0, 1]), torch.Generator()
    sources.make(task, Settings(targets="auto"), generator).start(labels)
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"label 1 \(example ids 1\) was given by none of many random assignments"):
        sources.make(task, Settings(targets="kbest"), generator).start(labels)
