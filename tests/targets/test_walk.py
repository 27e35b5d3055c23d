"""Working sets: who walks, when, and what counts."""

import pytest
import torch

from softpnet.targets import cache
from softpnet.targets.source import Query
from softpnet.targets.walk import repeated
from softpnet.task.concepts import ConceptSpace
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.tasks import load, visual_sudoku

SUMS = Task(ConceptSpace(slots=3, values=4), lambda c: c.sum(-1))


def flat(batch, k=3, h=4):
    return torch.zeros(batch, k, h).log_softmax(-1)


def test_repeated_rows_count_once():
    keys = torch.tensor([[5, 3, 5, 3, 7], [1, 1, 1, 1, 1]])
    assert repeated(keys).tolist() == [[False, False, True, True, False], [False, True, True, True, True]]


def test_first_encounter_draws_later_ones_walk(generator):
    source = cache.Source(SUMS, Settings(working_set=4, draw_factor=1), generator)
    labels = torch.full((6,), 4)  # 12 rows, so sets of four can move
    state = source.start(labels)
    ids = torch.tensor([1, 4])
    _, info = source.candidates(state, Query(ids, labels[ids], flat(2), 0, 1.0), generator)
    assert "acceptance" not in info and state.started.tolist() == [False, True, False, False, True, False]
    before = state.rows.clone()
    later, info = source.candidates(state, Query(ids, labels[ids], flat(2), 1, 1.0), generator)
    assert info["acceptance"] == 1.0  # a flat p accepts every proposal
    assert info["distinct"] == later.valid.sum(1).float().mean()
    assert (state.rows[ids] != before[ids]).any(-1).all()
    assert torch.equal(state.rows[[0, 2, 3, 5]], before[[0, 2, 3, 5]])  # other ids' sets are untouched
    assert (later.rows.sum(-1) == 4).all()


def test_the_refresh_period_says_in_which_epochs_sets_walk(generator):
    source = cache.Source(SUMS, Settings(working_set=4, draw_factor=1, walk_every=2), generator)
    labels = torch.full((2,), 4)
    state = source.start(labels)
    walked = []
    for epoch in range(5):
        _, info = source.candidates(state, Query(torch.arange(2), labels, flat(2), epoch, 1.0), generator)
        walked.append("acceptance" in info)
    assert walked == [False, False, True, False, True]


def test_several_steps_at_one_encounter_are_the_steps_of_several_encounters():
    walked, log_p = [], torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(7)).log_softmax(-1)
    for encounters, steps in ((6, 1), (2, 3), (1, 6), (1, 1)):
        generator = torch.Generator().manual_seed(3)
        source = cache.Source(SUMS, Settings(working_set=4, draw_factor=1, walk_steps=steps), generator)
        labels = torch.full((2,), 4)
        state = source.start(labels)
        for epoch in range(1 + encounters):
            source.candidates(state, Query(torch.arange(2), labels, log_p, epoch, 0.5), generator)
        walked.append(state.rows)
    assert torch.equal(walked[0], walked[1]) and torch.equal(walked[0], walked[2])
    assert not torch.equal(walked[0], walked[3])


def test_a_set_that_holds_the_whole_label_keeps_it(generator):
    source = cache.Source(SUMS, Settings(working_set=12), generator)
    labels = torch.tensor([4, 1])
    state = source.start(labels)
    for epoch in range(4):
        found, _ = source.candidates(state, Query(torch.arange(2), labels, flat(2), epoch, 1.0), generator)
        assert found.valid.sum(1).tolist() == [12, 3]
        assert len(found.rows[0].unique(dim=0)) == 12


def test_invalid_examples_get_corrupted_candidates_while_their_walk_stays_valid(generator):
    task = load("visual_sudoku")
    source = cache.Source(task, Settings(working_set=20), generator)
    labels = torch.tensor([0, 1, 0, 1])
    state = source.start(labels)
    for epoch in range(3):
        query = Query(torch.arange(4), labels, flat(4, 16, 4), epoch, 1.0)
        found, _ = source.candidates(state, query, generator)
        assert torch.equal(visual_sudoku.label(found.rows), labels[:, None].expand(4, 20))
        assert (visual_sudoku.label(state.rows) == 1).all()


def test_a_million_examples_are_remembered_in_45_megabytes():
    task = Task(ConceptSpace(slots=2, values=10), lambda c: c.sum(-1))
    source = cache.Source(task, Settings(working_set=20), torch.Generator().manual_seed(0))
    state = source.start(torch.arange(1_000_000) % 19)
    remembered = [value for value in vars(state).values() if isinstance(value, torch.Tensor)]
    assert sum(tensor.numel() * tensor.element_size() for tensor in remembered) <= 45_000_000


def test_a_state_that_no_step_can_leave_is_noticed(generator):
    source = cache.Source(SUMS, Settings(working_set=4), generator)
    for name, value in {"count": 5, "rows": 4}.items():
        state = source.start(torch.full((6,), 4))
        state.check()
        state.tensors()[name].view(-1)[0] = value
        with pytest.raises(ValueError, match=name):
            state.check()
