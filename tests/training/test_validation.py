"""Validation by labels alone, early stops, the best epoch, and which examples are trained on."""

import json

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Examples, InputError, Learner, StopTraining, Task
from softpnet.networks.reader import Reader
from softpnet.rules.scoring import scores
from softpnet.training.folder import RunFolder
from softpnet.training.order import even_order
from softpnet.training.snapshot import numbers, put_back, tensors
from softpnet.training.validation import LABEL_ACCURACY, RULE_AGREEMENT, best_epoch, is_exhausted, judged

GENERATOR = torch.Generator().manual_seed(0)
SPACE = ConceptSpace(slots=2, values=3)
CONCEPTS = torch.randint(3, (20, 2), generator=GENERATOR)
LABELS = CONCEPTS.sum(1)
IMAGES = torch.rand(20, 2, 1, 8, 8, generator=GENERATOR)
JUDGES = Examples(torch.rand(9, 2, 1, 8, 8, generator=GENERATOR), LABELS[:9])
ANCHORS = Anchors(torch.rand(3, 1, 8, 8, generator=GENERATOR), torch.arange(3))
TASK = Task(SPACE, lambda c: c.sum(-1), name="sums")
SMALL = {"epochs": 4, "batch_size": 8, "warmup_steps": 2, "copies": 1}


class Moody(nn.Sequential):
    """Statistics that training mode moves, and global randomness."""

    def __init__(self, channels):
        super().__init__(nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 8))


def learner(**settings):
    return Learner(TASK, encoder=Moody, threads=1, **(SMALL | settings))


def fit(model, labels=LABELS, **given):
    return model.fit(IMAGES, labels, ANCHORS, **given)


def same_weights(one, other):
    mine, theirs = one.module.state_dict(), other.module.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def without_seconds(records):
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


class Fixed(Reader):
    """Reads what it was made with, whatever it sees."""

    def __init__(self, log_p):
        super().__init__(SPACE, {})
        self.found = log_p

    def log_p(self, inputs):
        return self.found[: len(inputs)]


def test_label_accuracy_is_of_what_is_read_and_rule_agreement_the_mean_probability_of_the_label(uncompiled):
    log_p = torch.randn(9, 2, 3, generator=torch.Generator().manual_seed(2)).log_softmax(-1)
    found = judged(TASK, Fixed(log_p), JUDGES)
    every = SPACE.all().expand(9, -1, -1)
    fits = every.sum(-1) == JUDGES.labels[:, None]
    wanted = (scores(log_p, every).exp() * fits).sum(1).mean()
    read = log_p.argmax(-1).sum(1)
    assert found[RULE_AGREEMENT] == pytest.approx(float(wanted)) and 0 < wanted < 1
    assert found[LABEL_ACCURACY] == pytest.approx(float((read == JUDGES.labels).float().mean()))
    assert set(judged(uncompiled(TASK), Fixed(log_p), JUDGES)) == {LABEL_ACCURACY}


def test_examples_that_validate_are_in_the_history_and_change_no_bit_of_the_training():
    plain, validated, seen = fit(learner()), learner(), []
    fit(validated, validation=JUDGES, progress=seen.append)
    assert same_weights(plain, validated)
    for before, after in zip(without_seconds(plain.history), without_seconds(validated.history), strict=True):
        assert set(after) - set(before) == {LABEL_ACCURACY, RULE_AGREEMENT} and before.items() < after.items()
    shown = [step.means[LABEL_ACCURACY] for step in seen if step.epoch_done]
    assert shown == [record[LABEL_ACCURACY] for record in validated.history]
    assert validated.history[-1][LABEL_ACCURACY] == pytest.approx(validated.score(*JUDGES)["label_accuracy"])


def test_a_share_is_held_out_by_the_seed_and_not_trained_on():
    model = learner(validation=0.2)
    given = model._accepted(IMAGES, LABELS, ANCHORS)
    parts = torch.cat([given.inputs, given.validation.inputs])
    assert len(given.validation.inputs) == 4 and len(parts) == 20
    assert torch.equal(parts.flatten(1).sum(1).sort().values, IMAGES.flatten(1).sum(1).sort().values)
    again, other = (learner(validation=0.2, seed=seed)._accepted(IMAGES, LABELS, ANCHORS) for seed in (0, 1))
    assert torch.equal(given.inputs, again.inputs) and not torch.equal(given.inputs, other.inputs)
    by_hand = fit(learner(), validation=0.2)
    assert by_hand.settings == model.settings and by_hand.given_by["validation"] == "user"
    alone = learner().fit(given.inputs, given.labels, ANCHORS, validation=given.validation)
    assert same_weights(by_hand, alone) and by_hand.notes[0] == "4 examples are held out for validation, 16 train"


def test_a_share_that_is_held_out_of_one_fit_is_no_setting_of_the_next():
    model = fit(learner(patience=2), validation=0.2)
    fit(model, validation=JUDGES)  # two would be refused
    assert (model.settings.validation, model.given_by["validation"]) == (0, "default")
    with pytest.raises(InputError, match="patience is 2, but there are no validation examples"):
        fit(model)
    mine = fit(learner(validation=0.1), validation=0.3)
    assert fit(mine).notes[0] == "2 examples are held out for validation, 18 train"


def test_a_share_of_a_lazy_source_is_held_out_without_reading_it_all():
    class Slow:
        """Counts what is read of it."""

        read = 0

        def __len__(self):
            return len(IMAGES)

        def __getitem__(self, number):
            self.read += 1
            return IMAGES[number]

    source, model = Slow(), learner(validation=0.2)
    given = model._accepted(source, LABELS, ANCHORS)
    assert source.read <= 3  # the first item of each part
    whole = model._accepted(IMAGES, LABELS, ANCHORS)
    for one, other in ((given, whole), (given.validation, whole.validation)):
        assert torch.equal(one.inputs[:], other.inputs) and torch.equal(one.labels, other.labels)


def record(accuracy, agreement=0.5):
    return {LABEL_ACCURACY: accuracy, RULE_AGREEMENT: agreement}


def test_the_best_epoch_is_by_labels_and_then_by_agreement_and_the_first_of_equals():
    assert best_epoch([]) == best_epoch([{"epoch": 1}]) == 0
    assert best_epoch([record(0.5, 0.9), record(0.7), record(0.7)]) == 2
    assert best_epoch([record(0.7, 0.2), record(0.7, 0.3), record(0.6, 0.9)]) == 2
    falling = [record(0.7), record(0.6), record(0.6)]
    assert not is_exhausted(falling[:2], 2) and is_exhausted(falling, 2) and not is_exhausted(falling, 0)


@pytest.fixture
def judged_as(monkeypatch):
    """Validation that finds these accuracies, one epoch after the other; a resumed run goes on where it was."""

    def prescribe(*accuracies):
        def found(task, module, examples):
            return {LABEL_ACCURACY: accuracies[len(made)]}

        made = []
        monkeypatch.setattr("softpnet.training.validation.judged", found)
        return lambda model, state: made.append(1)  # a watch, which is called once per epoch

    return prescribe


def test_the_weights_of_the_best_epoch_are_kept(judged_as):
    seen = []
    count = judged_as(0.2, 0.9, 0.3, 0.9)

    def watch(model, state):
        count(model, state)
        seen.append(model.predict(IMAGES).probabilities)

    best = fit(learner(keep="best"), validation=JUDGES, watch=watch)
    assert torch.equal(best.predict(IMAGES).probabilities, seen[1]) and not torch.equal(seen[1], seen[3])
    assert len(best.history) == 4 and not best.interrupted


@pytest.mark.parametrize("keep", ["last", "best"])
def test_training_stops_when_its_patience_is_at_an_end(judged_as, keep):
    stopped = fit(learner(patience=2, keep=keep, epochs=9), validation=JUDGES, watch=judged_as(0.5, 0.6, 0.6, 0.6, 0.9))
    assert len(stopped.history) == 4 and not stopped.interrupted


class Crash(Exception):
    pass


@pytest.mark.parametrize("crash_at", [7, 8, 11, 14])  # before, in and after the best epoch; before the model is saved
def test_a_run_that_was_cut_off_keeps_the_best_epoch_and_stops_where_it_would_have(tmp_path, monkeypatch, crash_at):
    accuracies, scale = iter([0.5, 0.9, 0.6, 0.6, 0.9]), {}

    def by_weights(task, module, examples):
        """An epoch that is made again is judged alike."""
        key = float(sum(value.double().sum() for value in module.state_dict().values()))
        if key not in scale:
            scale[key] = next(accuracies)
        return {LABEL_ACCURACY: scale[key]}

    monkeypatch.setattr("softpnet.training.validation.judged", by_weights)
    made = []

    def crash(step):
        made.append(step)
        if len(made) == crash_at:
            raise Crash

    def run(folder, **given):
        model = learner(patience=2, keep="best", epochs=6, balanced_labels=True, validation=0.1)
        return fit(model, run=tmp_path / folder, checkpoint_steps=1, **given)

    whole = run("whole")
    with pytest.raises(Crash):
        run("cut", progress=crash)
    resumed = run("cut", resume=True)
    one, other = (RunFolder(tmp_path / name) for name in ("whole", "cut"))
    assert one.read("model.safetensors") == other.read("model.safetensors")
    assert without_seconds(whole.history) == without_seconds(resumed.history) and len(resumed.history) == 4
    config = json.loads(other.read("config.json"))
    assert config["settings"]["keep"] == "best" and config["settings"]["patience"] == 2
    assert run("cut", resume=True).history == resumed.history  # it is finished


def test_a_run_whose_patience_ended_at_its_last_checkpoint_does_not_go_on(tmp_path, judged_as):
    def lose(model):
        raise Crash

    model = learner(patience=1, epochs=6)
    model._write_weights = lose
    with pytest.raises(Crash):
        fit(model, validation=JUDGES, run=tmp_path, checkpoint_steps=1, watch=judged_as(0.5, 0.4))
    resumed = fit(learner(patience=1, epochs=6), validation=JUDGES, run=tmp_path, resume=True)
    assert len(resumed.history) == 2 and not resumed.interrupted


def test_a_forged_checkpoint_without_its_best_weights_is_refused():
    begun, fresh = (learner(keep="best", validation=0.1).prepared(IMAGES, LABELS, ANCHORS) for _ in range(2))
    next(step for step in begun.steps() if step.epoch_done)
    with pytest.raises(ValueError, match=r"it has no best\."):
        put_back(fresh, tensors(begun), numbers(begun))


@pytest.mark.parametrize("who", ["progress", "watch"])
def test_a_callback_may_end_the_training(tmp_path, who):
    def stop(*seen):
        if who == "watch" or seen[0].epoch == 1:
            raise StopTraining

    model = fit(learner(), run=tmp_path, **{who: stop})
    assert len(model.history) == 1 and not model.interrupted
    assert len(RunFolder(tmp_path).read("epochs.jsonl").splitlines()) == 1
    assert same_weights(model, Learner.load(tmp_path, task=TASK, encoder=Moody))
    assert fit(learner(), run=tmp_path, resume=True).history == model.history  # it is finished


def test_a_callback_may_end_the_training_in_the_warm_up():
    def stop(step):
        raise StopTraining

    made = []
    model = fit(learner(), progress=lambda step: made.append(step) or stop(step))
    assert len(made) == 1 and made[0].warming_up and model.history == []


def test_balanced_labels_are_equally_frequent_and_come_in_turn():
    labels = torch.tensor([5] * 17 + [3] * 2 + [4])
    orders = [even_order(labels, torch.Generator().manual_seed(seed)) for seed in range(30)]
    for order in orders:
        counts = order.bincount(minlength=20)
        assert labels[order].unique(return_counts=True)[1].sort().values.tolist() == [6, 7, 7]
        assert counts[:17].max() == 1 and abs(int(counts[17] - counts[18])) <= 1
    assert len({tuple(order.tolist()) for order in orders}) == 30
    assert len({int((labels[order] == 4).sum()) for order in orders}) == 2  # nobody always has what is left over
    vectors = torch.stack([labels, -labels], 1)
    again = even_order(vectors, torch.Generator().manual_seed(0))
    assert vectors[again].unique(dim=0, return_counts=True)[1].sort().values.tolist() == [6, 7, 7]


def test_a_rare_label_is_trained_on_as_often_as_the_others():
    labels = torch.tensor([0] + [2] * 19)
    asked = []

    model = learner(balanced_labels=True, epochs=1)
    training = model.prepared(IMAGES, labels, ANCHORS)
    loss = training.method.loss
    training.method.loss = lambda module, state, batch, *rest: (
        asked.append(batch.labels) or loss(module, state, batch, *rest)
    )
    list(training.steps())
    assert torch.cat(asked).bincount().tolist() == [10, 0, 10]


def test_infeasible_examples_are_dropped_on_demand():
    labels = LABELS.clone()
    labels[[2, 5]] = 99
    model = fit(learner(infeasible="drop"), labels)
    kept = torch.tensor([i for i in range(20) if i not in (2, 5)])
    alone = learner().fit(IMAGES[kept], LABELS[kept], ANCHORS)
    assert same_weights(model, alone)
    assert model.notes[0] == "2 of 20 examples are dropped: no assignment has their label"
    with pytest.raises(InputError, match=r"no (known )?values of the concepts give in task .*: 99 .*"):
        fit(learner(), labels)


@pytest.mark.parametrize(
    "settings, given, says",
    [
        ({}, {"validation": 1.5}, "setting validation is 1.5, expected a share, 0 to below 1"),
        ({}, {"validation": "tenth"}, "validation is str, expected a share such as 0.1, or softpnet.Examples"),
        ({}, {"validation": 0.01}, "validation is 0.01 of 20 examples, which is 0; expected at least one"),
        ({}, {"validation": 0.99}, "validation is 0.99 of 20 examples, which is 20; expected at least one"),
        ({"validation": 0.1}, {"validation": JUDGES}, "validation is given twice: as examples, and as a share of 0.1"),
        ({}, {"validation": JUDGES._replace(inputs=IMAGES[:9, :, :, :4])}, "validation set: inputs have size"),
        ({}, {"validation": JUDGES._replace(labels=LABELS)}, "validation set: there are 20 labels for 9 examples"),
        ({"patience": 3}, {}, "patience is 3, but there are no validation examples to judge epochs by"),
        ({"keep": "best"}, {}, "keep is 'best', but there are no validation examples to judge epochs by"),
        ({"infeasible": "drop"}, {"labels": LABELS + 50}, "no example is left: none of the 20 labels is given by any"),
        ({"label_noise": 0.1, "targets": "kbest"}, {}, "label_noise is 0.1, but only exact targets take wrong labels"),
        ({"label_noise": 0.1, "method": "pnet_sl"}, {}, "which method 'pnet_sl' never has; choose a method that"),
        (
            {"label_noise": 0.1, "method": "softg_k"},
            {},
            "method 'softg_k' is defined with target = 'best', which trusts",
        ),
        ({"balanced_labels": True, "method": "softg_k"}, {}, "choose another method, or set balanced_labels to False"),
        ({"balanced_labels": True, "targets": "cache"}, {}, "balanced_labels repeats examples inside a batch"),
    ],
)
def test_what_cannot_be_validated_or_chosen_is_refused_in_one_sentence(settings, given, says):
    with pytest.raises(InputError, match=says):
        fit(learner(**settings), **given)


def test_infeasible_examples_of_a_rule_that_is_not_compiled_are_not_dropped(uncompiled):
    model = Learner(uncompiled(TASK), encoder=Moody, infeasible="drop", **SMALL)
    with pytest.raises(InputError, match="infeasible='drop' needs a rule that is compiled exactly, but that of task"):
        fit(model)


def test_wrong_labels_of_a_rule_that_is_not_compiled_are_no_matter_of_targets(uncompiled):
    model = Learner(uncompiled(TASK), encoder=Moody, label_noise=0.1, **SMALL)
    with pytest.raises(InputError, match=r"need a compiled rule that knows every label, .* set label_noise to"):
        fit(model)


@pytest.mark.parametrize("name, value", [("keep", "first"), ("infeasible", "ignore"), ("patience", -1)])
def test_settings_out_of_range_are_named(name, value):
    with pytest.raises(InputError, match=f"setting {name} is {value!r}, expected"):
        learner(**{name: value})
