"""A run stays what it is: with its own rule, its own data, and all that it had when it was finished."""

import json
import shutil

import pytest
import torch

from softpnet import ConceptSpace, InputError, Learner, Rows, Task, TaskError, tasks
from softpnet.cli.evaluate import Evaluate
from softpnet.report.judge import judge
from softpnet.task.data import make_data
from softpnet.training.identity import rule_fingerprint
from softpnet.training.streams import Streams

FILE = """
import torch
from torch import nn

import softpnet

PIXEL = 0.5


def rule(c):
    return c[..., 0] + c[..., 1]


def examples(count, generator):
    concepts = torch.randint(3, (count, 2), generator=generator)
    return softpnet.Examples(torch.rand(count, 2, 1, 4, 4, generator=generator), rule(concepts), concepts)


def data(streams):
    anchors = softpnet.Anchors(torch.rand(3, 1, 4, 4, generator=streams("anchors")), torch.arange(3))
    train, test = examples(12, streams("train")), examples(8, streams("test"))
    train.inputs[0, 0, 0, 0, 0] = PIXEL
    return softpnet.Data(train, anchors, {"test": test})


def encoder(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(16 * channels, 4))


space = softpnet.ConceptSpace(slots=2, values=3)
small = {'epochs': 2, 'warmup_steps': 1, 'episodes': 2, 'batch_size': 6}
task = softpnet.Task(space, rule, name="kept", data=data, encoder=encoder, settings=small)
"""
CHANGED = {
    "rule": ("c[..., 0] + c[..., 1]", "c[..., 0] + 2 * c[..., 1]"),
    "test sets": ("examples(8", "examples(7"),
    "training data": ("PIXEL = 0.5", "PIXEL = 0.25"),
    "nothing": ("import torch", "import torch  # as before"),
}


def train(home, judged=True, resume=False, method="softpnet"):
    """What `softpnet train rule.py --out run` does, without pictures."""
    task = tasks.load(str(home / "rule.py"))
    made = make_data(task, Streams(0))
    model = Learner(task, method=method, threads=1)
    model.fit(*made.train[:2], made.anchors, concepts=made.train.concepts, run=home / "run", resume=resume)
    if judged:
        judge(model, made, home / "run", pictures=False)
    return model


def edit(home, old, new):
    (home / "rule.py").write_text(FILE.replace(old, new))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    home = tmp_path_factory.mktemp("finished")
    (home / "rule.py").write_text(FILE)
    train(home)
    return home


@pytest.fixture
def home(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "home")


def evaluate(home, **options):
    return Evaluate(home / "run", task=str(home / "rule.py"), **options).run()


# Its rule


def test_a_run_says_how_its_rule_was_compiled(home):
    assert json.loads((home / "run/config.json").read_text())["compiled"] == {"how": "exact", "nodes": 4, "width": 3}


def test_a_run_that_did_not_ask_for_a_compiled_rule_says_nothing_of_one(tmp_path):
    (tmp_path / "rule.py").write_text(FILE)
    train(tmp_path, judged=False, method="supervised")
    assert json.loads((tmp_path / "run/config.json").read_text())["compiled"] is None


def test_a_run_is_not_resumed_with_a_rule_that_is_compiled_otherwise(home, monkeypatch):
    for name in ("model.safetensors", "metrics.json"):
        (home / "run" / name).unlink()
    monkeypatch.setattr("softpnet.rules.merge.BUDGET", 3)
    before = contents(home / "run")
    words = r"compiled rule was exact, 4 nodes, at most 3 in a layer, is not compiled; resume it as it was begun"
    with pytest.raises(InputError, match=words):
        train(home, resume=True)
    assert contents(home / "run") == before


def test_a_run_is_not_evaluated_with_another_rule(home):
    edit(home, *CHANGED["rule"])
    before = contents(home / "run")
    with pytest.raises(InputError, match="was trained with another rule or concept space than 'kept' has now"):
        evaluate(home, other_data=True)
    assert contents(home / "run") == before


def adding(rule=lambda c: c.sum(-1), slots=2, **more):
    return Task(ConceptSpace(slots=slots, values=3), rule, **more)


@pytest.mark.parametrize(
    "other", [adding(lambda c: c.prod(-1)), adding(slots=3), adding(lambda c: c)], ids=["product", "slots", "vector"]
)
@pytest.mark.parametrize("saved", [True, False])
def test_a_model_is_not_loaded_with_another_rule(home, other, saved):
    folder = home / "run"
    encoder = tasks.load(str(home / "rule.py")).encoder
    if saved:
        Learner.load(folder, task=adding(), encoder=encoder).save(home / "saved")
        folder = home / "saved"
    assert Learner.load(folder, task=adding(), encoder=encoder).task.space.k == 2
    with pytest.raises(InputError, match=r"another rule.*or apply another rule to what predict\(...\)\.concepts reads"):
        Learner.load(folder, task=other, encoder=encoder)


def test_a_rule_that_cannot_be_compared_is_refused_when_a_model_is_loaded(home):
    with pytest.raises(TaskError, match="the rule of task"):
        Learner.load(home / "run", task=adding(lambda c: c.sum(-1) / 2))


def test_a_task_file_that_changed_without_its_rule_is_warned_of(home):
    edit(home, *CHANGED["nothing"])
    with pytest.warns(UserWarning, match="the task's file has changed since .* its rule is still the same"):
        evaluate(home)


def test_rules_that_differ_only_in_labels_too_rare_to_be_met_by_chance_are_told_apart_by_the_rows():
    def task(diagonal):
        def rule(c):
            same = (c == c[..., :1]).all(-1)
            return (same & (c[..., 0] < 9 if diagonal else same)).long()

        rows = torch.arange(10)[:, None].expand(10, 12)
        return Task(
            ConceptSpace(slots=12, values=10), rule, rows=lambda generator: Rows(rows, complete=torch.empty(0).long())
        )

    assert rule_fingerprint(task(False)) == rule_fingerprint(task(False)) != rule_fingerprint(task(True))


def test_the_rows_that_a_rule_is_compared_on_do_not_shift_the_global_random_numbers():
    def rows(generator):
        torch.rand(3)
        return Rows(torch.zeros(1, 12, dtype=torch.int64), complete=torch.empty(0).long())

    task = Task(ConceptSpace(slots=12, values=10), lambda c: (c == 0).all(-1).long(), rows=rows)
    before = torch.get_rng_state()
    rule_fingerprint(task)
    assert torch.equal(torch.get_rng_state(), before)


# Its data


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("change", ["test sets", "training data"])
@pytest.mark.filterwarnings("ignore:the task's file has changed")
def test_a_run_is_evaluated_on_other_data_only_if_asked_to_and_says_so(home, capsys, change, judged):
    if not judged:
        (home / "run/metrics.json").unlink()
    edit(home, *CHANGED[change])
    before = contents(home / "run")
    if judged or change == "training data":  # without metrics.json the run does not know its test sets
        with pytest.raises(InputError, match=r"was made with other data than task 'kept' makes now.*--other-data"):
            evaluate(home)
        assert evaluate(home, other_data=True) == 0
        assert "judged on other data than the run was made with" in capsys.readouterr().out
    assert contents(home / "run") == before


@pytest.mark.parametrize("method", ["softpnet", "supervised"])
@pytest.mark.parametrize("judged", [True, False])
def test_a_run_is_evaluated_on_its_own_data_without_a_word(tmp_path, capsys, judged, method):
    (tmp_path / "rule.py").write_text(FILE)
    train(tmp_path, judged, method=method)
    assert evaluate(tmp_path) == evaluate(tmp_path, other_data=True) == 0
    assert "other data" not in capsys.readouterr().out


def test_a_saved_model_is_evaluated_on_whatever_its_task_makes(home):
    model = Learner.load(home / "run", origin=str(home / "rule.py"))
    model.save(home / "saved")
    assert json.loads((home / "saved/config.json").read_text())["data"] is None
    assert Evaluate(home / "saved", task=str(home / "rule.py")).run() == 0


@pytest.mark.filterwarnings("ignore:.*the task's file has changed")
def test_a_finished_run_is_not_judged_again_on_other_test_sets(home):
    edit(home, *CHANGED["test sets"])
    before = contents(home / "run")
    with pytest.raises(InputError, match=r"was judged on other data than task 'kept' makes now, .*--other-data"):
        train(home, resume=True)
    assert contents(home / "run") == before


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"model_sha256": 1}', "x"])
def test_metrics_that_are_none_are_refused(home, list_again, text):
    (home / "run/metrics.json").write_text(text)
    list_again(home / "run")
    for use in (evaluate, lambda home: train(home, resume=True)):
        with pytest.raises(InputError, match=r"metrics\.json is damaged"):
            use(home)


# What it had when it was finished


def test_a_finished_run_keeps_its_metrics_where_its_epochs_were_removed(home):
    before = contents(home / "run")
    (home / "run/epochs.jsonl").rename(home / "epochs")
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"epochs\.jsonl was removed, and with it the history of the run"):
            model = train(home, resume=True)
        assert model.history == [] and not model.interrupted
        assert contents(home / "run") == {name: data for name, data in before.items() if name != "epochs.jsonl"}
    (home / "epochs").rename(home / "run/epochs.jsonl")
    assert len(train(home, resume=True).history) == 2
    assert contents(home / "run") == before


def test_a_model_whose_epochs_were_removed_can_be_loaded_and_evaluated(home):
    (home / "run/epochs.jsonl").unlink()
    with pytest.warns(UserWarning, match="the history of the run"):
        assert Learner.load(home / "run", origin=str(home / "rule.py")).history == []
    with pytest.warns(UserWarning, match="the history of the run"):
        assert evaluate(home) == 0


@pytest.mark.filterwarnings("ignore:.*the history of the run")
def test_a_finished_run_without_epochs_and_metrics_is_judged_again_as_finished(home):
    before = json.loads((home / "run/metrics.json").read_text())
    for name in ("epochs.jsonl", "metrics.json"):
        (home / "run" / name).unlink()
    with pytest.warns(UserWarning, match=r"metrics\.json was removed"):
        train(home, resume=True)
    assert json.loads((home / "run/metrics.json").read_text()) == before | {"seconds_per_epoch": None}


@pytest.mark.parametrize("removed", [["metrics.json"], ["model.safetensors"], ["model.safetensors", "epochs.jsonl"]])
def test_what_can_be_made_again_of_a_finished_run_is_the_same_again(home, removed):
    before = contents(home / "run")
    for name in removed:
        (home / "run" / name).unlink()
    with pytest.warns(UserWarning, match=f"{removed[0]}.* was removed from .*; the run goes on without"):
        train(home, resume=True)
    after = contents(home / "run")
    assert after.keys() == before.keys() and after["model.safetensors"] == before["model.safetensors"]
    metrics = [json.loads(each["metrics.json"]) | {"seconds_per_epoch": None} for each in (before, after)]
    assert metrics[0] == metrics[1]


@pytest.mark.parametrize("removed", ["config.json", "manifest.sha256"])
def test_a_finished_run_without_its_configuration_or_manifest_is_refused_and_left_as_it_is(home, removed):
    (home / "run" / removed).unlink()
    before = contents(home / "run")
    with pytest.raises(InputError, match=removed):
        train(home, resume=True)
    assert contents(home / "run") == before


def test_epochs_that_were_removed_come_back_from_the_last_checkpoint(tmp_path):
    """All epochs are done and in a checkpoint, but the model is not written yet when the process ends."""

    (tmp_path / "rule.py").write_text(FILE)
    task = tasks.load(str(tmp_path / "rule.py"))
    made = make_data(task, Streams(0))

    def fit(**more):
        given = dict(run=tmp_path / "run", checkpoint_steps=1, **more)
        return Learner(task, threads=1).fit(*made.train[:2], made.anchors, **given)

    fit()
    (tmp_path / "run/model.safetensors").unlink()
    epochs = (tmp_path / "run/epochs.jsonl").read_bytes()
    (tmp_path / "run/epochs.jsonl").unlink()
    with pytest.warns(UserWarning, match="was removed"):
        assert len(fit(resume=True).history) == 2
    assert (tmp_path / "run/epochs.jsonl").read_bytes() == epochs


@pytest.mark.parametrize(
    "lines",
    [
        "1",
        "{}",
        '{"epoch": 2, "seconds": 1.0}',
        '{"epoch": 1, "seconds": 1e999}',
        '{"epoch": 1, "seconds": "x"}',
        '{"epoch": 1, "seconds": 1.0, "loss": []}',
    ],
)
def test_epochs_that_are_none_are_refused(home, list_again, lines):
    (home / "run/epochs.jsonl").write_text(lines + "\n")
    list_again(home / "run")
    with pytest.raises(InputError, match=r"epochs\.jsonl is damaged"):
        Learner.load(home / "run", origin=str(home / "rule.py"))


def test_a_finished_run_answers_before_anything_is_built(tmp_path, monkeypatch):
    (tmp_path / "rule.py").write_text(FILE)
    train(tmp_path)
    monkeypatch.setattr(Learner, "_built", lambda *_: pytest.fail("a training was built"))
    train(tmp_path, resume=True)
