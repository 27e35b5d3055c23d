"""Label vectors with unknown entries: S(y) is the union over what they may be, against every assignment."""

import pytest
import torch

import softpnet as sp
from softpnet import targets
from softpnet.metrics import all_metrics, label_metrics
from softpnet.rules.compile import compilation
from softpnet.rules.labels import satisfied, unknown_in
from softpnet.rules.scoring import scores
from softpnet.rules.trie import from_rows
from softpnet.targets.source import Query
from softpnet.targets.weights import soft_target, weights
from softpnet.task.settings import Settings

SPACE = sp.ConceptSpace(slots=3, values=3)
EVERY = SPACE.all()


def rule(c):
    return torch.stack([c[..., 0] + c[..., 1], c[..., 2] % 2, (c[..., 0] == c[..., 2]).long()], -1)


TASK = sp.Task(SPACE, rule)
LABELS = torch.tensor(
    [[2, 1, 0], [2, -1, 0], [-1, -1, 1], [-1, -1, -1], [4, 1, -1], [4, 1, 1], [7, -1, 0], [-1, 2, -1]]
)
FITS = ((rule(EVERY) == LABELS[:, None]) | (LABELS[:, None] == -1)).all(-1)  # [B, M]
FEASIBLE = FITS.any(1)
LOG_P = torch.randn(len(LABELS), 3, 3, generator=torch.Generator().manual_seed(0)).log_softmax(-1)


def test_the_examples_are_feasible_and_not():
    assert FEASIBLE.tolist() == [True, True, True, True, True, False, False, False]


def test_every_question_to_the_compiled_rule_is_about_the_union():
    compiled = compilation(TASK).rule
    assert torch.equal(compiled.knows(LABELS), FEASIBLE)
    assert compiled.count(LABELS) == FITS.sum(1).tolist()
    every, asked = EVERY.expand(len(LABELS), -1, -1), LABELS[:, None].expand(-1, len(EVERY), -1)
    assert torch.equal(compiled.contains(every, asked), FITS)
    joint = scores(LOG_P, every).masked_fill(~FITS, -torch.inf)
    torch.testing.assert_close(compiled.log_prob(LOG_P, LABELS), joint.logsumexp(1))
    wanted = soft_target(every, weights(scores(LOG_P, every), FITS, 0.5), SPACE.h)
    torch.testing.assert_close(compiled.marginals(LOG_P, LABELS, 0.5), wanted)
    _, exists = compiled.best(LOG_P, LABELS, 30)
    assert exists.sum(1).tolist() == FITS.sum(1).tolist()
    drawn = compiled.sample(LABELS[FEASIBLE].repeat(50, 1), torch.Generator().manual_seed(0))
    assert satisfied(TASK, drawn[:, None], LABELS[FEASIBLE].repeat(50, 1)).all()
    assert len(drawn.view(50, -1, 3)[:, 3].unique(dim=0)) > 15  # of the 27 of a label that is all unknown


@pytest.mark.parametrize("kind", ["exact", "kbest", "pool"])
def test_targets_are_made_of_the_union(kind, uncompiled):
    task = uncompiled(TASK) if kind == "pool" else TASK
    settings = Settings().override(targets="exact" if kind == "exact" else "kbest", working_set=27, kbest_pool=27)
    source = targets.make(task, settings, torch.Generator())
    labels, log_p = LABELS[FEASIBLE], LOG_P[FEASIBLE]
    state = source.start(labels)  # no warning: each of them is known to be possible
    found, _ = source.target(state, Query(torch.arange(len(labels)), labels, log_p, 0, 0.5), torch.Generator())
    every = EVERY.expand(len(labels), -1, -1)
    wanted = soft_target(every, weights(scores(log_p, every), FITS[FEASIBLE], 0.5), SPACE.h)
    torch.testing.assert_close(found, wanted)


def test_a_label_that_no_completion_makes_feasible_is_refused():
    with pytest.raises(sp.InputError, match=r"values of the concepts give in task .*: \[7, -1, 0\] \(example ids 1\)"):
        targets.make(TASK, Settings(), torch.Generator()).start(LABELS[[1, 6]])


def test_minus_one_is_a_value_where_the_rule_gives_it():
    rows = sp.Rows(EVERY[:2], labels=torch.tensor([[0, 1], [1, 0]]))  # all other assignments have [-1, -1]
    task, others = sp.Task(SPACE, rows), torch.tensor([[-1, -1], [-1, 1]])
    assert not unknown_in(task, others).any()
    assert compilation(task).rule.count(others) == [25, 0]


def test_a_rule_that_is_known_in_part_cannot_be_asked_about_unknown_entries():
    diagram = from_rows(SPACE, EVERY[:4], rule(EVERY[:4]), range(3), None)
    assert diagram.knows(torch.stack([rule(EVERY[0]), torch.tensor([-1, 0, 1])])).tolist() == [True, False]


def test_the_cache_refuses_unknown_entries():
    source = targets.make(TASK, Settings().override(targets="cache"), torch.Generator())
    with pytest.raises(
        sp.InputError, match=r"label \[2, -1, 0\] of example 1 has an unknown entry .* the cache cannot"
    ):
        source.start(LABELS[:2])


def test_a_machine_that_sees_the_label_refuses_unknown_entries():
    machine = sp.Machine(
        0,
        lambda states, concept, values, labels: states * 3 + values,
        accept=lambda states, labels: (torch.stack([states // 9 + states // 3 % 3, states % 3 % 2], -1) == labels).all(
            -1
        ),
        rule=lambda c: rule(c)[..., :2],
    )
    with pytest.raises(sp.InputError, match=r"unknown entry .*which a Machine that sees the label cannot use"):
        compilation(sp.Task(SPACE, machine)).rule.knows(torch.tensor([[2, -1]]))


def test_accuracy_is_over_known_entries():
    true = torch.tensor([[1, -1], [0, -1], [-1, -1], [1, 0]])
    seen = torch.tensor([[1, 0], [1, 0], [1, 1], [1, 0]])
    found = label_metrics(seen, true, true == -1)
    assert found["label_accuracy"] == pytest.approx(2 / 3)
    assert found["label_accuracy/entry 0"] == pytest.approx(2 / 3) and found["label_accuracy/entry 1"] == 1
    with pytest.raises(sp.InputError, match="no label has a known entry"):
        label_metrics(seen, -torch.ones_like(true), torch.ones_like(true, dtype=torch.bool))


def test_the_calibration_error_of_labels_is_that_of_labels_that_are_known_whole():
    true = torch.tensor([[1, -1], [1, 0]])
    seen, sure = torch.tensor([[1, 0], [1, 0]]), torch.tensor([0.1, 0.75])
    found = all_metrics(SPACE, EVERY[:2], seen, torch.ones(2, 3, 3), None, true, sure, true == -1)
    assert found["label_ece"] == pytest.approx(0.25)
