"""Calibration after training: views of training inputs against the exact targets of the clean ones."""

import torch
from torch import nn

from softpnet import ConceptSpace, Task, TaskError
from softpnet.networks.calibration import best_temperatures
from softpnet.networks.reader import Reader
from softpnet.rules.diagram import CompiledRule, NotCompiled
from softpnet.training.calibrate import calibrated
from softpnet.training.prepare import Given

SPACE = ConceptSpace(slots=2, values=3)


class Pixels(Reader):
    """Reads the three pixels of an input as logits."""

    def __init__(self):
        super().__init__(SPACE, {"default": nn.Identity()})

    def log_p(self, inputs):
        return inputs.flatten(2).log_softmax(-1)


def blurred(inputs, generator):
    return 4 * torch.randn(inputs.shape, generator=generator) + inputs


def task(augment=blurred):
    return Task(SPACE, lambda c: c.sum(-1), augment=augment)


def examples():
    truth = torch.randint(3, (200, 2), generator=torch.Generator().manual_seed(0))
    inputs = 5.0 * nn.functional.one_hot(truth, 3)[:, :, None, None]  # [N, n, C, H, W]
    return Given(inputs, truth.sum(-1), [], None)


def test_views_are_held_against_what_the_clean_input_shows_given_its_label():
    given, seen = examples(), []

    def noted(inputs, generator):
        seen.append((inputs, blurred(inputs, generator)))
        return seen[-1][1]

    found = calibrated(task(noted), Pixels(), given, seed=3)
    ((clean, views),) = seen
    log_p, rows = Pixels().log_p(clean), SPACE.all()
    labels = clean.flatten(2).argmax(-1).sum(-1)
    each = log_p.exp()[:, torch.arange(2), rows].prod(-1) * (rows.sum(-1) == labels[:, None])  # [B, 9], by brute force
    each = each / each.sum(1, keepdim=True)
    target = torch.einsum("br,rkh->bkh", each, nn.functional.one_hot(rows, 3).float())
    expected = best_temperatures(SPACE, Pixels().log_p(views), target)
    torch.testing.assert_close(found.temperatures, expected, atol=1e-4, rtol=0)
    assert found.temperatures > 1.5  # it is too sure of the views
    again = calibrated(task(), Pixels(), given, seed=3)
    assert torch.equal(again.temperatures, found.temperatures)  # the same views


def test_without_augmentation_or_a_compiled_rule_probabilities_stay_as_they_are(monkeypatch):
    given = examples()
    found = calibrated(task(augment=None), Pixels(), given, seed=0)
    assert found.temperatures.tolist() == [1.0]
    sure = torch.tensor([5.0, 0, 0]).softmax(-1)[0]
    torch.testing.assert_close(found.confidences, sure.expand(len(found.confidences)))

    def refused(task):
        raise NotCompiled("too large")

    monkeypatch.setattr("softpnet.rules.compile._compiled", refused)
    assert calibrated(task(), Pixels(), given, seed=0).temperatures.tolist() == [1.0]


def test_what_cannot_be_read_teaches_nothing():
    given = examples()
    found = calibrated(task(), Pixels(), given._replace(inputs=given.inputs * torch.nan), seed=0)
    assert found.temperatures.tolist() == [1.0] and found.threshold(0.5) == torch.inf


def test_a_rule_too_large_to_be_asked_leaves_probabilities_as_they_are(monkeypatch):
    def too_large(self, *given):
        raise TaskError("reaches more states than there may be")

    monkeypatch.setattr(CompiledRule, "marginals", too_large)
    assert calibrated(task(), Pixels(), examples(), seed=0).temperatures.tolist() == [1.0]
