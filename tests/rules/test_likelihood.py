"""log P(y|x) against sums over every assignment, one at a time."""

import decimal
import itertools
import math

import pytest
import torch

from softpnet import ConceptSpace, Group, InputError, Rows, Task, TaskError, tasks
from softpnet.rules import likelihood
from softpnet.rules.likelihood import label_log_prob, log1mexp, log_complement
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
    found = label_log_prob(task, labels, generator)(log_p, labels)
    torch.testing.assert_close(found, plain(task, log_p, labels))


def test_the_labels_of_evenodd_are_summed_from_all_pairs_and_share_one(generator):
    task = tasks.load("mnist_evenodd", {"support": "train"})  # the cache's support does not change P(y|x)
    log_p = random_log_p(task.space, 1, generator).expand(19, -1, -1)
    found = label_log_prob(task, torch.arange(19), generator)(log_p, torch.arange(19))
    p = log_p[0].exp()
    expected = [sum(p[0, a] * p[1, s - a] for a in range(10) if 0 <= s - a < 10) for s in range(19)]
    torch.testing.assert_close(found.exp(), torch.stack(expected))


@pytest.fixture
def nothing_is_small(monkeypatch):
    monkeypatch.setattr(likelihood, "SUMMABLE", 0)


def listed(task, complete):
    """The task with the rows of these labels only, called complete."""
    rows = task.space.all()
    kept = rows[torch.isin(task.rule(rows), torch.tensor(complete))]
    return Task(task.space, task.rule, rows=lambda generator: Rows(kept, torch.tensor(complete)))


def test_the_label_without_rows_has_what_the_others_leave(nothing_is_small, generator):
    labels = torch.tensor([0, 1, 0, 1, 1])
    log_p = random_log_p(SQUARE.space, 5, generator)
    found = label_log_prob(listed(SQUARE, [1]), labels, generator)(log_p, labels)
    torch.testing.assert_close(found, plain(SQUARE, log_p, labels))


def test_every_label_complete_but_one_is_the_complement_of_all_others(nothing_is_small, generator):
    labels = torch.tensor([3, 2, 3, 6])
    log_p = random_log_p(SUM.space, 4, generator)
    found = label_log_prob(listed(SUM, [0, 1, 2, 4, 5, 6]), labels, generator)(log_p, labels)
    torch.testing.assert_close(found, plain(SUM, log_p, labels))


def test_gradients_of_sum_and_complement_are_those_of_the_definition(nothing_is_small, generator):
    log_prob = label_log_prob(listed(SQUARE, [1]), torch.tensor([0, 1]), generator)
    labels = torch.tensor([0, 1, 0])
    logits = torch.randn(3, 4, 2, generator=generator, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: log_prob(x.log_softmax(-1), labels), logits)


def test_sudoku_is_summed_over_its_288_boards(generator):
    task = tasks.load("visual_sudoku")
    log_p = random_log_p(task.space, 2, generator, scale=0.5).repeat(2, 1, 1)
    found = label_log_prob(task, torch.tensor([0, 1]), generator)(log_p, torch.tensor([1, 1, 0, 0])).exp()
    boards = visual_sudoku.boards()
    valid = log_p[:2].exp()[:, torch.arange(16), boards].prod(-1).sum(-1)  # [2, 288, 16] -> [2]
    torch.testing.assert_close(found, torch.cat([valid, 1 - valid]))


@pytest.mark.parametrize("margin", [5.0, 40.0, 300.0])
def test_a_certain_wrong_board_leaves_a_finite_loss_with_a_gradient_in_single_precision(margin, generator):
    """1 - P(valid) is far below what 1 can resolve: it is the sum of what each cell leaves."""
    task = tasks.load("visual_sudoku")
    board = visual_sudoku.boards()[:1]
    logits = (margin * torch.nn.functional.one_hot(board, 4)).float().requires_grad_()  # [1, 16, 4]
    found = label_log_prob(task, torch.tensor([0]), generator)(logits.log_softmax(-1), torch.tensor([0]))
    with decimal.localcontext() as context:
        context.prec = 200
        exact = 1 / (1 + 3 * (-decimal.Decimal(margin)).exp())  # p of a cell's own value
        left = 1 - exact**16  # the other boards differ in many cells: next to nothing
    assert found.item() == pytest.approx(float(left.ln()), rel=1e-3)
    found.sum().backward()
    assert torch.isfinite(logits.grad).all() and logits.grad.abs().sum() > 0.1


def test_concepts_of_one_value_leave_nothing_and_no_nan(generator):
    """Concept 0 has one value; the only row has value 1 of concept 1, which leaves value 0."""
    logits = torch.randn(1, 2, 2, generator=generator, requires_grad=True)
    log_p = logits.masked_fill(torch.tensor([[False, True], [False, False]]), -math.inf).log_softmax(-1)
    rows = torch.tensor([[0, 1]])
    scores = log_p[:, 0, 0] + log_p[:, 1, 1]
    left = log_complement(log_p, scores[None], rows)
    torch.testing.assert_close(left, log_p[:, 1, 0])
    left.sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_log1mexp_keeps_its_digits():
    points = [-1e-300, -1e-30, -1e-8, -0.1, -math.log(2), -1.0, -30.0, -700.0]
    with decimal.localcontext() as context:
        context.prec = 400
        exact = [float((1 - decimal.Decimal(x).exp()).ln()) for x in points]
    x = torch.tensor(points, dtype=torch.double, requires_grad=True)
    found = log1mexp(x)
    torch.testing.assert_close(found, torch.tensor(exact, dtype=torch.double), rtol=1e-14, atol=0)
    found.sum().backward()
    assert torch.isfinite(x.grad).all() and (x.grad < 0).all()
    assert log1mexp(torch.tensor(-math.inf)) == 0


# Kand-Logic brings its own


@pytest.mark.parametrize(("figures", "objects", "values"), [(2, 2, 2), (3, 2, 2), (2, 3, 2), (2, 2, 3)])
def test_kand_logic_s_tables_equal_the_enumeration_of_small_scenes(figures, objects, values, generator):
    space = ConceptSpace(slots=figures * objects, values=(values, values))
    scenes = space.all()
    valid = kand_logic.agreements(scenes, figures, objects).any(-1)
    log_p = random_log_p(space, 2, generator)
    p = log_p.exp()[:, torch.arange(space.k), scenes].prod(-1)  # [2, scenes]
    for label, chosen in ((1, valid), (0, ~valid)):
        found = kand_logic.label_log_prob(log_p, torch.tensor([label, label]), figures, objects)
        torch.testing.assert_close(found.exp(), p[:, chosen].sum(1))


def test_kand_logic_s_tables_equal_the_enumeration_of_one_whole_figure(generator):
    """Two figures are certain, the third takes its 729 states."""
    space = kand_logic.SPACE
    # shapes all equal, then two equal; colours all distinct in both: only colour can agree
    known = torch.tensor([0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 2, 2])
    log_p = random_log_p(space, 1, generator)
    log_p[:, 6:] = (60.0 * torch.nn.functional.one_hot(known, 3)).double().log_softmax(-1)
    figure = torch.cartesian_prod(*[torch.arange(3)] * 6)  # [729, 6]
    p = log_p[0].exp()[torch.arange(6), figure].prod(-1)  # [729]
    label = kand_logic.label(torch.cat([figure, known.expand(729, -1)], dim=1))
    found = kand_logic.label_log_prob(log_p.expand(2, -1, -1), torch.tensor([0, 1])).exp()
    assert 0.01 < found[1] < 0.99
    torch.testing.assert_close(found, torch.stack([p[label == 0].sum(), p[label == 1].sum()]))


def test_kand_logic_s_uniform_scenes_are_valid_as_often_as_counted():
    uniform = torch.full((2, 18, 3), 1 / 3, dtype=torch.double).log()
    found = kand_logic.label_log_prob(uniform, torch.tensor([1, 0])).exp()
    assert found[0].item() == pytest.approx(202_242_825 / 387_420_489, rel=1e-12)
    assert found.sum().item() == pytest.approx(1, rel=1e-12)


def test_gradients_of_kand_logic_s_tables_pass_gradcheck(generator):
    logits = torch.randn(1, 8, 2, generator=generator, dtype=torch.double, requires_grad=True)
    for label in (0, 1):
        y = torch.tensor([label])
        assert torch.autograd.gradcheck(lambda x: kand_logic.label_log_prob(x.log_softmax(-1), y, 2, 2), logits)  # noqa: B023


@pytest.mark.parametrize("name", tasks.names())
def test_every_task_s_labels_share_one_and_a_certain_reading_has_its_label(name, generator):
    task = tasks.load(name)
    rows = (torch.rand(5, task.space.k, generator=generator) * torch.tensor(task.space.sizes)).long()
    labels = task.rule(rows)
    log_prob = label_log_prob(task, labels, generator)
    certain = (50.0 * torch.nn.functional.one_hot(rows, task.space.h)).log_softmax(-1)
    torch.testing.assert_close(log_prob(certain, labels).exp(), torch.ones(5))
    if task.corrupt is not None:  # two labels
        log_p = random_log_p(task.space, 5, generator)
        both = sum(log_prob(log_p, torch.full((5,), y)).exp() for y in (0, 1))
        torch.testing.assert_close(both, torch.ones(5, dtype=torch.double))


# Errors


def test_a_large_space_without_rows_says_what_to_give(generator):
    task = Task(ConceptSpace(slots=9, values=9), lambda c: c.sum(-1), name="large")
    with pytest.raises(TaskError, match=r"label 4 cannot be summed.*'large' has 387,420,489.*label_log_prob=\.\.\."):
        label_log_prob(task, torch.tensor([5, 4]), generator)


def test_rows_that_are_complete_for_too_few_labels_are_refused(nothing_is_small, generator):
    with pytest.raises(TaskError, match="label 3 cannot be summed"):
        label_log_prob(listed(SUM, [0, 1]), torch.tensor([0, 3]), generator)
    label_log_prob(listed(SUM, [0, 1]), torch.tensor([0, 1]), generator)  # these two can


def test_the_complement_is_refused_where_the_rule_has_a_third_label(nothing_is_small, generator):
    """The training data show only two labels, but what one leaves of 1 belongs to several."""
    with pytest.raises(TaskError, match="label 6 cannot be summed"):
        label_log_prob(listed(SUM, [0]), torch.tensor([0, 6]), generator)


def test_an_infeasible_label_is_named(generator):
    with pytest.raises(InputError, match=r"label 9 \(example ids 1\) has an empty feasible set"):
        label_log_prob(SUM, torch.tensor([1, 9]), generator)
