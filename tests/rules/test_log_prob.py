"""log P(y|x) of compiled rules against sums over every assignment, one at a time."""

import decimal
import itertools
import math

import pytest
import torch

from softpnet import ConceptSpace, Group, InputError, Rows, Task, tasks
from softpnet.rules import compile as compiling
from softpnet.rules.compile import check_known, compilation
from softpnet.tasks import kand_logic, visual_sudoku

SUM = Task(ConceptSpace(slots=3, values=3), lambda c: c.sum(-1))
UNEVEN = Task(
    ConceptSpace(Group([0], 2, name="few"), Group([0, 1], 4, name="many")),
    lambda c: torch.stack([c.sum(-1) % 3, (c[..., 0] == c[..., 1]).long()], dim=-1),
)


def square(c):
    """1 where the 2x2 board is a Latin square: 2 boards of 16."""
    a, b, d, e = c.unbind(-1)
    return ((a != b) & (d != e) & (a != d) & (b != e)).long()


SQUARE = Task(ConceptSpace(slots=4, values=2), square)


def log_prob(task, log_p, labels):
    return compilation(task).rule.log_prob(log_p, labels)


def random_log_p(space, batch, generator, scale=2.0):
    """Normalised over each concept's own values, -inf beyond them; double precision."""
    logits = scale * torch.randn(batch, space.k, space.h, generator=generator, dtype=torch.double)
    beyond = torch.arange(space.h) >= torch.tensor(space.sizes)[:, None]
    return logits.masked_fill(beyond, -math.inf).log_softmax(-1)


def plain(task, log_p, labels):
    """Every assignment by itself, as the definition says it."""
    result = []
    for row, label in zip(log_p.exp().tolist(), labels.tolist(), strict=True):
        total = 0.0
        for c in itertools.product(*map(range, task.space.sizes)):
            if task.rule(torch.tensor(c)).tolist() == label:
                total += math.prod(row[i][v] for i, v in enumerate(c))
        result.append(math.log(total))
    return torch.tensor(result, dtype=torch.double)


@pytest.mark.parametrize("task", [SUM, UNEVEN], ids=["sum", "label vectors, uneven groups"])
def test_a_small_space_is_summed(task, generator):
    labels = task.rule(torch.stack([torch.zeros(task.space.k).long(), torch.ones(task.space.k).long()] * 3))
    log_p = random_log_p(task.space, 6, generator)
    torch.testing.assert_close(log_prob(task, log_p, labels), plain(task, log_p, labels))


def test_the_labels_of_evenodd_are_summed_from_all_pairs_and_share_one(generator):
    task = tasks.load("mnist_evenodd", {"support": "train"})  # the cache's support does not change P(y|x)
    log_p = random_log_p(task.space, 1, generator).expand(19, -1, -1)
    found = log_prob(task, log_p, torch.arange(19))
    p = log_p[0].exp()
    expected = [sum(p[0, a] * p[1, s - a] for a in range(10) if 0 <= s - a < 10) for s in range(19)]
    torch.testing.assert_close(found.exp(), torch.stack(expected))


# Rules that are known by their rows


@pytest.fixture
def no_table(monkeypatch):
    """No space is small enough to ask about each assignment."""
    monkeypatch.setattr(compiling, "TABLE", 0)


def listed(task, complete):
    """The task with the rows of these labels only, called complete."""
    rows = task.space.all()
    kept = rows[torch.isin(task.rule(rows), torch.tensor(complete))]
    return Task(task.space, task.rule, rows=lambda generator: Rows(kept, torch.tensor(complete)))


@pytest.mark.usefixtures("no_table")
@pytest.mark.parametrize(
    "task, complete, labels",
    [(SQUARE, [1], [0, 1, 0, 1, 1]), (SUM, [0, 1, 2, 4, 5, 6], [3, 2, 3, 6]), (SUM, [*range(7)], [*range(7)])],
    ids=["one label of two", "all but one", "all"],
)
def test_the_label_without_rows_has_what_the_others_leave(task, complete, labels, generator):
    given, labels = listed(task, complete), torch.tensor(labels)
    log_p = random_log_p(task.space, len(labels), generator)
    torch.testing.assert_close(log_prob(given, log_p, labels), plain(task, log_p, labels))
    assert "rows that are called complete" in compilation(given).said


@pytest.mark.usefixtures("no_table")
def test_what_complete_rows_leave_is_no_label_s_where_the_rule_has_several_more(generator):
    """It is found by asking the rule then, and not called exact."""
    given, labels = listed(SUM, [0, 1]), torch.arange(7)
    log_p = random_log_p(SUM.space, 7, generator)
    torch.testing.assert_close(log_prob(given, log_p, labels), plain(SUM, log_p, labels))
    assert compilation(given).how == "probed"


def test_rows_that_are_the_rule_leave_the_rest_to_the_other_label(generator):
    rows = SQUARE.space.all()[SQUARE.rule(SQUARE.space.all()) == 1]
    task = Task(SQUARE.space, Rows(rows, labels=torch.ones(len(rows), dtype=torch.int64), other=0))
    labels, log_p = torch.tensor([0, 1, 0]), random_log_p(SQUARE.space, 3, generator)
    torch.testing.assert_close(log_prob(task, log_p, labels), plain(SQUARE, log_p, labels))


@pytest.mark.usefixtures("no_table")
def test_gradients_of_a_label_with_rows_and_of_the_one_without_are_those_of_the_definition(generator):
    task, labels = listed(SQUARE, [1]), torch.tensor([0, 1, 0])
    logits = torch.randn(3, 4, 2, generator=generator, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: log_prob(task, x.log_softmax(-1), labels), logits)


def test_sudoku_is_summed_over_its_288_boards(generator):
    task = tasks.load("visual_sudoku")
    log_p = random_log_p(task.space, 2, generator, scale=0.5).repeat(2, 1, 1)
    found = log_prob(task, log_p, torch.tensor([1, 1, 0, 0])).exp()
    boards = visual_sudoku.boards()
    valid = log_p[:2].exp()[:, torch.arange(16), boards].prod(-1).sum(-1)  # [2, 288, 16] -> [2]
    torch.testing.assert_close(found, torch.cat([valid, 1 - valid]))


@pytest.mark.parametrize("margin", [5.0, 40.0, 300.0])
def test_a_certain_wrong_board_leaves_a_finite_loss_with_a_gradient_in_single_precision(margin):
    """1 - P(valid) is far below what 1 can resolve: it is the sum of what each cell leaves."""
    task = tasks.load("visual_sudoku")
    board = visual_sudoku.boards()[:1]
    logits = (margin * torch.nn.functional.one_hot(board, 4)).float().requires_grad_()  # [1, 16, 4]
    found = log_prob(task, logits.log_softmax(-1), torch.tensor([0]))
    with decimal.localcontext() as context:
        context.prec = 200
        exact = 1 / (1 + 3 * (-decimal.Decimal(margin)).exp())  # p of a cell's own value
        left = 1 - exact**16  # the other boards differ in many cells: next to nothing
    assert found.item() == pytest.approx(float(left.ln()), rel=1e-3)
    found.sum().backward()
    assert torch.isfinite(logits.grad).all() and logits.grad.abs().sum() > 0.1


def test_a_concept_of_one_value_leaves_nothing_and_no_nan(generator):
    """Concept 0 has one value; label 1 is value 1 of concept 1, which leaves value 0."""
    space = ConceptSpace(Group([0], 1, name="one"), Group([0], 2, name="two"))
    logits = torch.randn(1, 2, 2, generator=generator, requires_grad=True)
    log_p = logits.masked_fill(torch.tensor([[False, True], [False, False]]), -math.inf).log_softmax(-1)
    left = log_prob(Task(space, lambda c: c[..., 1]), log_p, torch.tensor([0]))
    torch.testing.assert_close(left, log_p[:, 1, 0])
    left.sum().backward()
    assert torch.isfinite(logits.grad).all()


# Kand-Logic: a machine


def test_kand_logic_s_machine_equals_the_enumeration_of_one_whole_figure(generator):
    """Two figures are certain, the third takes its 729 states."""
    space = kand_logic.SPACE
    # shapes all equal, then two equal; colours all distinct in both: only colour can agree
    known = torch.tensor([0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 2, 2])
    log_p = random_log_p(space, 1, generator)
    log_p[:, 6:] = (60.0 * torch.nn.functional.one_hot(known, 3)).double().log_softmax(-1)
    figure = torch.cartesian_prod(*[torch.arange(3)] * 6)  # [729, 6]
    p = log_p[0].exp()[torch.arange(6), figure].prod(-1)  # [729]
    label = kand_logic.label(torch.cat([figure, known.expand(729, -1)], dim=1))
    task = Task(space, kand_logic.RULE)
    found = log_prob(task, log_p.expand(2, -1, -1), torch.tensor([0, 1])).exp()
    assert 0.01 < found[1] < 0.99
    torch.testing.assert_close(found, torch.stack([p[label == 0].sum(), p[label == 1].sum()]))


def test_kand_logic_s_valid_scenes_have_the_share_that_figures_of_every_kind_give(generator):
    """P(valid) of figures that differ, by the nine pairs of repetition types that each can have."""
    log_p = random_log_p(kand_logic.SPACE, 1, generator)
    states = torch.cartesian_prod(*[torch.arange(3)] * 6)  # [729, 6] of one figure
    types = kand_logic.repetition_types(states.unflatten(1, (3, 2))).clamp_max(2)  # [729, 2], each 0, 1 or 2
    p = log_p[0].exp().unflatten(0, (3, 6))[:, torch.arange(6), states].prod(-1)  # [3, 729]
    pair = torch.zeros(3, 9, dtype=torch.double).index_add_(1, types[:, 0] * 3 + types[:, 1], p).tolist()
    valid = 0.0
    for a, b, c in itertools.product(range(9), repeat=3):
        if a // 3 == b // 3 == c // 3 or a % 3 == b % 3 == c % 3:
            valid += pair[0][a] * pair[1][b] * pair[2][c]
    found = log_prob(Task(kand_logic.SPACE, kand_logic.RULE), log_p.expand(2, -1, -1), torch.tensor([1, 0])).exp()
    torch.testing.assert_close(found, torch.tensor([valid, 1 - valid], dtype=torch.double))


def test_kand_logic_s_uniform_scenes_are_valid_as_often_as_counted():
    uniform = torch.full((2, 18, 3), 1 / 3, dtype=torch.double).log()
    found = log_prob(Task(kand_logic.SPACE, kand_logic.RULE), uniform, torch.tensor([1, 0])).exp()
    assert found[0].item() == pytest.approx(202_242_825 / 387_420_489, rel=1e-12)
    assert found.sum().item() == pytest.approx(1, rel=1e-12)


def test_the_gradient_of_kand_logic_s_machine_passes_gradcheck(generator):
    task = Task(kand_logic.SPACE, kand_logic.RULE)
    logits = torch.randn(2, 18, 3, generator=generator, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: log_prob(task, x.log_softmax(-1), torch.tensor([0, 1])), logits)


@pytest.mark.parametrize("name", tasks.names())
def test_every_task_s_labels_share_one_and_a_certain_reading_has_its_label(name, generator):
    task = tasks.load(name)
    rows = (torch.rand(5, task.space.k, generator=generator) * torch.tensor(task.space.sizes)).long()
    labels = task.rule(rows)
    certain = (50.0 * torch.nn.functional.one_hot(rows, task.space.h)).log_softmax(-1)
    torch.testing.assert_close(log_prob(task, certain, labels).exp(), torch.ones(5))
    every = compilation(task).rule.labels
    log_p = random_log_p(task.space, 1, generator).expand(len(every), -1, -1)
    torch.testing.assert_close(log_prob(task, log_p, every).exp().sum(), torch.ones((), dtype=torch.double))


# Labels that cannot be asked about


def test_a_label_that_no_assignment_has_has_no_probability_and_is_named(generator):
    labels, log_p = torch.tensor([1, 9]), random_log_p(SUM.space, 2, generator)
    assert log_prob(SUM, log_p, labels).isneginf().tolist() == [False, True]
    with pytest.raises(InputError, match=r"values of the concepts give in task 'task': 9 \(example ids 1\)"):
        check_known(SUM, labels)


def test_a_label_that_incomplete_rows_do_not_settle_is_named():
    """Rows that are the rule, and complete for label 0 alone: what they leave may belong to several labels."""
    rows = SUM.space.all()
    task = Task(SUM.space, Rows(rows, complete=torch.tensor([0]), labels=SUM.rule(rows)), name="sums")
    with pytest.raises(InputError, match=r"the compiled rule of task 'sums' does not know: 6 \(example ids 1\)"):
        check_known(task, torch.tensor([0, 6]))
    check_known(task, torch.tensor([0]))
