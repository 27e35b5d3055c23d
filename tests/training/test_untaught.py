"""Examples whose label teaches nothing, because no candidate was found: half of them stop a training."""

import re
import warnings

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Learner, Task, TrainingError

GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.rand(16, 1, 1, 8, 8, generator=GENERATOR).expand(16, 2, 1, 8, 8)
ANCHORS = Anchors(torch.rand(3, 1, 8, 8, generator=GENERATOR), torch.arange(3))
TASK = Task(ConceptSpace(slots=2, values=3), lambda c: (c[..., 0] != c[..., 1]).long(), name="unlike")
QUICK = {"epochs": 2, "batch_size": 4, "warmup_steps": 1, "episodes": 2, "copies": 1, "threads": 1}


def encoder(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, 8))


@pytest.fixture
def fit(uncompiled):
    """The two images of an example are one, so that its most probable assignment never has the label 1, and the rule
    is not compiled, so that no other one is found."""

    def fitted(untaught, method="softpnet", run=None, resume=False, progress=None, **settings):
        chosen = QUICK | {"targets": "kbest", "kbest_pool": 1} | settings
        model = Learner(uncompiled(TASK), method=method, preset="paper", encoder=encoder, **chosen)
        labels = (torch.arange(16) < untaught).long()
        return model.fit(INPUTS, labels, ANCHORS, run=run, resume=resume, progress=progress, checkpoint_steps=1)

    return fitted


@pytest.mark.parametrize("untaught", [8, 16])
@pytest.mark.parametrize("method", ["softpnet", "softpnet_no_anchor"])
def test_a_training_stops_in_the_epoch_in_which_half_of_the_examples_have_no_candidate(fit, method, untaught):
    message = (
        r"^8 of 16 examples had no candidate in epoch 1, so that their labels taught nothing; .*kbest_pool.* is 1,"
    )
    with pytest.raises(TrainingError, match=message):
        fit(untaught, method)


@pytest.mark.parametrize("untaught, settings", [(7, {"rule_delay": 0}), (7, {"rule_delay": 1}), (0, {})])
def test_fewer_are_counted_and_warned_of_at_the_end(fit, untaught, settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(untaught, **settings)
    said = [str(one.message) for one in caught if "candidate" in str(one.message)]
    epochs = 2 - settings.get("rule_delay", 0)
    assert len(model.history) == 2 and len(said) == bool(untaught)
    assert not said or re.match(rf"up to 7 of 16 examples had no candidate in {epochs} of 2 epochs", said[0])


def test_a_label_that_has_no_weight_need_not_teach(fit):
    assert fit(16, rule_weight=0.0).history and fit(16, rule_delay=2).history


def test_the_count_goes_on_after_a_crash(fit, tmp_path):
    def crash(step):
        if (step.epoch, step.step) == (1, 1):
            raise KeyError

    with pytest.raises(KeyError):
        fit(7, run=tmp_path, progress=crash)
    with pytest.warns(UserWarning, match="up to 7 of 16 examples had no candidate in 2 of 2 epochs"):
        fit(7, run=tmp_path, resume=True)
