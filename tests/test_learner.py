"""Learner as users hold it: fit, predict, score, save, load, the run folder, and what it leaves alone."""

import json
import random
import signal
import threading

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from softpnet import (
    Anchors,
    ConceptSpace,
    Group,
    InputError,
    Learner,
    Settings,
    Task,
    TrainingError,
    tasks,
)
from softpnet.networks import reader

QUICK = dict(epochs=1, warmup_steps=1, episodes=2, copies=1, batch_size=8)


class Small(nn.Module):
    """16x16 -> D."""

    def __init__(self, channels=1, size=4, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Dropout(dropout), nn.Linear(16 * channels, size))

    def forward(self, inputs):
        return self.net(inputs)


def built(size=4):
    """A module instance whose weights are always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Small(size=size)


def add(c):
    return c[..., 0] + c[..., 1]


def picture(values):
    """Values `[...]` -> inputs `[..., 1, 16, 16]`: four bright rows at a place that depends on the value."""
    bright = torch.arange(16)[:, None] // 4 == values[..., None, None, None]  # [..., 1, 16, 1]
    return bright.float().expand(*bright.shape[:-1], 16).clone()


CONCEPTS = torch.randint(3, (16, 2), generator=torch.Generator().manual_seed(0))
IMAGES, LABELS = picture(CONCEPTS), add(CONCEPTS)
ANCHORS = Anchors(picture(torch.arange(3)), torch.arange(3))
NOISE = torch.rand(IMAGES.shape, generator=torch.Generator().manual_seed(1))


def adding(**changes):
    return Task(
        **{"space": ConceptSpace(slots=2, values=3), "rule": add, "name": "adding", "settings": QUICK} | changes
    )


def fitted(task=None, run=None, progress=None, **settings):
    model = Learner(task or adding(), **{"encoder": Small} | settings)
    return model.fit(IMAGES, LABELS, ANCHORS, run=run, progress=progress)


def weights(model):
    return {name: value.clone() for name, value in model.module.state_dict().items()}


def encoders(model):
    return [module for module in model.module.modules() if isinstance(module, Small)]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# Predict and score


def test_predict_gives_concepts_the_rule_s_label_and_probabilities():
    found = fitted().predict(NOISE)
    assert found.concepts.shape == (16, 2) and found.probabilities.shape == (16, 2, 3)
    assert torch.equal(found.labels, add(found.concepts))
    assert torch.equal(found.concepts, found.probabilities.argmax(-1))
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(16, 2))


def test_a_concept_s_probability_falls_with_the_squared_distance_to_its_prototype():
    model = fitted()
    distances = torch.cdist(model.embed(NOISE)[0], model.prototypes()[0].expand(16, -1, -1)).square()  # [N, n, P]
    scaled, temperature = distances / model.prototypes()[0].shape[1] ** 0.5, model.calibration.temperatures
    torch.testing.assert_close(model.predict(NOISE).probabilities, torch.softmax(-scaled / temperature, dim=-1))


def test_training_reads_separable_pictures_perfectly():
    model = fitted(epochs=5, learning_rate=0.01)
    found = model.score(IMAGES, LABELS, CONCEPTS)
    assert 0 < found.pop("concept_ece") < 1 and 0 < found.pop("label_ece") < 1  # right, but not sure of it yet
    assert found == {
        "concept_accuracy": 1,
        "concept_f1": 1,
        "primitive_accuracy": 1,
        "primitive_f1": 1,
        "collapse": 0,
        "label_accuracy": 1,
        "label_f1": 1,
        "gap": 0,
    }


def test_score_is_the_share_of_right_labels_and_concepts():
    model = fitted()
    found = model.predict(NOISE)
    scores = model.score(NOISE, LABELS, CONCEPTS)
    right_labels = float((found.labels == LABELS).float().mean())
    right_concepts = float((found.concepts == CONCEPTS).float().mean())
    assert scores["label_accuracy"] == pytest.approx(right_labels)
    assert scores["concept_accuracy"] == pytest.approx(right_concepts)
    assert scores["gap"] == pytest.approx(right_labels - right_concepts)
    assert 0 < right_concepts < 1, "the pictures of this test are too easy or too hard to tell a share from a constant"


def test_score_without_true_concepts_says_nothing_about_concepts():
    assert set(fitted().score(IMAGES, LABELS)) == {"label_accuracy", "label_f1", "label_ece"}


def test_prediction_in_parts_gives_what_one_pass_gives(monkeypatch):
    model = fitted()
    whole = model.predict(NOISE)
    monkeypatch.setattr(reader, "AT_ONCE", 6)  # 3 examples at once, 16 = 5 * 3 + 1
    seen = []
    encoders(model)[0].register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    parts = model.predict(NOISE)
    assert seen == [6] * 5 + [2]
    assert torch.equal(parts.concepts, whole.concepts)
    torch.testing.assert_close(parts.probabilities, whole.probabilities)


@pytest.mark.parametrize("targets", ["cache", "kbest", "auto"])
def test_label_vectors_work_through_fit_and_score(targets):
    def rule(c):
        return torch.stack([c.sum(-1), (c[..., 0] == c[..., 1]).long()], dim=-1)

    model = Learner(adding(rule=rule), encoder=Small, targets=targets, epochs=5, learning_rate=0.01)
    model.fit(IMAGES, rule(CONCEPTS), ANCHORS)
    found = model.predict(NOISE)
    assert found.labels.shape == (16, 2) and torch.equal(found.labels, rule(found.concepts))
    both_right = (found.labels == rule(CONCEPTS)).all(1).float().mean()
    assert model.score(NOISE, rule(CONCEPTS))["label_accuracy"] == pytest.approx(float(both_right))
    assert model.score(IMAGES, rule(CONCEPTS), CONCEPTS)["label_accuracy"] == 1


# Groups and encoders


@pytest.mark.parametrize("shared", [True, False], ids=["shared encoder", "own encoders"])
@pytest.mark.parametrize("slots", [(0, 1), (1, 2), (2, 0)], ids=str)
def test_groups_of_different_sizes_over_the_same_and_other_slots_are_read(slots, shared):
    space = ConceptSpace(
        Group([0], 2, name="coarse", encoder="eye" if shared else None),
        Group(slots, 4, name="fine", encoder="eye" if shared else None),
    )
    anchors = {
        "fine": Anchors(picture(torch.tensor([3, 1, 0, 2])), torch.tensor([3, 1, 0, 2])),
        "coarse": Anchors(picture(torch.tensor([1, 0])), torch.tensor([1, 0])),
    }
    # What each image shows: slot 0 only what both groups know, the others anything.
    shown = torch.randint(4, (32, space.slots), generator=torch.Generator().manual_seed(0))
    shown[:, 0] %= 2
    truth = torch.cat([shown[:, :1], shown[:, list(slots)]], dim=1)
    task = adding(space=space, rule=lambda c: c.sum(-1))
    model = Learner(task, encoder=lambda channels: Small(channels, size=8), epochs=8, learning_rate=0.01)
    model.fit(picture(shown), truth.sum(1), anchors)

    found = model.predict(picture(shown))
    assert found.probabilities.shape == (32, 3, 4)
    assert (found.probabilities[:, 0, 2:] == 0).all(), "a value that the concept does not have got probability"
    assert (found.probabilities[:, 1:] > 0).all()
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(32, 3))
    assert [tuple(p.shape) for p in model.prototypes()] == [(2, 8), (4, 8)]
    assert [tuple(e.shape) for e in model.embed(picture(shown))] == [(32, 1, 8), (32, 2, 8)]
    assert len(encoders(model)) == (1 if shared else 2)
    assert torch.equal(found.concepts, truth), "concepts of a group are not those of its slots"


def test_two_groups_save_and_load(tmp_path):
    space = ConceptSpace(Group([0], 2, name="coarse"), Group([1], 3, name="fine"))
    task = adding(space=space)
    anchors = {"coarse": Anchors(ANCHORS.inputs[:2], torch.arange(2)), "fine": ANCHORS}
    given = {"coarse": lambda c: Small(c, 3), "fine": lambda c: Small(c, 5)}
    model = Learner(task, encoder=given)
    model.fit(IMAGES, LABELS.clamp_max(3), anchors, run=tmp_path)
    loaded = Learner.load(tmp_path, task=task, encoder=given)
    for mine, theirs in zip(model.predict(NOISE), loaded.predict(NOISE), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    "encoder",
    [built(7), lambda channels: Small(channels, 7), {"concept": built(7)}],
    ids=["module", "factory", "dict"],
)
def test_a_module_a_factory_and_a_dict_by_name_are_encoders(encoder):
    model = fitted(encoder=encoder)
    assert [tuple(p.shape) for p in model.prototypes()] == [(3, 7)]
    assert len(encoders(model)) == 1


def test_a_dict_gives_each_group_its_own_encoder():
    space = ConceptSpace(Group([0], 3, name="left"), Group([1], 3, name="right"))
    model = Learner(adding(space=space), encoder={"left": built(3), "right": lambda channels: Small(channels, 5)})
    model.fit(IMAGES, LABELS, {"left": ANCHORS, "right": ANCHORS})
    assert [tuple(p.shape) for p in model.prototypes()] == [(3, 3), (3, 5)]


def test_a_factory_is_told_the_number_of_channels():
    inputs, anchors = (
        IMAGES.expand(-1, -1, 3, -1, -1),
        Anchors(ANCHORS.inputs.expand(-1, 3, -1, -1), ANCHORS.concepts),
    )
    told = []

    def encoder(channels):
        told.append(channels)
        return Small(channels)

    Learner(adding(), encoder=encoder).fit(inputs, LABELS, anchors)
    assert told == [3]


def test_an_encoder_handed_to_the_learner_takes_the_place_of_the_task_s():
    task = adding(encoder=lambda channels: Small(channels, 3))
    assert fitted(task, encoder=None).prototypes()[0].shape == (3, 3)
    assert fitted(task, encoder=lambda channels: Small(channels, 5)).prototypes()[0].shape == (3, 5)


def test_training_starts_from_the_weights_of_a_user_s_module_and_leaves_it_unchanged():
    encoder = built().eval()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    model = fitted(encoder=encoder, learning_rate=1e-6)
    assert same(before, encoder.state_dict()) and not encoder.training
    assert all(p.grad is None for p in encoder.parameters())
    trained = encoders(model)[0].state_dict()
    for name, value in before.items():
        assert not torch.equal(trained[name], value), "nothing was trained"
        torch.testing.assert_close(trained[name], value, atol=1e-4, rtol=0)


def test_a_second_fit_starts_afresh():
    model = fitted()
    first = weights(model)
    model.fit(IMAGES, LABELS, ANCHORS)
    assert same(first, weights(model)) and len(model.history) == 1


# Settings


def test_settings_override_the_task_s_and_leave_the_others():
    model = fitted(epochs=3, gamma=2.0)
    assert (model.settings.epochs, model.settings.gamma) == (3, 2.0)
    assert (model.settings.batch_size, model.settings.warmup_steps) == (8, 1)
    assert [epoch["epoch"] for epoch in model.history] == [1, 2, 3]
    assert model.history[0]["gamma"] == 2.0
    assert adding().settings["epochs"] == 1


def test_the_number_of_threads_is_used_while_training_and_put_back():
    before = torch.get_num_threads()
    used = []
    fitted(threads=before + 1, progress=lambda step: used.append(torch.get_num_threads()))
    assert set(used) == {before + 1}
    assert torch.get_num_threads() == before


def test_the_number_of_threads_is_put_back_when_training_fails():
    before = torch.get_num_threads()
    with pytest.raises(TrainingError):
        fitted(threads=before + 1, learning_rate=1e30)
    assert torch.get_num_threads() == before


# Randomness


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_global_random_generators_are_untouched_by_fit(dropout):
    before = torch.get_rng_state(), numpy.random.get_state()[1].tolist(), random.getstate()
    fitted(encoder=lambda channels: Small(channels, dropout=dropout))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert numpy.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("targets", ["cache", "kbest", "auto"])
def test_the_same_seed_gives_the_same_weights_bit_for_bit_whatever_was_drawn_before(targets, dropout):
    settings = {
        "seed": 3,
        "targets": targets,
        "encoder": lambda channels: Small(channels, dropout=dropout),
    }
    first = weights(fitted(**settings))
    torch.rand(5)  # whoever shares the global generator
    assert same(first, weights(fitted(**settings)))


def test_another_seed_gives_other_weights():
    first, second = weights(fitted(seed=0)), weights(fitted(seed=1))
    assert all(not torch.equal(first[name], second[name]) for name in first)


def test_another_seed_trains_a_user_s_module_differently():
    """The module's own weights do not depend on the seed; batches, augmentation and episodes do."""
    encoder = built()
    assert not same(weights(fitted(encoder=encoder, seed=0)), weights(fitted(encoder=encoder, seed=1)))


# Save and load


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run with the default encoder, and its model."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    return folder, fitted(run=folder, encoder=None, seed=5, epochs=2)


@pytest.fixture
def copied(saved, tmp_path):
    """The files of that run, to be damaged."""
    for path in saved[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_a_loaded_model_predicts_the_same_bit_for_bit(saved):
    folder, model = saved
    loaded = Learner.load(folder, task=adding())
    for mine, theirs in zip(model.predict(NOISE), loaded.predict(NOISE), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(model.embed(NOISE)[0], loaded.embed(NOISE)[0])
    assert (loaded.seed, loaded.method, loaded.settings) == (5, "softpnet", model.settings)


def test_a_loaded_model_can_be_saved_and_loaded_again(saved, tmp_path):
    Learner.load(saved[0], task=adding()).save(tmp_path / "again")
    again = Learner.load(tmp_path / "again", task=adding())
    assert torch.equal(again.predict(NOISE).probabilities, saved[1].predict(NOISE).probabilities)


def test_loading_leaves_the_global_random_generator_untouched(saved):
    before = torch.get_rng_state()
    Learner.load(saved[0], task=adding())
    assert torch.equal(torch.get_rng_state(), before)


def named(stored, word):
    """The one tensor of a model file with this word in its name."""
    (name,) = [name for name in stored if word in name]
    return name


def test_the_model_file_holds_the_prototypes_and_the_anchors(saved):
    folder, model = saved
    stored = load_file(folder / "model.safetensors")
    assert torch.equal(stored[named(stored, "prototypes")], model.prototypes()[0])
    assert torch.equal(stored[named(stored, "anchors")], ANCHORS.inputs)


def test_inference_uses_the_stored_prototypes(copied, list_again):
    """Swapping two stored prototypes swaps the concepts: nothing is computed again from the anchors."""
    before = Learner.load(copied, task=adding()).predict(NOISE).probabilities
    stored = load_file(copied / "model.safetensors")
    name = named(stored, "prototypes")
    stored[name] = stored[name][[1, 0, 2]].contiguous()
    save_file(stored, copied / "model.safetensors", {"finished": "true"})
    list_again(copied)
    after = Learner.load(copied, task=adding()).predict(NOISE).probabilities
    torch.testing.assert_close(after, before[..., [1, 0, 2]])


def test_a_user_s_encoder_must_be_handed_in_again(tmp_path):
    model = fitted(run=tmp_path)
    with pytest.raises(InputError, match=r"(?s)does not fit.*Learner\.load\(folder, encoder=\.\.\.\)"):
        Learner.load(tmp_path, task=adding())
    loaded = Learner.load(tmp_path, task=adding(), encoder=built())
    assert torch.equal(loaded.predict(NOISE).probabilities, model.predict(NOISE).probabilities)


def test_a_task_built_in_python_must_be_handed_in_again(saved):
    with pytest.raises(InputError, match=r"(?s)task of your own \('adding'\).*Learner\.load\(folder, task=task\)"):
        Learner.load(saved[0])


def test_a_task_from_a_file_is_found_again_with_its_options(tmp_path):
    (tmp_path / "rule.py").write_text(
        "import softpnet\n"
        "def task(values: int = 2):\n"
        "    space = softpnet.ConceptSpace(slots=2, values=values)\n"
        "    return softpnet.Task(space=space, rule=lambda c: c[..., 0] + c[..., 1], name='from file')\n"
    )
    task = tasks.load(str(tmp_path / "rule.py"), {"values": "3"})
    settings = {"epochs": 1, "warmup_steps": 1, "episodes": 2}
    model = Learner(task, **settings).fit(IMAGES, LABELS, ANCHORS, run=tmp_path / "run")
    with pytest.raises(InputError, match=r"code is never taken from a run folder: --task FILE"):
        Learner.load(tmp_path / "run")
    loaded = Learner.load(tmp_path / "run", origin=str(tmp_path / "rule.py"))
    assert loaded.task.name == "from file" and loaded.task.space.sizes == (3, 3)
    assert torch.equal(loaded.predict(NOISE).probabilities, model.predict(NOISE).probabilities)


@pytest.mark.parametrize(
    "space",
    [
        ConceptSpace(Group([0, 1], 3, name="digit")),
        ConceptSpace(slots=2, values=4),
        ConceptSpace(slots=2, values=2),
    ],
    ids=["group name", "more values", "fewer values"],
)
def test_a_task_that_is_not_the_model_s_is_refused(saved, space):
    with pytest.raises(InputError, match="does not fit this task"):
        Learner.load(saved[0], task=adding(space=space))


@pytest.mark.parametrize("kept", [0, 4, 100, -10])
def test_a_damaged_model_file_is_refused(copied, kept, list_again):
    path = copied / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    for forged in (False, True):
        if forged:
            list_again(copied)
        with pytest.raises(InputError, match=r"(?s)model\.safetensors.*damaged"):
            Learner.load(copied, task=adding())


def test_calibration_is_kept_with_the_model(copied):
    loaded, again = (Learner.load(copied, task=adding()) for _ in range(2))
    assert loaded.calibration is not None
    assert loaded.calibration.temperatures.shape == (1,) and loaded.calibration.temperatures != 1
    again.calibration = None
    sure, raw = loaded.predict(NOISE), again.predict(NOISE)
    assert torch.equal(sure.concepts, raw.concepts)
    expected = torch.log_softmax(raw.probabilities.log() / loaded.calibration.temperatures, dim=-1).exp()
    torch.testing.assert_close(sure.probabilities, expected, atol=1e-5, rtol=1e-4)


def without_calibration(folder):
    stored = load_file(folder / "model.safetensors")
    return {name: value for name, value in stored.items() if not name.startswith("calibration.")}


def test_a_model_of_before_calibration_is_read_as_it_was_and_says_so_where_it_is_asked_for(copied, list_again):
    save_file(without_calibration(copied), copied / "model.safetensors", {"finished": "true"})
    list_again(copied)
    old = Learner.load(copied, task=adding())
    assert torch.equal(old.predict(NOISE).probabilities, old.module.log_p(NOISE).exp())
    assert "concept_ece" in old.score(IMAGES, LABELS, CONCEPTS)
    with pytest.raises(InputError, match=r"reject is 0\.05, but .* trained before calibration was kept .* train it"):
        old.predict(NOISE, reject=0.05)


@pytest.mark.parametrize(
    "temperatures, confidences",
    [([1.0, 1.0], [0.5]), ([0.0], [0.5]), ([float("nan")], [0.5]), ([1.0], [0.5, 0.6]), ([1.0], [1.5]), ([1.0], [])],
)
def test_a_calibration_that_no_training_gives_is_refused(copied, temperatures, confidences, list_again):
    forged = {"temperatures": torch.tensor(temperatures), "confidences": torch.tensor(confidences)}
    stored = without_calibration(copied) | {f"calibration.{name}": value for name, value in forged.items()}
    save_file(stored, copied / "model.safetensors", {"finished": "true"})
    list_again(copied)
    with pytest.raises(InputError, match="is damaged: its calibration is not 1 temperatures above 0"):
        Learner.load(copied, task=adding())


def test_what_is_told_of_an_example_does_not_depend_on_the_others():
    model = fitted()
    bound = float((1 - model.calibration.confidences).mean()) / 2
    whole = model.predict(NOISE, reject=bound)
    assert (whole.concepts == -1).any(), "nothing was uncertain enough for this test"
    alone = [model.predict(one[None], reject=bound) for one in NOISE]
    assert torch.equal(torch.cat([one.concepts for one in alone]), whole.concepts)
    assert torch.equal(torch.cat([one.labels for one in alone]), whole.labels)


@pytest.mark.parametrize("missing", ["anchors", "prototypes"])
def test_a_model_file_that_lacks_a_tensor_is_refused(copied, missing, list_again):
    stored = load_file(copied / "model.safetensors")
    del stored[named(stored, missing)]
    save_file(stored, copied / "model.safetensors", {"finished": "true"})
    list_again(copied)
    with pytest.raises(InputError):
        Learner.load(copied, task=adding())


@pytest.mark.parametrize("text", ["", '{"task": ', "\x00\x01", "{}", "[]", "null"])
def test_a_damaged_configuration_is_refused(copied, text, list_again):
    (copied / "config.json").write_text(text)
    for forged in (False, True):
        if forged:
            list_again(copied)
        with pytest.raises(InputError, match=r"(?s)config\.json.*damaged"):
            Learner.load(copied, task=adding())


def test_a_configuration_that_lacks_an_entry_is_refused(copied, list_again):
    config = json.loads((copied / "config.json").read_text())
    for missing in ("origin", "method", "seed", "settings", "hardware", "input_shape"):
        (copied / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != missing}))
        list_again(copied)
        with pytest.raises(InputError, match=missing):
            Learner.load(copied)


@pytest.mark.parametrize(
    "change",
    [{"input_shape": "abc"}, {"input_shape": [1, 16]}, {"origin": "abc"}, {"settings": {"task": 1}}, {"hardware": 3}],
    ids=str,
)
def test_a_forged_configuration_is_refused_with_a_sentence(copied, list_again, change):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | change))
    list_again(copied)
    with pytest.raises(InputError):
        Learner.load(copied, task=adding())


def test_a_missing_model_or_folder_is_refused(copied):
    (copied / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors is missing, .* copy, or make it again with .* --resume`"):
        Learner.load(copied, task=adding())
    with pytest.raises(InputError, match=r"there is no folder .*nowhere; `softpnet train TASK --out .*nowhere` makes"):
        Learner.load(copied / "nowhere", task=adding())
    (copied / "config.json").unlink()
    with pytest.raises(InputError, match=r"config\.json is missing, .* restore it from a copy$"):  # no run without it
        Learner.load(copied, task=adding())


# The run folder


def test_a_run_folder_holds_the_configuration_the_epochs_the_model_and_the_last_checkpoint(saved):
    folder, model = saved
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoint-000001-0002-00000000-process0.safetensors",
        "config.json",
        "epochs.jsonl",
        "manifest.sha256",
        "model.safetensors",
    ]
    config = json.loads((folder / "config.json").read_text())
    assert (config["task"], config["method"], config["seed"], config["input_shape"]) == (
        "adding",
        "softpnet",
        5,
        [1, 16, 16],
    )
    assert config["settings"]["epochs"] == 2 and config["settings"]["batch_size"] == 8
    assert set(config["settings"]) == set(Settings.__dataclass_fields__)
    assert (
        config["versions"]["torch"] == torch.__version__.split("+")[0]
        or config["versions"]["torch"] == torch.__version__
    )
    lines = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    assert lines == model.history
    assert [line["epoch"] for line in lines] == [1, 2]
    assert all({"loss_proto", "loss_kl", "gamma", "rule_weight", "seconds"} <= set(line) for line in lines)


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(copied):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    with pytest.raises(InputError, match="already holds a run; resume it, name another folder or remove it"):
        fitted(run=copied)
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_the_configuration_and_finished_epochs_are_on_disk_while_training(tmp_path):
    seen = []

    def look(step):
        epochs = tmp_path / "run" / "epochs.jsonl"
        seen.append(
            (
                (tmp_path / "run" / "config.json").exists(),
                len(epochs.read_text().splitlines()) if epochs.exists() else 0,
            )
        )

    fitted(run=tmp_path / "run", epochs=3, progress=look)  # two steps per epoch
    assert seen[-6:] == [(True, 0), (True, 1), (True, 1), (True, 2), (True, 2), (True, 3)]


def test_ctrl_c_stops_after_the_step_and_saves_what_was_learned(tmp_path):
    handler = signal.getsignal(signal.SIGINT)
    steps = []

    def press(step):
        if not step.warming_up:
            steps.append((step.epoch, step.step))
        if (step.epoch, step.step) == (1, 0):
            signal.raise_signal(signal.SIGINT)

    model = fitted(run=tmp_path, epochs=50, progress=press)
    assert model.interrupted and steps == [(0, 0), (0, 1), (1, 0)]
    assert [epoch["epoch"] for epoch in model.history] == [1]
    assert signal.getsignal(signal.SIGINT) is handler
    loaded = Learner.load(tmp_path, task=adding(), encoder=Small)
    assert torch.equal(loaded.predict(NOISE).probabilities, model.predict(NOISE).probabilities)


def test_a_second_ctrl_c_stops_at_once():
    handler = signal.getsignal(signal.SIGINT)

    def press(step):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fitted(epochs=50, progress=press)
    assert signal.getsignal(signal.SIGINT) is handler


def test_fit_works_outside_the_main_thread():
    models = []
    thread = threading.Thread(target=lambda: models.append(fitted()))
    thread.start()
    thread.join()
    assert models and models[0].history


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
def test_every_precision_of_the_cpu_trains_to_a_usable_model(precision):
    generator = torch.Generator().manual_seed(0)
    task = Task(ConceptSpace(slots=2, values=2), lambda c: c.sum(-1))
    anchors = Anchors(torch.rand(2, 1, 16, 16, generator=generator), torch.arange(2))
    inputs = torch.rand(8, 2, 1, 16, 16, generator=generator)
    model = Learner(task, precision=precision, epochs=1, warmup_steps=1, episodes=2)
    found = model.fit(inputs, torch.arange(8) % 3, anchors).predict(inputs)
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(8, 2))
    assert model.prototypes()[0].dtype == torch.float32


@pytest.mark.parametrize(
    "abilities, precision",
    [
        ({}, "32-true"),
        ({"avx512_f": True}, "32-true"),
        ({"avx512_bf16": True}, "bf16-mixed"),
        ({"amx_bf16": True}, "bf16-mixed"),
    ],
)
def test_automatic_precision_is_bfloat16_where_the_processor_multiplies_it(abilities, precision, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: abilities)
    model = Learner(Task(ConceptSpace(slots=2, values=2), lambda c: c.sum(-1)), precision="auto")
    assert model.config().hardware.precision == precision  # what a run stores is what it computes in


def test_automatic_precision_is_single_where_torch_cannot_say(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    model = Learner(Task(ConceptSpace(slots=2, values=2), lambda c: c.sum(-1)), precision="auto")
    assert model.config().hardware.precision == "32-true"


def test_a_precision_that_a_device_lacks_is_named_with_the_one_to_take():
    with pytest.raises(InputError, match="precision '16-mixed' cannot run on cpu; use 'bf16-mixed' or 'auto'"):
        fitted(precision="16-mixed")


@pytest.mark.parametrize("precision, dtype", [("32-true", torch.float32), ("64-true", torch.float64)])
@pytest.mark.parametrize("method", ["softpnet", "softpnet_no_anchor"])
def test_views_log_p_and_losses_are_in_the_run_s_precision(precision, dtype, method, generator, monkeypatch):
    seen = []
    for place, name in ((nn.functional, "grid_sample"), (torch, "log_softmax"), (torch.Tensor, "backward")):
        plain = getattr(place, name)
        spy = lambda x, *a, f=plain, **k: (torch.is_grad_enabled() and seen.append(x.dtype), f(x, *a, **k))[1]  # noqa: E731
        monkeypatch.setattr(place, name, spy)
    task = Task(ConceptSpace(slots=2, values=2), lambda c: c.sum(-1))
    anchors = Anchors(torch.rand(2, 1, 16, 16, generator=generator), torch.arange(2))
    inputs = torch.rand(8, 2, 1, 16, 16, generator=generator)
    settings = {"epochs": 1, "warmup_steps": 1, "episodes": 2, "views": True}
    Learner(task, method=method, precision=precision, **settings).fit(inputs, torch.arange(8) % 3, anchors)
    assert len(seen) >= 3 and set(seen) == {dtype}
