"""P(y|x) of labels that were read, against sums over every assignment."""

import pytest
import torch

from softpnet import ConceptSpace, Task, TaskError
from softpnet.rules import confidence
from softpnet.rules.confidence import label_probabilities
from softpnet.rules.diagram import CompiledRule, NotCompiled

SPACE = ConceptSpace(slots=3, values=3)
RULES = {
    "sum": lambda c: c.sum(-1),
    "vector": lambda c: torch.stack([c[..., 0] > c[..., 1], c[..., 2] == 0], -1).long(),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_it_is_the_sum_over_all_assignments_with_the_label_in_parts_too(rule, monkeypatch):
    monkeypatch.setattr(confidence, "AT_ONCE", 4)  # 10 = 4 + 4 + 2
    p = torch.rand(10, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)
    labels, rows = rule(p.argmax(-1)), SPACE.all()
    each = p[:, torch.arange(3), rows].prod(-1)  # [10, 27]
    same = (rule(rows) == labels[:, None]).reshape(10, 27, -1).all(-1)
    torch.testing.assert_close(label_probabilities(Task(SPACE, rule), labels, p), (each * same).sum(1))


def test_a_rule_that_is_not_compiled_has_none(monkeypatch):
    def refused(task):
        raise NotCompiled("too large")

    monkeypatch.setattr("softpnet.rules.compile._compiled", refused)
    p = torch.full((1, 3, 3), 1 / 3)
    assert label_probabilities(Task(SPACE, RULES["sum"]), torch.tensor([3]), p) is None


def test_a_rule_too_large_to_be_asked_or_wrong_only_for_compiling_has_none(monkeypatch):
    p, labels = torch.full((1, 3, 3), 1 / 3), torch.tensor([3])

    def refused(*given):
        raise TaskError("reaches more states than there may be")

    with monkeypatch.context() as patch:
        patch.setattr(CompiledRule, "log_prob", refused)
        assert label_probabilities(Task(SPACE, RULES["sum"]), labels, p) is None
    monkeypatch.setattr(confidence, "compilation", refused)
    assert label_probabilities(Task(SPACE, RULES["sum"]), labels, p) is None
