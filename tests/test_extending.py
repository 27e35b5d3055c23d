"""A new task, method or source of targets is one file, or a class; nothing else is edited."""

import json
from typing import Any, ClassVar

import pytest
import torch

from softpnet import Anchors, ConceptSpace, InputError, Learner, Task, methods, targets
from softpnet.methods import softpnet
from softpnet.targets.source import State, TargetSource

SOURCE = """
import torch
from softpnet.targets.source import TargetSource

class Source(TargetSource):
    def target(self, state, query, generator):
        every = self.task.space.all()  # [M, k]
        fits = (self.task.rule(every) == query.labels[:, None]).to(query.log_p)  # [B, M]
        shows = torch.nn.functional.one_hot(every, self.task.space.h).to(query.log_p)  # [M, k, h]
        return torch.einsum("bm,mkh->bkh", fits / fits.sum(1, keepdim=True), shows), {"mine": 1.0}
"""
METHOD = """
from softpnet.methods import softpnet

class Method(softpnet.Method):
    columns = ("loss_kl", "mine")
    fixed = {"gamma": 0.5}
"""
TASK = """
import torch
from softpnet import Anchors, ConceptSpace, Data, Examples, Task
from torch import nn

def data(streams):
    concepts = torch.randint(3, (24, 2), generator=streams("data"))
    inputs = torch.nn.functional.one_hot(concepts, 3).float()[:, :, None, None, :]
    anchors = Anchors(torch.eye(3)[:, None, None, :], torch.arange(3))
    train = Examples(inputs, concepts.sum(1), concepts)
    return Data(train, anchors, {"test": train})

task = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="mine", data=data,
            encoder=lambda channels: nn.Sequential(nn.Flatten(), nn.Linear(3, 4)))
"""
SHORT = {"epochs": 1, "batch_size": 8, "warmup_steps": 1, "episodes": 2, "threads": 1}
CONCEPTS = torch.tensor([[0, 1], [2, 0], [1, 1], [0, 0]])
INPUTS = torch.nn.functional.one_hot(CONCEPTS, 3).float()[:, :, None, None, :]
ANCHORS = Anchors(torch.eye(3)[:, None, None, :], torch.arange(3))


def flat(channels):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 4))


def adding():
    return Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), encoder=flat)


def fit(**choices):
    return Learner(adding(), **SHORT, **choices).fit(INPUTS, CONCEPTS.sum(1), ANCHORS)


@pytest.fixture
def files(tmp_path):
    for name, text in {"source.py": SOURCE, "method.py": METHOD, "task.py": TASK}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_task_a_method_and_a_source_of_targets_are_one_file_each_on_the_command_line(
    files, softpnet_here, monkeypatch
):
    command = ["train", "task.py", "--method", "method.py", "--targets", "source.py", "--out", "run", "--no-pictures"]
    short = [word for name, value in SHORT.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    monkeypatch.chdir(files)
    code, _, error = softpnet_here(*command, *short)
    assert code == 0, error
    config = json.loads((files / "run/config.json").read_text())
    assert (config["task"], config["method"], config["settings"]["targets"]) == ("mine", "method.py", "source.py")
    assert config["settings"]["gamma"] == 0.5
    assert json.loads((files / "run/epochs.jsonl").read_text())["mine"] == 1.0


def test_a_method_and_a_source_may_be_classes():
    class Uniform(TargetSource):
        def target(self, state: State, query, generator):
            return torch.full_like(query.log_p, 1 / 3), {"asked": float(len(query.ids))}

    class Loud(softpnet.Method):
        fixed: ClassVar[dict[str, Any]] = {"gamma": 0.25}

    model = fit(method=Loud, targets=Uniform)
    assert model.history[0]["asked"] == 4 and model.history[0]["gamma"] == 0.25
    assert (model.method, model.config().settings.targets) == ("Loud", "Uniform")


def test_a_model_of_a_method_of_one_s_own_is_read_with_that_method_only(files):
    own = str(files / "method.py")
    model = fit(method=own)
    model.save(files / "saved")
    with pytest.raises(InputError, match=r"made with a method of your own.*name it again.*code is never taken"):
        Learner.load(files / "saved", task=adding())
    again = Learner.load(files / "saved", task=adding(), method=own)
    assert torch.equal(again.predict(INPUTS).probabilities, model.predict(INPUTS).probabilities)


@pytest.mark.parametrize("kind, find", [("method", methods.find), ("target source", targets.find)])
def test_what_is_neither_a_name_nor_a_file_that_defines_one_is_refused(files, kind, find):
    with pytest.raises(InputError, match=rf"unknown {kind} 'nope'; the {kind}s are .*, or give a path to a \.py file"):
        find("nope")
    with pytest.raises(InputError, match=r"there is no file .*nope\.py"):
        find(str(files / "nope.py"))
    with pytest.raises(InputError, match=rf"task\.py does not define a {kind}: .*expected a subclass of softpnet"):
        find(str(files / "task.py"))


def test_a_source_that_is_unknown_is_named_before_training():
    with pytest.raises(InputError, match="unknown target source 'exat'; did you mean exact"):
        fit(targets="exat")
