"""--encoder and --init of the command line."""

import json
import sys
from pathlib import Path

import pytest

RULE = """
import torch
import softpnet as sp

def rule(c):
    return c.sum(-1)

def data(streams):
    concepts = torch.randint(2, (16, 2), generator=streams("data"))
    inputs = concepts[:, :, None, None, None].float().expand(-1, -1, 1, 4, 4).contiguous()
    anchors = torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)])
    examples = sp.Examples(inputs, rule(concepts), concepts)
    return sp.Data(examples, sp.Anchors(anchors, torch.arange(2)), {"test": examples})

settings = dict(epochs=1, warmup_steps=2, copies=1, batch_size=8)
task = sp.Task(sp.ConceptSpace(slots=2, values=2), rule, name="sum", data=data, settings=settings)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "my_rule.py").write_text(RULE)
    monkeypatch.chdir(tmp_path)


def config(run):
    return json.loads((Path(run) / "config.json").read_text())


@pytest.mark.usefixtures("home")
def test_train_takes_an_encoder_by_name_and_a_run_to_start_from(softpnet_here):
    given = ("train", "my_rule.py", "--no-pictures")  # 4x4 is too small for conv4, the default
    assert softpnet_here(*given, "--encoder", "mlp", "--out", "first")[0] == 0
    assert config("first")["encoder"] == "mlp" and config("first")["init"] is None
    code, out, _ = softpnet_here(*given, "--encoder", "mlp:frozen", "--init", "first", "--out", "second")
    assert code == 0 and "starts from" in out and "its features of the training inputs are computed once" in out
    assert config("second")["init"]["source"] == str(Path("first").resolve())
    assert softpnet_here("evaluate", "second", "--task", "my_rule.py")[0] == 0
    code, _, error = softpnet_here(*given, "--encoder", "mlp", "--init", "nowhere", "--out", "third")
    assert code == 2 and "there is no folder nowhere" in error


@pytest.mark.usefixtures("home")
def test_check_takes_an_encoder_and_says_what_is_wrong_with_it(softpnet_here, monkeypatch):
    assert softpnet_here("check", "my_rule.py", "--encoder", "mlp")[0] == 0
    monkeypatch.setitem(sys.modules, "timm", None)
    code, out, _ = softpnet_here("check", "my_rule.py", "--encoder", "conv5")
    assert code == 1 and "encoder 'conv5' is not known" in out


@pytest.mark.usefixtures("home", "runs_here")
def test_compare_trains_all_with_the_encoder_and_mixes_no_others(softpnet_here):
    given = ("compare", "my_rule.py", "--methods", "softpnet", "--seeds", 1)
    code, out, _ = softpnet_here(*given, "--encoder", "mlp")
    assert code == 0 and "--encoder mlp" in out
    (record,) = map(json.loads, Path("comparisons/sum/softpnet.jsonl").read_text().splitlines())
    assert record["encoder"] == "mlp"
    code, _, error = softpnet_here(*given, "--encoder", "mlp:frozen")
    assert code == 2 and "a different configuration (encoder mlp, expected mlp:frozen)" in error
