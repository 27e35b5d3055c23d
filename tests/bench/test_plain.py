"""The plain reading and the library agree on a tiny case, so that their speeds may be compared."""

import pytest
import torch
from torch import nn

from bench import plain
from bench.encoder import flop
from bench.growth import slope
from softpnet import methods
from softpnet.methods.base import Batch, Clock
from softpnet.task.anchors import AnchorSet
from softpnet.task.settings import Settings
from softpnet.tasks import load
from softpnet.training.streams import Streams


@pytest.mark.parametrize("target", ["best", "soft"])
def test_the_plain_reading_has_the_same_loss_and_gradient(target):
    task = load("mnist_evenodd")
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(4, 2, 1, 12, 12, generator=generator), torch.tensor([6, 10, 12, 6])
    originals = torch.rand(10, 1, 12, 12, generator=generator)
    settings = Settings(target=target, rule_weight=5.0, episodes=3, copies=2, gamma=0.7)
    # batch norm would see other batches when every episode is embedded by itself, so the tiny encoder has none
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(144, 4, bias=False))
    method = methods.find("softpnet")(task, settings, [AnchorSet(originals, torch.arange(10))])
    module = method.module({"concept": encoder})
    streams, twin = Streams(0), Streams(0)
    state = method.start(labels, streams)
    ours, *_ = method.loss(module, state, Batch(images, labels, torch.arange(4)), Clock(0, 0), streams)
    ours.backward()
    gradient = encoder[1].weight.grad.clone()
    encoder.zero_grad()

    (anchors,) = method.augmented_anchors(twin("augment"))
    chosen = torch.randint(3, (3, 10), generator=twin("episodes"))
    log_p = plain.concept_log_p(encoder, images, anchors)
    theirs = plain.prototypical_loss(encoder, anchors, chosen)
    theirs = theirs + 5.0 * plain.kl_loss(log_p, labels, task.space.all(), task.rule, 0.7, best=target == "best")
    theirs.backward()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient, encoder[1].weight.grad, atol=1e-5, rtol=1e-4)


def test_an_image_of_28x28_costs_59_megaflop():
    assert flop(1, 1) == pytest.approx(59e6, rel=0.02)


def test_the_fitted_exponent_of_a_square_is_two():
    assert slope([10, 100, 1000], [1.0, 100.0, 10_000.0]) == pytest.approx(2.0)
