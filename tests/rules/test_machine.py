"""Rules that are machines: the same diagram as the table's, and labels too many to list."""

import pytest
import torch

import softpnet as sp
from softpnet.errors import InputError, TaskError
from softpnet.rules.compile import compilation
from softpnet.rules.table import from_table
from softpnet.tasks import kand_logic

FOUR = sp.ConceptSpace(slots=4, values=3)
ORDER = [2, 0, 3, 1]


def add(states, concept, values):
    return states + (concept + 1) * values


def weighted(c):
    return (c * torch.arange(1, 5)).sum(-1)


def identity(states):
    return states


@pytest.mark.parametrize("order", [range(4), ORDER])
def test_a_machine_gives_the_diagram_of_its_table_node_for_node(order):
    made = sp.Machine(0, add, identity, order=order).compiled(FOUR)
    assert from_table(FOUR, weighted, tuple(order)).same(made)


def test_states_may_be_vectors_and_labels_too():
    def step(states, concept, values):
        states[:, concept % 2] += values
        return states

    machine = sp.Machine((0, 0), step, identity, order=range(4))
    both = lambda c: torch.stack([c[..., 0] + c[..., 2], c[..., 1] + c[..., 3]], -1)  # noqa: E731
    assert from_table(FOUR, both, range(4)).same(machine.compiled(FOUR))
    rows = FOUR.all().view(9, 9, 4)
    assert torch.equal(machine(rows), both(rows))


def test_kand_logic_as_a_machine_counts_its_valid_scenes():
    found = compilation(sp.Task(kand_logic.SPACE, kand_logic.RULE))
    assert found.how == "exact" and found.rule.nodes <= 715
    assert found.rule.count(torch.tensor([0, 1])) == [387_420_489 - 202_242_825, 202_242_825]


# Labels that the machine sees: sums of numbers with two digits, [tens, ones] each


def carry(states, concept, values, labels):
    if concept < 2:
        return states + values
    sums = states + values
    return torch.where(sums % 10 == labels[:, concept - 1], sums // 10, -1)


def digits_of_sum(c):
    number = 10 * (c[..., 0] + c[..., 2]) + c[..., 1] + c[..., 3]
    return torch.stack([number // 100, number // 10 % 10, number % 10], -1)


SPACE = sp.ConceptSpace(slots=4, values=10)
ADDITION = sp.Machine(
    0, carry, accept=lambda states, labels: states == labels[:, 0], rule=digits_of_sum, order=[1, 3, 0, 2]
)


@pytest.fixture(scope="module")
def addition():
    return ADDITION.compiled(SPACE)


def test_a_machine_that_sees_labels_answers_as_the_table_does(addition):
    generator = torch.Generator().manual_seed(0)
    table = from_table(SPACE, digits_of_sum, range(4))
    rows = (torch.rand(16, 4, generator=generator) * 10).long()
    labels = digits_of_sum(rows)
    labels[-1] = torch.tensor([1, 9, 9])  # 199 has no pair
    log_p = torch.randn(16, 4, 10, generator=generator).log_softmax(-1)
    assert addition.count(labels) == table.count(labels)
    assert addition.knows(labels).tolist() == [True] * 15 + [False]
    torch.testing.assert_close(addition.log_prob(log_p, labels), table.log_prob(log_p, labels))
    for gamma in (1.0, 0.1, 0.0):
        torch.testing.assert_close(addition.marginals(log_p, labels, gamma), table.marginals(log_p, labels, gamma))
    (rows, exists), (expected, _) = addition.best(log_p, labels, 7), table.best(log_p, labels, 7)
    assert torch.equal(rows[:-1], expected[:-1]) and exists[:-1].all() and not exists[-1].any()
    drawn = addition.sample(labels[:-1], generator)
    assert torch.equal(digits_of_sum(drawn), labels[:-1])


def test_a_hundred_digits_are_counted_and_taught_exactly():
    k = 200
    space = sp.ConceptSpace(slots=k, values=10)

    def step(states, concept, values, labels):  # a digit of the first number, then one of the second, from the last on
        if concept % 2 == 0:
            return states + values
        return torch.where((states + values) % 10 == labels[:, concept // 2], (states + values) // 10, -1)

    def rule(c):
        left, right = c[..., 0::2], c[..., 1::2]
        carried, digits = torch.zeros_like(left[..., 0]), []
        for at in range(k // 2):
            total = left[..., at] + right[..., at] + carried
            digits.append(total % 10)
            carried = total // 10
        return torch.stack([*digits, carried], -1)

    machine = sp.Machine(0, step, accept=lambda states, labels: states == labels[:, -1], rule=rule, order=range(k))
    rule_ = machine.compiled(space)
    nines = torch.full((1, 101), 9)
    nines[0, -1] = 0  # 999...9: in every place ten pairs add up to nine
    assert rule_.count(nines) == [10**100]
    target = rule_.marginals(torch.zeros(1, k, 10), nines)
    torch.testing.assert_close(target, torch.full_like(target, 0.1))


def test_states_that_only_one_label_has_are_no_nodes_of_the_others():
    """Or the edges of a batch would grow with the square of its size."""
    space = sp.ConceptSpace(slots=4, values=3)
    machine = sp.Machine(
        0,
        lambda states, concept, values, labels: 1000 * labels + states % 1000 + values,
        accept=lambda states, labels: states % 1000 == labels,
        rule=lambda c: c.sum(-1),
    )
    rule, labels = machine.compiled(space), torch.arange(9)
    one, many = rule.layers(labels[:1]), rule.layers(labels)
    assert [len(edges) for edges in many.edges] == [len(edges) for edges in one.edges]
    assert rule.count(labels) == from_table(space, machine.rule, range(4)).count(labels)


# Bad input


def test_a_step_that_leaves_its_states_is_named():
    with pytest.raises(TaskError, match=r"leaves its states: it goes to -1 at concept 0, expected 0 or more"):
        sp.Machine(0, lambda states, concept, values: states - values + 1, identity).compiled(FOUR)


def test_a_step_that_is_not_vectorised_is_named():
    with pytest.raises(TaskError, match=r"failed at concept 0 on 3 states at once.*all of them together"):
        sp.Machine(0, lambda states, concept, values: states if values > 0 else states + 1, identity).compiled(FOUR)
    with pytest.raises(TaskError, match=r"gives torch.int64 \[\] for 3 states, expected integers of shape \[3\]"):
        sp.Machine(0, lambda states, concept, values: (states + values).sum(), identity).compiled(FOUR)
    with pytest.raises(TaskError, match=r"gives torch.float32"):
        sp.Machine(0, lambda states, concept, values: states / 2, identity).compiled(FOUR)


def test_a_rule_that_the_machine_disagrees_with_is_named():
    with pytest.raises(TaskError, match=r"the Machine and its rule disagree on row \["):
        sp.Machine(0, add, identity, rule=lambda c: c.sum(-1)).compiled(FOUR)
    wrong = sp.Machine(0, carry, accept=lambda states, labels: states == labels[:, 0], rule=lambda c: c[..., :3])
    with pytest.raises(TaskError, match="does not accept the label that its rule gives to a row"):
        wrong.compiled(SPACE)


@pytest.mark.parametrize(
    "given, said",
    [
        (dict(start=0, step=add), "either label=..., or accept=... and rule=..."),
        (dict(start=0, step=add, accept=identity), "give it rule=... too"),
        (dict(start=-1, step=add, label=identity), "the start of a Machine is -1"),
        (dict(start=0.5, step=add, label=identity), "the start of a Machine is 0.5"),
    ],
)
def test_a_machine_that_lacks_a_part_is_refused(given, said):
    with pytest.raises(TaskError, match=said):
        sp.Machine(**given)


def test_an_order_that_misses_a_concept_or_reads_one_twice_is_refused():
    with pytest.raises(TaskError, match=r"order of the concepts is \[0, 0, 1, 2\], expected each of 0 to 3"):
        sp.Machine(0, add, identity, order=[0, 0, 1, 2]).compiled(FOUR)


def test_labels_of_another_shape_are_refused(addition):
    with pytest.raises(InputError, match=r"labels have shape \[2\]"):
        addition.count(torch.tensor([1, 2]))


def test_a_machine_that_accepts_too_much_is_named():
    loose = sp.Machine(
        0,
        lambda states, concept, values, labels: states + values,
        accept=lambda states, labels: states >= labels,
        rule=lambda c: c.sum(-1),
    )
    with pytest.raises(TaskError, match="accepts another label than the label that its rule gives to a row"):
        loose.compiled(FOUR)


@pytest.mark.parametrize(
    "label, said",
    [
        (lambda states: states.sum(), r"gives torch.int64 \[\] for \d+ states, expected integers"),
        (lambda states: states.float(), r"gives torch.float32"),
        (lambda states: states[99], r"the label of the Machine cannot be found: .*IndexError"),
    ],
)
def test_a_label_of_another_kind_is_named(label, said):
    with pytest.raises(TaskError, match=said):
        sp.Machine(0, add, label).compiled(FOUR)


@pytest.mark.parametrize(
    "accept", [lambda states, labels: True, lambda states, labels: (states == labels[:, 0]).long()]
)
def test_what_is_accepted_must_be_true_or_false_for_each_state(accept):
    with pytest.raises(TaskError, match=r"accept of the Machine gives .*, expected bool \[256\]"):
        sp.Machine(0, carry, accept=accept, rule=digits_of_sum, order=[1, 3, 0, 2]).compiled(SPACE)


def test_states_that_cannot_be_unrolled_are_counted(addition, monkeypatch):
    monkeypatch.setattr("softpnet.rules.machine.LARGEST", 100)
    with pytest.raises(TaskError, match=r"reaches 10 states before concept 3 for 2 labels, more than can be unrolled"):
        addition.count(torch.tensor([[0, 0, 3], [1, 0, 3]]))


def test_no_examples_at_all_are_an_empty_answer(addition):
    labels, log_p = torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 4, 10)
    for rule in (addition, from_table(SPACE, digits_of_sum, range(4))):
        assert rule.count(labels) == [] and len(rule.knows(labels)) == 0 and len(rule.log_prob(log_p, labels)) == 0
        assert rule.marginals(log_p, labels).shape == (0, 4, 10) and len(rule.best(log_p, labels, 3)[0]) == 0
        assert rule.sample(labels, torch.Generator()).shape == (0, 4)


def test_a_label_without_an_assignment_cannot_be_drawn(addition):
    for rule in (addition, from_table(SPACE, digits_of_sum, range(4))):
        with pytest.raises(InputError, match=r"no assignment has label \[1, 9, 9\], so none can be drawn"):
            rule.sample(torch.tensor([[1, 9, 9]]), torch.Generator())


def test_check_takes_a_machine_that_sees_labels():
    report = sp.check_task(sp.Task(SPACE, ADDITION))
    assert report.ok, report
