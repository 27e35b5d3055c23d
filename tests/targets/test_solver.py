"""Targets by CP-SAT, against brute force on a small rule and on real 9x9 boards."""

import os
import signal

import cpmpy as cp
import pytest
import torch

from softpnet.errors import InputError, TaskError, TrainingError
from softpnet.rules.scoring import scores
from softpnet.rules.solvers.constraints import ConstraintModel
from softpnet.targets import solver
from softpnet.targets.solver import Source, costs
from softpnet.targets.source import Query
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.settings import Settings
from softpnet.task.task import Task

FOUR = ConceptSpace(slots=4, values=5)
BATCH = 12


def different(c):
    ordered = c.sort(-1).values
    return (ordered[..., 1:] != ordered[..., :-1]).all(-1).long()


def four(**options):
    x = cp.intvar(1, 5, shape=4)
    return Task(FOUR, ConstraintModel(x, constraints=[cp.AllDifferent(x)], offset=1, **options))


def made(task, **settings):
    return Source(task, Settings(**settings), torch.Generator())


def asked(source, log_p, labels, state=None):
    """Candidates, info and the state after one step about examples 0, 1, ..."""
    state = source.start(labels) if state is None else state
    query = Query(torch.arange(len(labels)), labels, log_p, 0, 1.0)
    return *source.candidates(state, query, torch.Generator()), state


@pytest.fixture
def log_p(generator):
    return torch.randn(BATCH, 4, 5, generator=generator, dtype=torch.float64).mul(3).log_softmax(-1)


@pytest.fixture
def far(monkeypatch):
    """Only the reading itself is tried before CP-SAT is asked."""
    monkeypatch.setattr(solver, "NEAR", 1)


@pytest.fixture
def calls(monkeypatch):
    """How many examples CP-SAT was asked about, per step."""
    found, counted = Source._asked, []
    monkeypatch.setattr(Source, "_asked", lambda self, each: (counted.append(len(each)), found(self, each))[1])
    return counted


def best(task, log_p, label, count):
    every = task.space.all()
    feasible = every[task.rule(every) == label]
    return feasible[scores(log_p[None], feasible[None])[0].argsort(descending=True)[:count]]


def test_a_check_starts_it_for_no_example():
    assert len(made(four()).start(torch.empty(0, dtype=torch.int64)).answered) == 0


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("near", [1, 16])
def test_the_best_rows_in_order_are_those_of_brute_force(log_p, label, near, monkeypatch):
    monkeypatch.setattr(solver, "NEAR", near)
    task = four(rule=different)
    (rows, valid), info, _ = asked(made(task, working_set=3), log_p, torch.full((BATCH,), label))
    reading = log_p.argmax(-1)
    fits = different(reading) == label
    assert fits.any() and not fits.all() and info["found"] == 1
    for b in range(BATCH):
        mine = rows[b][valid[b]]
        assert torch.equal(mine, best(task, log_p[b], label, 3)[: len(mine)])
    if near == 1:
        assert info["asked"] == pytest.approx((~fits).float().mean().item())
        assert (valid.sum(1) == torch.where(fits, 1, 3)).all()  # what fits by itself is not asked about


def test_a_label_that_many_assignments_have_keeps_as_many_as_are_wanted_without_a_search(log_p, calls):
    task = four(rule=different)
    (rows, valid), info, _ = asked(made(task, working_set=8), log_p, torch.zeros(BATCH, dtype=torch.int64))
    assert calls == [] and info["asked"] == 0
    assert valid.all() and rows.shape == (BATCH, 8, 4)
    for each, mine in zip(log_p, rows, strict=True):
        assert torch.equal(mine, best(task, each, 0, 8))


@pytest.mark.usefixtures("far")
def test_labels_that_are_expressions(log_p):
    """Sums, of concepts of different sizes, and of what breaks a constraint: the other label."""
    space = ConceptSpace(Group((0,), 2, name="a"), Group((1, 2), 5, name="b"))
    a, b = cp.boolvar(), cp.intvar(0, 4, shape=2)
    model = ConstraintModel([a, *b], label=[a + b[0], b[1]], constraints=[b[0] != b[1]], other=[7, 7])
    log_p = log_p[:3, :3].clone()
    log_p[:, 0, 2:] = -torch.inf
    every, labels = space.all(), torch.tensor([[1, 3], [7, 7], [5, 0]])
    (rows, valid), _, _ = asked(made(Task(space, model), working_set=4), log_p, labels)
    for example in range(3):
        feasible = every[(model(every) == labels[example]).all(1)]
        exact = feasible[scores(log_p[example : example + 1], feasible[None])[0].argsort(descending=True)]
        mine = rows[example][valid[example]]
        assert 0 < len(mine) and torch.equal(mine, exact[: len(mine)])


@pytest.mark.usefixtures("far")
def test_an_answer_is_remembered_until_the_reading_changes(log_p, calls):
    task, labels = four(rule=different), torch.ones(BATCH, dtype=torch.int64)
    source = made(task, working_set=2)
    first, info, state = asked(source, log_p, labels)
    broken = int((different(log_p.argmax(-1)) == 0).sum())
    assert calls == [broken]
    again, later, _ = asked(source, log_p, labels, state)
    assert calls == [broken] and later["asked"] == 0 and later["found"] == info["found"] == 1
    assert torch.equal(first.rows, again.rows) and torch.equal(first.valid, again.valid)
    # A checkpoint holds it all.
    resumed = made(task, working_set=2).start(labels)
    for name, place in resumed.tensors().items():
        place.copy_(state.tensors()[name])
    resumed.check()
    calls.clear()
    assert torch.equal(asked(source, log_p, labels, resumed)[0].rows, first.rows) and calls == []
    # One example reads something else that breaks the rule.
    changed = log_p.clone()
    changed[0] = torch.tensor([9.0, 1.0, 0.0, 2.0, 3.0]).log_softmax(-1)
    asked(source, changed, labels, state)
    assert calls == [1]


@pytest.mark.usefixtures("far")
def test_the_same_question_has_the_same_answer_in_any_process(log_p):
    task, labels = four(rule=different), torch.ones(BATCH, dtype=torch.int64)
    here = made(task)
    there = made(task)
    there.workers = 2
    one, two = asked(here, log_p, labels)[0], asked(there, log_p, labels)[0]
    assert torch.equal(one.rows, two.rows) and torch.equal(one.valid, two.valid)
    assert here._pool is None
    processes = list(there._pool._processes)
    assert processes
    there.close()
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.usefixtures("far")
def test_a_process_that_ends_is_said_and_leaves_nothing_behind(log_p):
    task, labels = four(rule=different), torch.ones(BATCH, dtype=torch.int64)
    source = made(task)
    source.workers = 2
    asked(source, log_p, labels)
    processes = list(source._pool._processes)
    os.kill(processes[0], signal.SIGKILL)
    with pytest.raises(TrainingError, match="a process of the solver has ended before it answered"):
        asked(source, log_p, labels)
    assert source._pool is None
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def nine(**options):
    x = cp.intvar(1, 9, shape=(9, 9))
    blocks = [x[r : r + 3, c : c + 3] for r in (0, 3, 6) for c in (0, 3, 6)]
    constraints = [cp.AllDifferent(unit) for unit in [*x, *x.T, *blocks]]
    return Task(
        ConceptSpace(slots=81, values=9), ConstraintModel(x, constraints=constraints, offset=1, rule=sudoku, **options)
    )


def sudoku(c):
    rows = c.unflatten(-1, (9, 9))
    blocks = c.unflatten(-1, (3, 3, 3, 3)).transpose(-3, -2).flatten(-4, -3).flatten(-2)  # [..., 9, 9]
    units = torch.cat([rows, rows.transpose(-1, -2), blocks], -2)  # [..., 27, 9]
    return (units.sort(-1).values == torch.arange(9)).all(-1).all(-1).long()


BOARD = torch.tensor([[(3 * (row % 3) + row // 3 + column) % 9 for column in range(9)] for row in range(9)]).flatten()


@pytest.fixture
def logits(generator):
    """Of the board, nearly one-hot."""
    return torch.randn(1, 81, 9, generator=generator).scatter_add(2, BOARD[None, :, None], torch.full((1, 81, 1), 12.0))


def test_a_board_with_two_misread_cells_is_restored(logits):
    for cell in (13, 57):
        logits[0, cell, (BOARD[cell] + 4) % 9] += 20
    assert sudoku(BOARD) == 1 and (logits.argmax(-1)[0] != BOARD).sum() == 2
    (rows, valid), info, _ = asked(made(nine()), logits.log_softmax(-1), torch.tensor([1]))
    assert info == {"asked": 1.0, "found": 1.0} and valid[0, 0]
    assert torch.equal(rows[0, 0], BOARD)


def test_a_valid_board_that_is_called_invalid_needs_no_solver(logits):
    assert torch.equal(logits.argmax(-1)[0], BOARD)
    (rows, _), info, _ = asked(made(nine()), logits.log_softmax(-1), torch.tensor([0]))
    assert info == {"asked": 0.0, "found": 1.0}
    assert (rows[0, 0] != BOARD).sum() == 1 and sudoku(rows[0, 0]) == 0


def test_what_is_not_found_in_time_is_no_candidate(generator, monkeypatch):
    source, label = made(nine()), torch.tensor([1])
    state = source.start(label)
    monkeypatch.setattr(solver, "EFFORT", 1e-9)
    (_, valid), info, _ = asked(source, torch.randn(1, 81, 9, generator=generator).log_softmax(-1), label, state)
    assert not valid.any() and info == {"asked": 1.0, "found": 0.0}
    assert state.answered.all() and state.count.tolist() == [0]
    assert "warmup_steps" in source.remedy()


def test_an_infeasible_label_is_named():
    x = cp.intvar(0, 4, shape=4)
    sums = Task(FOUR, ConstraintModel(x, label=cp.sum(x)))
    with pytest.raises(InputError, match=r"no (known )?values of the concepts give in task .*: 17 \(example ids 1\)"):
        made(sums).start(torch.tensor([3, 17]))
    with pytest.raises(InputError, match=r"no (known )?values of the concepts give in task .*: 2 \(example ids 0\)"):
        made(four(rule=different)).start(torch.tensor([2, 1]))


def test_rules_that_cp_sat_does_not_understand_are_refused():
    with pytest.raises(TaskError, match=r"targets='solver' needs a rule that CP-SAT understands, but .* is function"):
        made(Task(FOUR, different))
    x, free = cp.intvar(0, 4, shape=4), cp.intvar(0, 3, name="free")
    hidden = Task(FOUR, ConstraintModel(x, constraints=[x[0] + free == x[1]]))
    made(hidden).start(torch.tensor([1]))
    with pytest.raises(TaskError, match="has auxiliary variables, as free, so that CP-SAT cannot look for"):
        made(hidden).start(torch.tensor([0]))
    short = Task(ConceptSpace(slots=3, values=5), ConstraintModel(x, constraints=[x[0] < x[1]]))
    with pytest.raises(TaskError, match="has variables for 4 concepts, but the space has 3"):
        made(short).start(torch.tensor([1]))


@pytest.mark.usefixtures("far")
def test_rows_are_checked_by_the_rule(log_p):
    task = four(rule=lambda c: (c.sum(-1) < 0).long())
    with pytest.raises(
        TaskError, match=r"CP-SAT gives row \[.*\] for the label 1, but the rule of task 'task' gives it ano"
    ):
        asked(made(task), log_p, torch.ones(BATCH, dtype=torch.int64))


def test_a_forged_checkpoint_is_noticed(log_p):
    state = made(four(rule=different)).start(torch.tensor([1, 0]))
    state.check()
    state.reading[1, 2] = 5
    with pytest.raises(ValueError, match="its reading are outside what they can be"):
        state.check()


def test_costs_are_whole_numbers_of_the_right_order():
    log_p = torch.tensor([[[-1.0, 0.0, -torch.inf], [-10_000.0, -5_000.5, -0.5]]])
    assert costs(log_p, [2, 3]) == [[[100_005, 0, 0], [10**9, 500_025_001, 0]]]
    assert costs(torch.tensor([[[-0.5, -2.0]]]), [2]) == [[[0, 1_500_000]]]
    assert costs(torch.tensor([[[-0.5, -torch.inf]]]), [2]) == [[[0, 10**9]]]
