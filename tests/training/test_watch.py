"""Watching a training: what is seen is the model of that moment, and the training does not notice."""

import json

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Examples, InputError, Learner, Task
from softpnet.training.folder import RunFolder

GENERATOR = torch.Generator().manual_seed(0)
CONCEPTS = torch.randint(3, (20, 2), generator=GENERATOR)
IMAGES = torch.rand(20, 2, 1, 8, 8, generator=GENERATOR)
TEST = Examples(torch.rand(9, 2, 1, 8, 8, generator=GENERATOR), CONCEPTS[:9].sum(1), CONCEPTS[:9])
ANCHORS = Anchors(torch.rand(3, 1, 8, 8, generator=GENERATOR), torch.arange(3))


class Moody(nn.Sequential):
    """Statistics that training mode moves, and global randomness in either mode."""

    def __init__(self, channels):
        super().__init__(nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 8))

    def forward(self, inputs):
        return super().forward(inputs) + 0.01 * torch.rand(8)


def scored(model, state):
    return model.score(*TEST)


def fit(folder=None, watch=None, method="softpnet", progress=None, resume=False, encoder=Moody):
    task = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="sums", settings={"targets": "cache"})
    small = {"epochs": 3, "batch_size": 8, "warmup_steps": 2, "episodes": 3, "working_set": 2}
    model = Learner(task, method=method, encoder=encoder, threads=1, **small)
    given = {"run": folder, "resume": resume, "progress": progress, "watch": watch}
    return model.fit(IMAGES, CONCEPTS.sum(1), ANCHORS, checkpoint_steps=1, **given)


def without_seconds(records):
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


@pytest.mark.parametrize("method", ["softpnet", "softg_k"])
def test_training_goes_through_the_same_bits_when_it_is_watched(method):
    plain, watched = fit(method=method), fit(method=method, watch=scored)
    one, other = plain.module.state_dict(), watched.module.state_dict()
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    for before, after in zip(without_seconds(plain.history), without_seconds(watched.history), strict=True):
        assert before.items() < after.items() and {"concept_accuracy", "label_accuracy", "gap"} <= set(after)


def test_the_model_that_is_seen_is_the_one_that_training_would_end_with():
    def small(channels):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8))

    seen = []

    def look(model, state):
        seen.append((model.predict(TEST.inputs).probabilities, len(model.history), state.started.all()))
        return {}

    final = fit(watch=look, encoder=small)
    assert [done for _, done, _ in seen] == [1, 2, 3] and all(started for *_, started in seen)
    assert torch.equal(seen[-1][0], final.predict(TEST.inputs).probabilities)
    assert not torch.equal(seen[0][0], seen[-1][0])


@pytest.mark.parametrize("crash_at", [5, 6])  # in the last step of the first epoch, and in the next one
def test_what_was_seen_is_in_the_run_folder_and_outlives_a_crash(tmp_path, crash_at):
    def crash(step, made=[]):  # noqa: B006
        made.append(step)
        if len(made) == crash_at:
            raise KeyError

    fit(tmp_path / "whole", scored)
    with pytest.raises(KeyError):
        fit(tmp_path / "cut", scored, progress=crash)
    resumed = fit(tmp_path / "cut", scored, resume=True)
    whole, cut = (RunFolder(tmp_path / name) for name in ("whole", "cut"))
    assert whole.read("model.safetensors") == cut.read("model.safetensors")
    records = [[json.loads(line) for line in run.read("epochs.jsonl").splitlines()] for run in (whole, cut)]
    assert without_seconds(records[0]) == without_seconds(records[1]) == without_seconds(resumed.history)
    assert all("label_accuracy" in record for record in records[1]) and len(records[1]) == 3


def test_a_name_that_the_record_already_has_is_refused():
    with pytest.raises(InputError, match="watch returned 'epoch', which every epoch's record already has"):
        fit(watch=lambda model, state: {"epoch": 7.0})


def test_a_watch_may_look_without_a_word():
    seen = []
    assert len(fit(watch=lambda model, state: seen.append(model)).history) == len(seen) == 3


@pytest.mark.parametrize(
    "found, says",
    [
        ([1.0], r"watch returned \[1.0\], expected numbers by name, .* or None"),
        ({"seen": "much"}, "watch returned 'much' as 'seen', expected a number"),
        ({"seen": None}, "watch returned None as 'seen', expected a number"),
        ({"seen": torch.zeros(2)}, "as 'seen', expected a number"),
    ],
)
def test_what_a_watch_returns_must_be_numbers_by_name(found, says):
    with pytest.raises(InputError, match=says):
        fit(watch=lambda model, state: found)
