"""A search for settings: trials are what they say, and a study survives whatever happens to those who work on it."""

import contextlib
import dataclasses
import re
from pathlib import Path

import pytest
import torch

from softpnet import Learner, tasks
from softpnet.errors import InputError, StorageError, TaskError, TrainingError
from softpnet.experiments.rows import Row
from softpnet.experiments.tuning import space, study, trial
from softpnet.experiments.tuning.outcome import best_of
from softpnet.experiments.tuning.plan import make_plan
from softpnet.experiments.tuning.space import read_space
from softpnet.experiments.tuning.study import JOURNAL, Study
from softpnet.experiments.tuning.work import work
from softpnet.report import tuning
from softpnet.report.summary import Summary
from softpnet.task.settings import Settings
from softpnet.training.lock import InUseError
from softpnet.training.processes import checked_device
from softpnet.training.split import held_out
from softpnet.training.streams import Streams

PAGE = Path(__file__).parents[2] / "docs/tuning.md"
COUNT = 9
DOUBLE = {"precision": "64-true"}
"""In which no machine's rounding turns what is pruned, or best."""


@pytest.fixture(scope="module")
def signals(tmp_path_factory):
    """The task of the page."""
    path = tmp_path_factory.mktemp("task") / "signals.py"
    path.write_text(re.search(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[1])
    return str(path)


@pytest.fixture(scope="module")
def plan(signals):
    return make_plan(Row("default", "default settings", signals), 0, "label_accuracy", {}, DOUBLE)


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """The study of the page, by one process that nothing happens to."""
    made = Study(plan, tmp_path_factory.mktemp("whole"))
    assert [each.number for each in work(made, COUNT)] == list(range(COUNT))
    return made


def test_the_page_shows_the_study(plan, whole):
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().partition("<!-- begin")[2].partition("<!-- end")[0].splitlines()
        if line.startswith("|")
    ]
    table = tuning.trial_table(plan, whole.trials())
    assert shown[0] == table.head and len(shown) == COUNT + 2
    assert shown[2:] == table.rows
    command = plan.command(best_of(whole.trials())).replace(plan.row.task, "signals.py")
    assert command in " ".join(PAGE.read_text().replace("\\\n", " ").split())


def test_the_first_trial_is_the_default(plan, whole):
    first = whole.trials()[0]
    default = Learner(plan.task).settings
    assert first.values == {"learning_rate": default.learning_rate, "batch_size": default.batch_size}
    line = tuning.trial_table(plan, whole.trials()).rows[0]
    assert line[0] == "0, default" and line[4] == ""


def test_a_trial_below_the_median_is_ended_early_and_shown_as_pruned(plan, whole):
    pruned = [each for each in whole.trials() if each.state == "pruned"]
    assert pruned and all(each.number > study.PATIENT_TRIALS - 1 for each in pruned)
    for each in pruned:
        epoch = each.pruned_after
        assert study.PATIENT_EPOCHS < epoch < plan.settings.epochs
        assert sorted(each.epochs) == list(range(epoch))
        line = tuning.trial_table(plan, whole.trials()).rows[each.number]
        assert line[-1] == f"pruned after epoch {epoch}"


def test_a_study_that_is_cut_off_again_and_again_ends_as_one_that_is_not(plan, whole, tmp_path, monkeypatch):
    """Whoever works on it is gone at once: while values are drawn, between two epochs, and before the outcome is
    told. Of the trials, the first ones, and the last one, which is pruned."""
    left = {("drawn", 3), ("epoch", 1), ("told", 2), ("drawn", 8), ("epoch", 8), ("told", 8)}
    lines = (whole.folder / JOURNAL).read_bytes().splitlines(keepends=True)
    last = [at for at, line in enumerate(lines) if line.startswith(b'{"op_code":4,')][COUNT - 1]  # which makes a trial
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / JOURNAL).write_bytes(b"".join(lines[:last]))

    def deadly(owner, name, where, number_of):
        before = getattr(owner, name)

        def die_once(*given, **named):
            at = (where, number_of(*given))
            if at in left and (where != "drawn" or given[0].name == "batch_size"):
                left.remove(at)
                raise SystemExit(at)
            return before(*given, **named)

        monkeypatch.setattr(owner, name, die_once)

    deadly(space.Searched, "drawn", "drawn", lambda searched, asking: asking.number)
    deadly(trial.Watcher, "progress", "epoch", lambda watcher, step: watcher.trial.number if step.epoch == 1 else None)
    first, later = (Study(plan, tmp_path / name) for name in ("first", "later"))
    deadly(type(later.inner), "tell", "told", lambda inner, number, *_: number)
    for made, count in ((first, 4), (later, COUNT)):
        deaths = 0
        while deaths < 4:
            try:
                assert [each.number for each in work(Study(plan, made.folder), count)][-1:] == [count - 1]
                break
            except SystemExit:
                deaths += 1
        assert deaths == 3 and made.trials() == whole.trials()[:count]
        assert not list((made.folder / study.TRIALS).iterdir())


def test_no_two_processes_have_one_trial_and_none_is_too_many(plan, tmp_path):
    one, two = Study(plan, tmp_path), Study(plan, tmp_path)
    with one.next_trial(2) as first, two.next_trial(2) as second, one.next_trial(2) as third:
        assert (first.number, second.number, third) == (0, 1, None)
    # Both were left unfinished: they are taken up, and no new one is made.
    with two.next_trial(2) as first, one.next_trial(2) as second, two.next_trial(2) as third:
        assert (first.number, second.number, third) == (0, 1, None)
    assert len(one.trials()) == 2


def test_a_finished_study_has_nothing_left_to_do_and_may_be_made_longer(plan, whole):
    assert list(work(whole, COUNT)) == list(work(whole, 1)) == []
    assert len(whole.trials()) == COUNT


def test_the_folder_of_a_trial_that_was_told_and_not_cleared_away_is_cleared(plan, tmp_path):
    made = Study(plan, tmp_path)
    list(work(made, 1))
    made.run_folder(0).mkdir()
    assert list(work(made, 1)) == [] and not made.run_folder(0).exists()


def test_a_default_that_is_not_searched_is_tried_all_the_same(signals, whole, tmp_path):
    away = make_plan(Row("default", "", signals), 0, "label_accuracy", {"learning_rate": "1e-2..1e-1"}, DOUBLE)
    made = Study(away, tmp_path)
    list(work(made, 1))
    assert made.trials()[0].values == {} and made.trials()[0].value == whole.trials()[0].value
    assert tuning.trial_table(away, made.trials()).rows[0][1] == "0.001"


def test_a_trial_that_cannot_be_trained_fails_alone_and_says_why(plan, tmp_path, monkeypatch):
    made = Study(plan, tmp_path)

    def diverging(self, asked, folder):
        if asked.number == 1:
            raise TrainingError("the loss is nan")
        return 0.5

    monkeypatch.setattr(trial.Subject, "run", diverging)
    assert [each.state for each in work(made, 3)] == ["complete", "failed", "complete"]
    table = tuning.trial_table(plan, made.trials())
    assert table.rows[1][-1] == "failed the loss is nan" and table.rows[1][3] == ""


def test_whatever_a_users_code_raises_fails_its_trial_alone_and_says_where(plan, tmp_path, monkeypatch):
    """An encoder that takes batches of 16 examples, each of two inputs and beside the anchors, but none of 64."""

    class Small(torch.nn.Linear):
        def forward(self, given):
            if self.training and len(given) > 64:
                raise RuntimeError("too many\nat once")
            return super().forward(given)

    def refused(self, asked, folder):
        raise TaskError("the rule is undefined there")

    task = dataclasses.replace(plan.task, encoder=lambda channels: Small(4, 8))
    made = Study(dataclasses.replace(plan, task=task), tmp_path)
    trials = list(work(made, 3))
    assert [(each.values["batch_size"], each.state) for each in trials] == [
        (64, "failed"),
        (64, "failed"),
        (16, "complete"),
    ]
    assert trials[0].error.startswith("test_tuning.py, line ")
    assert trials[0].error.endswith("in forward, raised RuntimeError: too many at once")
    monkeypatch.setattr(trial.Subject, "run", refused)
    (last,) = work(made, 4)
    assert (last.state, last.error) == ("failed", "the rule is undefined there")


@pytest.mark.parametrize("error", [InUseError(Path("run"), "process 7"), StorageError("the disk is full")])
def test_what_is_the_folders_fault_leaves_the_trial_to_be_made_later(plan, tmp_path, monkeypatch, error):
    def raising(*_):
        raise error

    made = Study(plan, tmp_path)
    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(trial.Subject, "run", raising)
        list(work(made, 1))
    assert [each.state for each in made.trials()] == ["under way"]
    assert [each.state for each in work(made, 1)] == ["complete"]


@pytest.mark.parametrize(
    "chosen, hardware, sentence",
    [
        ({}, {"device": "cuda:63"}, "device 'cuda:63' is not available here"),
        ({"encoder": "nonsense"}, {}, "nonsense"),
        ({"settings": {"validation": 0.001}}, {}, "validation is 0.001 of 400 examples, which is 0; expected at least"),
        ({"settings": {"targets": "nonsense"}}, {}, "nonsense"),
    ],
)
def test_what_every_trial_would_fail_with_is_raised_and_nothing_is_written(
    signals, tmp_path, chosen, hardware, sentence
):
    made = Study(
        make_plan(Row("default", "", signals, **chosen), 0, "label_accuracy", {}, hardware), tmp_path / "study"
    )
    with pytest.raises(InputError, match=sentence):
        list(work(made, 2))
    assert not made.folder.exists()


def test_a_default_that_alone_cannot_be_trained_is_a_trial_that_failed(signals, tmp_path, monkeypatch):
    """As where all is searched that fits into memory, and the default does not."""
    prepared = Learner.prepared

    def too_large(self, *given):
        if self.settings.batch_size == 64:
            raise InputError("a batch of 64 does not fit")
        return prepared(self, *given)

    monkeypatch.setattr(Learner, "prepared", too_large)
    subject = trial.Subject(make_plan(Row("default", "", signals), 0, "label_accuracy", {"batch_size": "8,16"}))
    assert subject.judges is None
    with pytest.raises(InputError, match="a batch of 64 does not fit"):
        trial.Subject(make_plan(Row("default", "", signals), 0, "label_accuracy", {"batch_size": "64,128"}))


def test_a_finished_study_needs_neither_device_nor_data(signals, plan, whole, monkeypatch):
    monkeypatch.setattr(trial.Subject, "__init__", lambda *_: pytest.fail("the data was made"))
    assert list(work(whole, COUNT)) == []


def test_a_study_without_trials_is_replaced(signals, plan, tmp_path):
    other = make_plan(Row("default", "", signals), 0, "rule_agreement", {})
    begun = Study(plan, tmp_path)
    begun.inner = begun._opened()
    begun.inner.set_user_attr("plan", plan.identity())  # as studies had it before their first trial
    late = Study(plan, tmp_path)
    with Study(other, tmp_path).next_trial(1):
        pass
    for refused in (lambda: late.next_trial(1).__enter__(), lambda: Study(plan, tmp_path)):
        with pytest.raises(InputError, match="holds another study: its metric was rule_agreement, is label_accuracy"):
            refused()


def test_a_trial_that_ends_while_it_is_looked_at_is_not_made_again(plan, tmp_path, monkeypatch):
    one, two = Study(plan, tmp_path), Study(plan, tmp_path)
    with one.next_trial(2):
        pass  # left under way
    taken = study.hold

    def ended_before(folder, name, wait=False):
        if name == "0000.lock":
            one.tell(0, 0.5)
        return taken(folder, name, wait)

    monkeypatch.setattr(study, "hold", ended_before)
    with two.next_trial(2) as found:
        assert found.number == 1


def test_the_command_of_a_trial_names_the_hardware_that_made_it(signals, tmp_path):
    there, here = (
        make_plan(Row("default", "", signals), 0, "label_accuracy", {}, {"threads": threads, "device": "auto"})
        for threads in (2, 1)
    )
    list(work(Study(there, tmp_path), 1))
    (made,) = Study(here, tmp_path).trials()
    device = checked_device("auto").type
    assert here.command(made).endswith(f"--threads 2 --device {device}")
    # A study that did not note it.
    assert here.command(dataclasses.replace(made, hardware=None)).endswith(f"--threads 1 --device {device}")


def test_a_study_from_before_plans_named_the_precision_was_made_in_single(signals, tmp_path):
    single, double = (make_plan(Row("default", "", signals), 0, "label_accuracy", {}, each) for each in ({}, DOUBLE))
    made = Study(single, tmp_path)
    list(work(made, 1))
    before = {name: value for name, value in single.identity().items() if name != "precision"}
    made.inner.set_user_attr("plan", before)
    assert len(Study(single, tmp_path).trials()) == 1
    with pytest.raises(InputError, match="its precision was 32-true, is 64-true"):
        Study(double, tmp_path)


@pytest.mark.parametrize("metric", ["rule_agreement", "concept_accuracy"])
def test_a_trial_is_judged_by_the_metric_that_was_asked_for(signals, tmp_path, metric):
    asked = make_plan(Row("default", "", signals, settings={"epochs": 1, "validation": 0.25}), 3, metric, {})
    made = Study(asked, tmp_path)
    list(work(made, 1))
    task = tasks.load(signals)
    data = task.data(Streams(3))
    model = Learner(task, seed=3, epochs=1, validation=0.25, threads=1)
    model.fit(data.train.inputs, data.train.labels, data.anchors)
    if metric == "concept_accuracy":
        expected = model.score(*held_out(data.train, 0.25, 3)[1])[metric]
    else:
        expected = model.history[-1][f"validation_{metric}"]
    assert made.trials()[0].value == expected
    assert tuning.judged_by(asked) == f"validation {metric.replace('_', ' ')}"


def test_where_the_best_epoch_is_kept_its_metric_counts(signals, tmp_path):
    chosen = {"keep": "best", "learning_rate": 0.5, "epochs": 4}
    made = Study(make_plan(Row("default", "", signals, settings=chosen), 0, "label_accuracy", {}, DOUBLE), tmp_path)
    list(work(made, 1))
    (only,) = made.trials()
    assert only.value == max(only.epochs.values()) > only.epochs[0]


def test_the_picture_is_the_same_for_the_same_study(plan, whole, tmp_path):
    for name in ("one.png", "two.png"):
        tuning.trial_picture(tmp_path / name, plan, whole.trials())
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    drawn = (tmp_path / "one.svg").read_text()
    for word in ("signals: validation label accuracy, %", "best so far", "default", "pruned", *plan.space):
        assert f"<!-- {word} -->" in drawn


def test_of_equal_trials_the_first_is_best(whole):
    trials = [dataclasses.replace(each, value=0.5) for each in whole.trials() if each.state == "complete"]
    assert best_of(trials[::-1]).number == 0
    assert best_of([]) is None


def test_after_ten_trials_what_is_drawn_depends_on_what_was_found_however_often_the_study_is_opened(
    plan, tmp_path, monkeypatch
):
    """Optuna's TPE draws its first ten trials at random."""

    def made(name, found, opened_anew=False):
        monkeypatch.setattr(trial.Subject, "run", lambda self, asked, folder: found(asked.params["learning_rate"]))
        monkeypatch.setattr(trial.Subject, "__init__", lambda self, plan: None)
        for count in range(1 if opened_anew else 15, 16):
            list(work(Study(plan, tmp_path / name), count))
        return [each.values for each in Study(plan, tmp_path / name).trials()]

    high = made("high", lambda rate: rate)
    assert made("anew", lambda rate: rate, opened_anew=True) == high
    low = made("low", lambda rate: -rate)
    assert low[:10] == high[:10] and low[12] != high[12]
    assert max(each["learning_rate"] for each in low[11:]) < min(each["learning_rate"] for each in high[11:])


@pytest.mark.parametrize("gains, said", [((1.0, 1.5, 2.0), "leaves out zero"), ((-1.0, 1.0, 2.0), "holds zero")])
def test_the_verdict_says_whether_chance_may_have_made_the_difference(gains, said):
    row = Row("default", "", "signals")
    default = Summary(row, [1, 2, 3], {"label_accuracy": [50.0, 50.0, 50.0]}, [])
    best = Summary(row, [1, 2, 3], {"label_accuracy": [50.0 + gain for gain in gains]}, [])
    (sentence,) = tuning.verdict([best, default])
    assert sentence.endswith(f"which {said})") and f"{sum(gains) / 3:+.2f} points over the default" in sentence


def test_ranges_and_lists_are_read_as_the_setting_is():
    found = read_space(
        {"learning_rate": "1e-4..1e-2", "rule_weight": "0.5..5", "rule_delay": "0..5", "batch_size": "16, 32"}
        | {"warmup_steps": "10..1000", "scaled": "true,false", "target": "soft,best"}
    )
    assert {name: (each.values, each.is_range, each.is_log) for name, each in found.items()} == {
        "learning_rate": ((1e-4, 1e-2), True, True),
        "rule_weight": ((0.5, 5.0), True, False),
        "rule_delay": ((0, 5), True, False),
        "batch_size": ((16, 32), False, False),
        "warmup_steps": ((10, 1000), True, True),
        "scaled": ((True, False), False, False),
        "target": ((("soft", "best")), False, False),
    }


def test_every_kind_is_drawn_within_its_bounds(signals, tmp_path):
    over = {"learning_rate": "1e-4..1e-2", "rule_weight": "0.5..5", "rule_delay": "1..4", "warmup_steps": "1..1000"}
    over |= {"scaled": "true,false", "target": "soft,best"}
    made = Study(make_plan(Row("default", "", signals), 0, "label_accuracy", over), tmp_path)
    with contextlib.ExitStack() as stack:
        drawn = [stack.enter_context(made.next_trial(30)).params for _ in range(30)][1:]
    for name, each in made.plan.space.items():
        values = [params[name] for params in drawn]
        assert all(each.holds(value) and type(value) is type(each.values[0]) for value in values)
        assert len(set(values)) == (2 if not each.is_range else 4 if name == "rule_delay" else len(set(values)))
    # By factors, half of them are below the middle of 1e-4 and 1e-2 on that scale, 1e-3; evenly, nine of ten are above.
    assert sum(params["learning_rate"] < 1e-3 for params in drawn) >= 8


@pytest.mark.parametrize(
    "over, sentence",
    [
        ({"learning_rat": "1..2"}, "unknown setting 'learning_rat' to search; the valid ones are epochs, batch_size"),
        ({"learning_rate": "1e-2..1e-4"}, "searched over '1e-2..1e-4', expected the lower end first: LOW..HIGH"),
        ({"learning_rate": "1e-2..1e-2"}, "expected the lower end first"),
        ({"learning_rate": "1e-2.."}, r"'1e-2\.\.', expected LOW\.\.HIGH, as in 1e-4\.\.1e-2, or several values"),
        ({"learning_rate": ""}, "setting learning_rate is to be searched over '', expected LOW"),
        ({"learning_rate": "1e-2"}, "over '1e-2', expected LOW"),
        ({"learning_rate": "0..1"}, "setting learning_rate is 0.0, expected above 0"),
        ({"learning_rate": "fast,slow"}, "setting learning_rate is 'fast', expected a number"),
        ({"batch_size": "1.5..3"}, "setting batch_size is '1.5', expected a whole number"),
        ({"batch_size": "8,8"}, "which names a value twice; leave one out"),
        ({"target": "best..soft"}, "but it is no number; list values: a,b"),
        ({"keep": "last,first"}, "setting keep is 'first', expected one of 'last', 'best'"),
        ({"validation": "0.1,0.2"}, "validation cannot be searched, since trials are compared on it"),
        ({"epochs": "1,2"}, "setting epochs is both given and searched over '1,2'; leave one out"),
        ({"prototypes": "mean,learned"}, "prototypes cannot be searched, since method 'paper_like' is defined by it"),
    ],
)
def test_a_space_that_cannot_be_searched_is_named(signals, monkeypatch, over, sentence):
    from softpnet import methods

    fixed = type("Method", (methods.find("softpnet"),), {"fixed": {"prototypes": "mean"}})
    monkeypatch.setattr(methods, "find", lambda name: fixed)
    with pytest.raises(InputError, match=sentence):
        make_plan(Row("default", "", signals, "paper_like", settings={"epochs": 1}), 0, "label_accuracy", over)


def test_what_a_task_says_to_search_is_checked_too(signals, monkeypatch):
    task = dataclasses.replace(tasks.load(signals), search=["learning_rate"])
    monkeypatch.setattr(tasks, "load", lambda *_: task)
    with pytest.raises(InputError, match=r"says to search is \['learning_rate'\], expected ranges by the name"):
        make_plan(Row("default", "", signals), 0, "label_accuracy", {})


def test_where_nobody_names_a_space_there_is_one_that_a_method_can_follow(signals, monkeypatch):
    task = dataclasses.replace(tasks.load(signals), search={})
    monkeypatch.setattr(tasks, "load", lambda *_: task)
    found = make_plan(Row("default", "", signals, settings={"batch_size": 8}), 0, "label_accuracy", {}).space
    assert list(found) == [name for name in space.DEFAULT if name != "batch_size"]
    read_space(space.DEFAULT)
    assert all(each.holds(getattr(Settings(), name)) for name, each in found.items())


def test_a_search_of_nothing_is_refused(signals):
    given = {"learning_rate": 0.1, "batch_size": 8}
    with pytest.raises(InputError, match="nothing is left to search, since all of it is given or fixed; name settings"):
        make_plan(Row("default", "", signals, settings=given), 0, "label_accuracy", {})


def test_a_metric_that_cannot_be_had_is_refused(signals, uncompiled, monkeypatch):
    task = tasks.load(signals)
    monkeypatch.setattr(tasks, "load", lambda *_: uncompiled(task))
    with pytest.raises(
        InputError, match=r"rule_agreement needs a rule that is compiled exactly.*choose label_accuracy"
    ):
        make_plan(Row("default", "", signals), 0, "rule_agreement", {})
    blind = dataclasses.replace(
        task, data=lambda streams: (made := task.data(streams))._replace(train=made.train._replace(concepts=None))
    )
    monkeypatch.setattr(tasks, "load", lambda *_: blind)
    with pytest.raises(InputError, match="concept_accuracy needs the concepts of training examples, which task 'signa"):
        trial.Subject(make_plan(Row("default", "", signals), 0, "concept_accuracy", {}))
    with pytest.raises(InputError, match="validation is 0, but trials are judged by what is held out"):
        make_plan(Row("default", "", signals, settings={"validation": 0.0}), 0, "label_accuracy", {})
    with pytest.raises(InputError, match="--processes is 2, but a trial is trained by one; --jobs trains several"):
        make_plan(Row("default", "", signals), 0, "label_accuracy", {}, {"processes": 2})
    started = {"STEP_ID": "0", "NTASKS": "4", "NTASKS_PER_NODE": "2", "PROCID": "0", "JOB_NAME": "search"}
    for name, value in started.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    with pytest.raises(InputError, match="4 processes were started to train together, but a trial is trained by one"):
        make_plan(Row("default", "", signals), 0, "label_accuracy", {})


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"over": {"learning_rate": "1e-3..1e-2"}}, r"in its space learning_rate was 1e-4\.\.1e-1, is 1e-3\.\.1e-2"),
        ({"seed": 1}, "its seed was 0, is 1"),
        ({"metric": "rule_agreement"}, "its metric was label_accuracy, is rule_agreement"),
        ({"settings": {"epochs": 2}}, "in its settings epochs was 3, is 2"),
        ({"method": "pnet_sl"}, "its method was softpnet, is pnet_sl"),
        ({"task": "mnist_evenodd"}, "its task was signals, is mnist_evenodd"),
        ({"hardware": {}}, "its precision was 64-true, is 32-true"),
    ],
)
def test_a_folder_of_another_study_is_left_as_it_is(signals, whole, changed, sentence):
    row = Row("default", "", changed.get("task", signals), changed.get("method", "softpnet"))
    row = dataclasses.replace(row, settings=changed.get("settings", {}))
    kept = (whole.folder / JOURNAL).read_bytes()
    of = changed.get("seed", 0), changed.get("metric", "label_accuracy"), changed.get("over", {})
    other = make_plan(row, *of, changed.get("hardware", DOUBLE))
    with pytest.raises(InputError, match=f"holds another study: {sentence}.*; name another folder"):
        Study(other, whole.folder)
    assert (whole.folder / JOURNAL).read_bytes() == kept


def test_versions_that_changed_are_warned_of(plan, whole, monkeypatch):
    monkeypatch.setattr(study, "versions", lambda: {"torch": "0.1", "platform": "another"})
    with pytest.warns(UserWarning, match="was begun otherwise: .*torch was .*, is 0.1"):
        Study(plan, whole.folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"not a journal",
        lambda whole: whole[: len(whole) // 2] + b"\x00" + whole[len(whole) // 2 + 1 :],
        lambda whole: whole + b"{}\n",
        lambda whole: whole.replace(b'"plan"', b'"span"', 1).replace(b"signals", b"sign\n", 1),
        lambda whole: whole + b"garbage at its end",
    ],
)
def test_a_damaged_journal_is_refused_and_left_as_it_is(plan, whole, tmp_path, damage):
    path = tmp_path / JOURNAL
    path.write_bytes(damage((whole.folder / JOURNAL).read_bytes()))
    kept = path.read_bytes()
    with pytest.raises(InputError, match=r"is damaged, or no journal of a study: .*restore it from a copy, or name"):
        Study(plan, tmp_path)
    assert path.read_bytes() == kept


def test_a_line_that_its_writer_died_in_is_cut_off(plan, whole, tmp_path):
    path = tmp_path / JOURNAL
    path.write_bytes((whole.folder / JOURNAL).read_bytes() + b'{"op_code":5,"worker')
    assert Study(plan, tmp_path).trials() == whole.trials()
    assert path.read_bytes() == (whole.folder / JOURNAL).read_bytes()


def test_a_folder_that_cannot_be_is_named(plan, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file cannot hold a study: .*; name another folder"):
        Study(plan, tmp_path / "file")
