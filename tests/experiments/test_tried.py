"""What the search tries is what its rows say."""

import pytest
import torch

import softpnet as sp
from softpnet.experiments.search import SEARCH
from softpnet.experiments.tried import affine_signs, fading_anchors, heavy_anchors, learned_scale
from softpnet.methods import softpnet
from softpnet.networks.prototypes import LearnedPrototypeNetwork
from softpnet.task.settings import Settings

SPACE = sp.ConceptSpace(slots=2, values=3)
TASK = sp.Task(SPACE, lambda c: c.sum(-1))


@pytest.fixture
def one(monkeypatch):
    """The anchors' loss of the recipe is 1."""
    monkeypatch.setattr(softpnet.Method, "anchor_loss", lambda self, reading, streams: torch.ones(()))


def test_heavy_anchors_weigh_five_times_as_much(one):
    assert heavy_anchors.Method(TASK, Settings(), []).anchor_loss(None, None) == 5


@pytest.mark.parametrize(
    "target, weight", [(torch.full((4, 2, 3), 1 / 3), 1.0), (torch.eye(3)[:2].expand(4, 2, 3), 0.0)]
)
def test_fading_anchors_weigh_what_the_targets_leave_open(one, monkeypatch, target, weight):
    monkeypatch.setattr(softpnet.Method, "target", lambda self: (target, {}))
    method = fading_anchors.Method(TASK, Settings(), [])
    assert method.anchor_loss(None, None) == 1  # in the warm-up
    assert method.target()[0] is target
    assert float(method.anchor_loss(None, None)) == pytest.approx(weight, abs=1e-6)


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


def test_every_change_of_the_search_has_a_row_of_its_own():
    names, commands = {row.name for row in SEARCH}, {row.command_line(1) for row in SEARCH}
    assert len(names) == len(commands) == len(SEARCH)
    assert all(row.options["split"] == "validation" for row in SEARCH)
