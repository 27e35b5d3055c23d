"""`softpnet rule`, and what `train` says of the rule."""

import pytest

OWN = """
import torch
import softpnet as sp

def rule(c):
    return c.sum(-1)

def data(streams):
    concepts = torch.randint(3, (24, 2), generator=streams("data"))
    inputs = 1.0 * torch.nn.functional.one_hot(concepts, 3)[:, :, None, None]
    anchors = sp.Anchors(1.0 * torch.eye(3)[:, None, None], torch.arange(3))
    examples = sp.Examples(inputs, rule(concepts), concepts)
    return sp.Data(examples, anchors, {"test": examples})

task = sp.Task(sp.ConceptSpace(slots=2, values=3), rule, name="sum", data=data,
               encoder=lambda channels: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 4)),
               settings={"epochs": 1, "warmup_steps": 1})
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_rule.py"
    path.write_text(OWN)
    return path


def test_rule_shows_how_it_was_compiled_and_counts_every_label(softpnet_here, file):
    code, out, _ = softpnet_here("rule", file)
    assert code == 0
    assert "sum: 2 concepts, 9 assignments" in out
    assert "rule: exact, from a table of all 9 assignments, 4 nodes, at most 3 in a layer, compiled in" in out
    assert "nodes per layer: 1 3" in out and "reads the concepts in the order 0 1" in out
    assert [line.split()[3] for line in out.splitlines() if line.startswith("│")] == ["1", "2", "3", "2", "1"]


def test_rule_of_kand_logic_has_the_count_of_valid_scenes(softpnet_here):
    code, out, _ = softpnet_here("rule", "kand_logic")
    assert code == 0 and "from a state machine" in out and "202,242,825" in out


def test_a_rule_that_is_not_compiled_says_why_and_exits_with_1(softpnet_here, file, monkeypatch):
    monkeypatch.setattr("softpnet.rules.merge.BUDGET", 3)
    code, out, _ = softpnet_here("rule", file)
    assert code == 1 and "not compiled: the rule has more than 3 nodes" in out


def test_train_says_where_its_targets_come_from(softpnet_here, file, tmp_path):
    code, out, error = softpnet_here("train", file, "--out", tmp_path / "run", "--no-pictures")
    assert code == 0, error
    assert out.splitlines()[0].startswith("targets: exact; the rule is exact, from a table of all 9 assignments")
