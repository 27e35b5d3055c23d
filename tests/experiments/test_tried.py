"""What the search tries is what its rows say."""

import math

import pytest
import torch

import softpnet as sp
from softpnet.experiments.search import SEARCH
from softpnet.experiments.tried import affine_signs, averaged_weights, concept_attention, fading_anchors, learned_scale
from softpnet.methods import softpnet
from softpnet.networks.prototypes import LearnedPrototypeNetwork
from softpnet.task.settings import Settings

SPACE = sp.ConceptSpace(slots=2, values=3)
TASK = sp.Task(SPACE, lambda c: c.sum(-1))


def test_fading_anchors_weigh_what_the_rule_leaves_open_and_not_what_the_network_does(monkeypatch):
    """Of values 0, 1 and 2 the rule excludes the last: then it leaves log 2 of log 3 open, however sure the reading."""
    monkeypatch.setattr(softpnet.Method, "anchor_loss", lambda self, reading, streams: torch.ones(()))
    method = fading_anchors.Method(TASK, Settings(), [])
    assert method.anchor_loss(None, None) == 1  # in the warm-up
    for read in ([0.5, 0.2, 0.3], [0.98, 0.01, 0.01]):
        p = torch.tensor(read).expand(4, 2, 3)
        target = p * torch.tensor([1.0, 1.0, 0.0])
        target = target / target.sum(-1, keepdim=True)
        monkeypatch.setattr(softpnet.Method, "target", lambda *given, target=target: (target, {}))
        assert method.target(None, None, p.log())[0] is target
        assert float(method.anchor_loss(None, None)) == pytest.approx(math.log(2) / math.log(3), abs=1e-5)


def test_averaged_weights_are_the_running_mean_of_those_before_each_step(monkeypatch):
    steps, pace = [0.0, 1.0, 3.0], averaged_weights.PACE
    for part in ("warm_up", "finish"):
        monkeypatch.setattr(softpnet.Method, part, lambda *given: None)
    anchors = sp.Anchors(torch.eye(3, 4), torch.arange(3))
    method = averaged_weights.Method(TASK, Settings(prototypes="learned"), [anchors])
    network = method.module({"concept": torch.nn.Flatten()})
    (weight,) = network.parameters()  # the prototypes
    mean = weight.detach().clone()
    for step in steps:
        weight.data.fill_(step)
        method.warm_up()
        mean = (1 - pace) * mean + pace * step
    method.ready(network)
    torch.testing.assert_close(weight.data, mean)


def test_a_learned_scale_multiplies_squared_distances():
    encoder = torch.nn.Flatten()
    like, inputs = torch.zeros(4), torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0))
    plain = LearnedPrototypeNetwork(SPACE, {"concept": encoder}, True, like)
    scaled = learned_scale.Method(TASK, Settings(scaled=True), [sp.Anchors(torch.eye(3, 4), torch.arange(3))])
    network = scaled.module({"concept": encoder})
    network.load_state_dict(plain.state_dict(), strict=False)
    assert torch.allclose(network.log_p(inputs), plain.log_p(inputs))
    network.log_scale.data.fill_(4.0).log_()
    assert torch.allclose(network.log_p(inputs), (4 * plain.log_p(inputs)).log_softmax(-1), atol=1e-5)
    network.log_p(inputs)[:, :, 0].sum().backward()
    assert network.log_scale.grad.abs() > 0


def test_affine_signs_are_the_signs_with_another_augmentation(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTPNET_GTSRB", str(tmp_path))
    task = affine_signs.task("validation")
    grey = torch.full((2, 1, 3, 8, 8), 0.2)
    assert task.name == "traffic_signs"
    assert torch.allclose(task.augment(grey, torch.Generator().manual_seed(0)), grey)  # no brighter, no darker


@pytest.mark.parametrize(
    "change",
    [
        {"method": averaged_weights.Method},
        {"method": fading_anchors.Method},
        {"method": learned_scale.Method},
        {"targets": concept_attention.Source},
    ],
)
def test_what_is_tried_learns(change):
    generator = torch.Generator().manual_seed(0)
    concepts = torch.randint(3, (90, 2), generator=generator)
    inputs = torch.eye(3)[concepts] + 0.1 * torch.randn(90, 2, 3, generator=generator)
    model = sp.Learner(TASK, epochs=10, learning_rate=0.01, encoder=torch.nn.Linear(3, 4), seed=0, threads=1, **change)
    model.fit(inputs, concepts.sum(-1), sp.Anchors(torch.eye(3), torch.arange(3)))
    assert model.score(inputs, concepts.sum(-1), concepts)["concept_accuracy"] > 0.95


def test_every_change_of_the_search_has_a_row_of_its_own():
    names, commands = {row.name for row in SEARCH}, {row.command_line(1) for row in SEARCH}
    assert len(names) == len(commands) == len(SEARCH)
    assert all(row.options["split"] == "validation" for row in SEARCH)
