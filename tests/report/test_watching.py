"""Why a page has no gap by epoch, and the command that makes it: the command line takes it as it stands."""

import shlex

import pytest
import torch

from softpnet import Learner, tasks
from softpnet.report.watching import unwatched
from softpnet.task.data import make_data
from softpnet.training.config import read_config
from softpnet.training.folder import RunFolder
from softpnet.training.streams import Streams

OWN = """
import torch
import softpnet as sp

def rule(c):
    return c.sum(-1)

def data(streams):
    concepts = torch.randint(3, (12, 2), generator=streams("data"))
    examples = sp.Examples(1.0 * torch.nn.functional.one_hot(concepts, 3), rule(concepts), concepts)
    return sp.Data(examples, sp.Anchors(torch.eye(3), torch.arange(3)), {"test": examples})

def task(name: str = "sum"):
    return sp.Task(sp.ConceptSpace(slots=2, values=3), rule, name=name, data=data, encoder="mlp")
"""
GIVEN = dict(epochs=1, warmup_steps=2, augment_inputs=False)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    task = tasks.load(str(tmp_path / "own.py"), {"name": "two words"})
    data = make_data(task, Streams(3))
    model = Learner(task, seed=3, threads=1, **GIVEN)
    model.fit(data.train.inputs, data.train.labels, data.anchors, run=tmp_path / "run")
    return read_config(RunFolder(tmp_path / "run"))


def test_the_command_trains_the_same_and_watches(config, tmp_path, softpnet_here, monkeypatch):
    found = unwatched(config, [{"epoch": 1}], has_concepts=True)
    assert "no epoch was judged" in found["why"] and found["command"].endswith(" --watch")
    assert str(tmp_path) not in found["command"]
    monkeypatch.chdir(tmp_path)
    code, _, error = softpnet_here(*shlex.split(found["command"])[1:], "--threads", 1, "--no-pictures", "--out", "new")
    assert code == 0, error
    again = read_config(RunFolder(tmp_path / "new"))
    assert again.settings == config.settings and again.seed == 3 and again.origin.options == {"name": "two words"}
    models = [Learner.load(tmp_path / run, origin="own.py").module.state_dict() for run in ("run", "new")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_each_cause_is_named_alone(config):
    assert unwatched(config, [{"concept_accuracy": 0.5}], has_concepts=True) is None
    assert unwatched(config, [{"label_accuracy": 0.5}], has_concepts=False)["why"].endswith("have no true concepts.")
