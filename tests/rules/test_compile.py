"""From a task to its compiled rule, whichever way it is written."""

import re

import pytest
import torch

import softpnet as sp
from softpnet.errors import InputError, TaskError
from softpnet.rules import compile, merge, probe
from softpnet.rules.compile import check_known, compilation
from softpnet.rules.function import check_rule
from softpnet.rules.labels import unique_labels
from softpnet.rules.sifting import sifted
from softpnet.rules.table import from_table
from softpnet.storage import to_safetensors
from softpnet.tasks import load, visual_sudoku

SPACE = sp.ConceptSpace(slots=4, values=3)
EVERY = SPACE.all()


def total(c):
    return c.sum(-1)


def pair(c):
    return torch.stack([c[..., 0] + c[..., 3], c[..., 1]], -1)


def test_a_small_rule_is_tabled_and_compiled_once():
    task = sp.Task(SPACE, total)
    found = compilation(task)
    assert compilation(task) is found and found.how == "exact"
    assert str(found).startswith("exact, from a table of all 81 assignments, 16 nodes, at most 7 in a layer, compiled")
    assert found.rule.same(from_table(SPACE, total, range(4)))


def test_an_order_that_is_given_is_respected():
    order = [3, 1, 0, 2]
    assert compilation(sp.Task(SPACE, pair, order=order)).rule.order == tuple(order)
    assert compilation(sp.Task(SPACE, pair)).rule.same(sifted(from_table(SPACE, pair, range(4))))
    with pytest.raises(TaskError, match=r"order of the concepts is \[0, 1\]"):
        compilation(sp.Task(SPACE, pair, order=[0, 1]))


@pytest.mark.parametrize("rule", [total, pair])
def test_rows_are_a_rule_and_give_the_same_diagram(rule, tmp_path):
    rows = EVERY[torch.randperm(81, generator=torch.Generator().manual_seed(0))]
    listed = sp.Rows(rows, labels=rule(rows))
    assert torch.equal(listed(EVERY.view(9, 9, 4)), rule(EVERY.view(9, 9, 4)))
    assert compilation(sp.Task(SPACE, listed)).rule.same(compilation(sp.Task(SPACE, rule)).rule)
    table = tmp_path / "rows.csv"
    labels = rule(rows).reshape(81, -1)
    head = [*"abcd", *(f"label {i}" for i in range(labels.shape[1]))]
    lines = [",".join(map(str, line)) for line in torch.cat([rows, labels], 1).tolist()]
    table.write_text("\n".join([",".join(head), *lines]) + "\n")
    assert compilation(sp.Task(SPACE, sp.read_rows(table))).rule.same(compilation(sp.Task(SPACE, rule)).rule)


def test_an_assignment_that_is_not_listed_has_the_other_label():
    rule = sp.Rows(torch.tensor([[0, 0, 0, 0], [2, 2, 2, 2]]), labels=torch.tensor([1, 1]), other=0)
    assert rule(EVERY).sum() == 2 and compilation(sp.Task(SPACE, rule)).rule.count(torch.tensor([0, 1])) == [79, 2]
    assert rule(torch.tensor([[5, 5, 5, 5]])).tolist() == [0]


def from_csv(listed, path):
    lines = torch.cat([listed.rows, listed.labels[:, None]], 1).tolist()
    path.write_text("\n".join(["a,b,c,d,label", *(",".join(map(str, line)) for line in lines)]))
    return sp.Task(SPACE, sp.read_rows(path, other=0))


def from_safetensors(listed, path):
    stored = {"rows": listed.rows, "labels": listed.labels, "complete": torch.arange(1, 4)}
    path.write_bytes(to_safetensors(stored, {}))
    return sp.Task(SPACE, sp.read_rows(path))


DOORS = {
    "rows": lambda listed, path: sp.Task(SPACE, listed),
    "a table": from_csv,
    "a cache file": from_safetensors,
    "complete rows beside a function": lambda listed, path: sp.Task(
        SPACE, lambda c: listed(c), rows=lambda generator: sp.Rows(listed.rows, torch.arange(1, 4))
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_rows_that_repeat_answer_as_brute_force_does(door, tmp_path, monkeypatch, generator):
    monkeypatch.setattr(compile, "TABLE", 0)  # or nobody would need the rows beside a function
    asked = torch.arange(1, 4) if door == "a cache file" else torch.arange(4)  # of which 0 is not known
    for _ in range(30):
        chosen = EVERY[torch.randperm(81, generator=generator)[:30]]
        labels = torch.randint(1, 4, (30,), generator=generator)
        twice = torch.cat([torch.arange(30), torch.randint(30, (25,), generator=generator)])
        listed = sp.Rows(chosen[twice], labels=labels[twice], other=0)
        truth = torch.zeros(81, dtype=torch.int64).scatter(0, SPACE.keys(chosen), labels)
        log_p = torch.randn(1, 4, 3, generator=generator, dtype=torch.float64).log_softmax(-1)
        log_p = log_p.expand(len(asked), -1, -1)
        p = log_p[0].gather(1, EVERY.T).sum(0).exp() * (truth == asked[:, None])  # [B, 81]
        values = torch.nn.functional.one_hot(EVERY, 3).double()  # [81, k, h]
        found = compilation(DOORS[door](listed, tmp_path / ("rows.csv" if door == "a table" else "rows")))
        torch.testing.assert_close(found.rule.log_prob(log_p, asked).exp(), p.sum(1))
        marginals = torch.einsum("bm,mkh->bkh", p / p.sum(1, keepdim=True), values)
        torch.testing.assert_close(found.rule.marginals(log_p, asked), marginals)
        assert found.how == ("listed" if door.startswith("complete") else "exact")


def test_a_row_with_two_labels_and_rows_without_labels_are_no_rule():
    rows = torch.zeros(3, 4, dtype=torch.int64).index_fill(0, torch.tensor(1), 2)
    twice = sp.Rows(rows, labels=torch.tensor([7, 5, 9]))
    said = r"^row \[0, 0, 0, 0\] is listed with two labels, 7 \(row number 0\) and 9 \(row number 2, counted from 0\); "
    for refused in (lambda: compilation(sp.Task(SPACE, twice)), lambda: check_rule(sp.Task(SPACE, twice))):
        with pytest.raises(TaskError, match=said):
            refused()
    with pytest.raises(TaskError, match=r"two labels, \[1, 2\] \(row number 0\) and \[1, 3\] \(row number 2"):
        sp.Rows(rows, labels=torch.tensor([[1, 2], [0, 0], [1, 3]]))(EVERY)
    with pytest.raises(TaskError, match=r"Rows that are a rule need labels"):
        compilation(sp.Task(SPACE, sp.Rows(EVERY)))


def test_a_csv_table_without_a_label_is_no_rule(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n0,1\n")
    with pytest.raises(InputError, match=r"has the columns \['a', 'b'\], expected one per concept"):
        sp.read_rows(tmp_path / "rows.csv")


def test_label_columns_may_come_in_any_order_but_none_may_be_missing(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("label 1,a,label 0\n5,0,3\n")
    assert sp.read_rows(table).labels.tolist() == [[3, 5]]
    for columns in (["label 0", "label 2"], ["label", "label 0"], ["label 3"], ["label 0", "label0"]):
        table.write_text(",".join(["a", *columns]) + "\n" + ",".join("1" * (1 + len(columns))) + "\n")
        with pytest.raises(InputError, match=rf"label columns {re.escape(str(columns))}, expected .* without a gap; "):
            sp.read_rows(table)


def test_rows_of_another_rule_are_refused():
    wrong = sp.Task(SPACE, total, rows=lambda generator: sp.Rows(EVERY, labels=total(EVERY) + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "TABLE", 0)
        with pytest.raises(TaskError, match=r"is stored with label 1, but the rule of task 'task' gives 0"):
            compilation(wrong)


def test_complete_rows_of_one_label_leave_the_rest_to_the_other():
    found = compilation(load("visual_sudoku"))
    assert found.how == "listed" and found.rule.nodes == 515
    assert found.rule.count(torch.tensor([1, 0])) == [288, 4**16 - 288]
    assert found.rule.contains(visual_sudoku.boards(), torch.ones(288, dtype=torch.int64)).all()


NINE = sp.ConceptSpace(slots=9, values=10)
ALIKE = torch.arange(10)[:, None].expand(10, 9)


def three_labels(c):
    """Ten assignments have label 1, nine have label 2: too few of 10^9 to be seen by chance."""
    nearly = (c[..., :8] == 0).all(-1) & (c[..., 8] > 0)
    return torch.where((c == c[..., :1]).all(-1), 1, torch.where(nearly, 2, 0))


def test_a_label_that_was_never_seen_is_not_called_impossible():
    task = sp.Task(NINE, three_labels, rows=lambda generator: sp.Rows(ALIKE, complete=torch.tensor([1])))
    assert compilation(task).how == "listed"
    with pytest.raises(
        InputError, match=r"the compiled rule .* does not know: 2 \(example ids 1\).*rare or impossible"
    ):
        check_known(task, torch.tensor([1, 2]))


def test_rows_that_are_not_complete_after_all_are_no_foundation():
    wrong = lambda generator: sp.Rows(ALIKE[:1], complete=torch.tensor([0]))  # noqa: E731
    found = compilation(sp.Task(NINE, lambda c: c.sum(-1) % 2, rows=wrong))
    assert found.how == "probed" and found.rule.count(torch.tensor([0, 1])) == [5 * 10**8] * 2


def test_an_order_beside_a_rule_that_has_its_own_is_refused():
    machine = sp.Machine(0, lambda states, concept, values: states + values, lambda states: states)
    with pytest.raises(TaskError, match="has an order, but its rule is a Machine; give the Machine that order"):
        compilation(sp.Task(SPACE, machine, order=[0, 1, 2, 3]))


@pytest.mark.parametrize("order", [3, [0, 1, 2], "abcd"])
def test_what_is_no_order_is_refused(order):
    with pytest.raises(TaskError, match="the order of the concepts is"):
        compilation(sp.Task(SPACE, total, order=order))


@pytest.mark.parametrize(
    "given, said",
    [
        (dict(rows=EVERY, labels=total(EVERY)[:3]), r"rows of shape \[81, 4\] and 3 labels"),
        (dict(rows=EVERY[:0], labels=total(EVERY)[:0]), r"rows of shape \[0, 4\] and 0 labels"),
        (dict(rows=EVERY, labels=total(EVERY), other=0.5), "the other label is 0.5, expected a whole number"),
    ],
)
def test_rows_that_are_no_rule_are_refused(given, said):
    with pytest.raises(TaskError, match=said):
        sp.Rows(**given)(EVERY)


def test_one_row_and_rows_of_a_small_type_are_a_rule():
    one = sp.Rows(torch.tensor([[0, 1, 2, 2]]), labels=torch.tensor([7]))
    assert compilation(sp.Task(SPACE, one)).rule.count(torch.tensor([7, -1])) == [1, 80]
    wide = sp.Rows(torch.tensor([[255, 0]], dtype=torch.uint8), labels=torch.tensor([1]))
    assert wide(torch.tensor([[255, 0], [0, 0]])).tolist() == [1, -1]


def test_many_label_vectors_are_numbered_as_few_are():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randint(-3, 4, (20_000, 3), generator=generator)
    distinct, ids = unique_labels(vectors)
    expected, places = vectors.unique(dim=0, return_inverse=True)
    assert torch.equal(distinct, expected) and torch.equal(ids, places)


def test_a_space_beyond_all_numbers_is_named_by_its_digits(monkeypatch):
    monkeypatch.setattr(probe, "CHECKS", 100)
    monkeypatch.setattr(probe, "SEEN", 1)
    found = compilation(sp.Task(sp.ConceptSpace(slots=400, values=2), lambda c: c[..., 0]))
    assert "of about 10^120 assignments" in str(found)


def test_a_rule_beyond_the_budget_is_not_compiled_and_says_why(monkeypatch):
    monkeypatch.setattr(merge, "BUDGET", 10)
    found = compilation(sp.Task(SPACE, total))
    assert found.rule is None and found.how == "not compiled"
    assert "more than 10 nodes (nodes per layer" in str(found) and "another order of the concepts" in str(found)


def test_a_label_that_no_assignment_has_is_named():
    with pytest.raises(InputError, match=r"values of the concepts give in task 'task': 9 \(example ids 1\)"):
        check_known(sp.Task(SPACE, total), torch.tensor([8, 9]))


def test_counts_of_the_built_in_tasks():
    assert sum(compilation(load("mnist_evenodd")).rule.count(torch.arange(19))) == 100
    assert compilation(load("kand_logic")).rule.count(torch.tensor([1])) == [202_242_825]
