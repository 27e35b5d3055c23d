"""`softpnet search` as a person meets it: table, picture, command; stopped and gone on; several processes."""

import json
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest

from softpnet.errors import TrainingError
from softpnet.experiments.rows import Row
from softpnet.experiments.tuning import trial
from softpnet.experiments.tuning.plan import make_plan
from softpnet.experiments.tuning.study import Study
from softpnet.training.folder import RunFolder
from softpnet.training.history import read_epochs

ROOT = Path(__file__).parents[2]

PAGE = Path(__file__).parents[2] / "docs/tuning.md"


@pytest.fixture
def signals(tmp_path, monkeypatch):
    """The task of the page, in the folder one is in."""
    monkeypatch.chdir(tmp_path)
    Path("signals.py").write_text(re.search(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[1])
    return "signals.py"


def rows(out):
    """The cells of the lines of the table of trials."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]


def test_a_search_ends_with_a_command_that_makes_the_best_metric_again(signals, softpnet_here, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- begin: made by a command -->\n<!-- end: made by a command -->\n")
    code, out, error = softpnet_here("search", signals, "--trials", 3, "--into", page)
    assert code == 0, error
    assert [row[0] for row in rows(out)] == ["0, default", "1", "2"]
    assert "judged by validation label accuracy, of 10% of the training examples" in out
    assert Path("studies/signals-softpnet/trials.png").exists() and "| 0, default | 0.001 | 64 |" in page.read_text()
    command = shlex.split(out.splitlines()[-1])
    (best,) = [row for row in rows(out) if row[-1] == "best"]
    assert best[0] == "1" and float(best[3]) > 50  # the default is far too slow
    assert command[:3] == ["softpnet", "train", signals]
    assert softpnet_here(*command[1:], "--out", "again", "--no-pictures")[0] == 0
    assert f"{100 * read_epochs(RunFolder(Path('again')))[-1]['validation_label_accuracy']:.2f}" == best[3]
    assert softpnet_here("search", signals, "--trials", 3)[1] == out


def test_a_search_that_ctrl_c_stops_says_so_and_goes_on(signals, softpnet_here, monkeypatch):
    before = trial.Watcher.progress

    def press(self, step):
        before(self, step)
        if (self.trial.number, step.epoch, step.step) == (1, 1, 1):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(trial.Watcher, "progress", press)
    code, out, _ = softpnet_here("search", signals, "--trials", 2, "--study", "cut")
    assert code == 130 and "stopped after 1 of 2 trials; the same command goes on" in out
    assert Path("cut/trials/0001").is_dir()
    monkeypatch.setattr(trial.Watcher, "progress", before)
    code, out, _ = softpnet_here("search", signals, "--trials", 2, "--study", "cut")
    assert code == 0 and len(rows(out)) == 2 and not list(Path("cut/trials").iterdir())


def test_several_processes_make_the_trials_of_one_study(signals, softpnet_here, runs_here, monkeypatch):
    given = ["search", signals, "--trials", 2, "--epochs", 1, "--over", "learning_rate=1e-4..1e-1", "--no-scaled"]
    one = softpnet_here(*given, "--study", "one")
    two = softpnet_here(*given, "--study", "two", "--jobs", 2, "--threads", 1)
    assert one[0] == two[0] == 0, two
    # Side by side they would hardly be the same, but here each waits for its turn, and the first one makes them all.
    assert rows(one[1]) == rows(two[1]) and one[1].splitlines()[-1] == two[1].splitlines()[-1]


def test_what_a_killed_process_left_is_done_by_others_or_the_same_command(
    signals, softpnet_here, runs_here, monkeypatch
):
    from softpnet.experiments.engines import local

    here = local.Engine.run
    monkeypatch.setattr(local.Engine, "run", lambda self, command, folder=None: (-9, ""))
    given = ["search", signals, "--trials", 2, "--epochs", 1, "--jobs", 2]
    code, out, error = softpnet_here(*given)
    assert (code, out) == (2, "")
    assert "2 of 2 processes of the search failed, the first one with -9; others, or the same" in error
    turns = iter([here, lambda self, command: (-9, "")])
    monkeypatch.setattr(local.Engine, "run", lambda self, command, folder=None: next(turns)(self, command))
    code, out, error = softpnet_here(*given)
    assert code == 0 and len(rows(out)) == 2 and "warning: 1 of 2 processes of the search failed" in error
    assert softpnet_here(*given)[::2] == (0, "")


def test_its_processes_may_run_on_a_cluster_whose_nodes_see_the_study(signals, softpnet_here, runs_here, monkeypatch):
    """A stand-in for the cluster's engine, which runs what it is given here."""
    from softpnet.experiments.engines import local, ray

    ran, asked = [], []

    class Engine(local.Engine):
        def run(self, command, folder=None):
            ran.append((command, folder))
            asked.append(self.device)
            return super().run(command, folder)

    monkeypatch.setattr(ray, "Engine", Engine)
    given = ["search", signals, "--trials", 2, "--epochs", 1, "--study", "shared", "--on", "ray", "--device", "auto"]
    code, out, error = softpnet_here(*given)
    assert code == 0 and len(rows(out)) == 2, error
    ((command, folder),) = ran
    assert folder is None and asked == ["auto"]
    assert command[command.index("--study") + 1] == str(Path("shared").resolve())
    assert softpnet_here(*given)[0] == 0 and len(ran) == 1, "nothing is left to do, but a cluster was asked"


def test_the_best_settings_are_confirmed_by_new_seeds_on_test_data(signals, softpnet_here, runs_here):
    code, out, error = softpnet_here("search", signals, "--trials", 2, "--confirm", 2, "--precision", "64-true")
    assert code == 0, error
    assert re.search(r"label accuracy on test data: \+\d+\.\d\d points over the default \(2 new seeds, 95 % int", out)
    best, default = (Path("studies/signals-softpnet/confirmed", name) for name in ("trial-1/best", "default/default"))
    seeds = [re.findall(r'"seed": (\d+)', path.with_suffix(".jsonl").read_text()) for path in (best, default)]
    assert seeds == [["1", "129"], ["1", "129"]]
    assert '"validation": 0.0' in best.with_suffix(".jsonl").read_text()
    assert "what makes it again,\nand with --validation 0 instead learns from all training examples:\n" in out


def test_what_confirms_learns_from_all_examples_whatever_the_trials_hold_out(signals, softpnet_here, runs_here):
    given = ["--trials", 2, "--validation", 0.2, "--keep", "best", "--patience", 2, "--precision", "64-true"]
    code, out, error = softpnet_here("search", signals, *given, "--confirm", 1)
    assert code == 0, error
    assert "and with --validation 0 --keep last --patience 0 instead learns from all training examples:" in out
    paths = list(Path("studies/signals-softpnet/confirmed").rglob("*.jsonl"))
    assert len(paths) == 2
    for path in paths:
        settings = json.loads(path.read_text())["settings"]
        assert (settings["validation"], settings["keep"], settings["patience"]) == (0, "last", 0)


def test_nothing_is_confirmed_while_another_process_makes_a_trial(signals, softpnet_here):
    given = ["search", signals, "--trials", 3, "--epochs", 1, "--precision", "64-true"]
    assert softpnet_here(*given[:3], 2, *given[4:])[0] == 0
    row = Row("default", "default settings", signals, settings={"epochs": 1})
    plan = make_plan(row, 0, "label_accuracy", {}, {"precision": "64-true"})
    with Study(plan, Path("studies/signals-softpnet")).next_trial(3) as taken:
        code, out, _ = softpnet_here(*given, "--confirm", 2)
        assert taken.number == 2 and code == 0
    assert out.endswith("nothing is confirmed before all trials are finished; then the same command does it\n")
    assert not Path("studies/signals-softpnet/confirmed").exists()


def test_a_search_that_is_refused_leaves_its_folder_to_the_next(signals, softpnet_here):
    text = Path(signals).read_text()
    Path(signals).write_text(text.replace("rule(concepts), concepts)", "rule(concepts))"))
    code, _, error = softpnet_here("search", signals, "--trials", 1, "--metric", "concept_accuracy")
    assert code == 2 and "metric concept_accuracy needs the concepts of training examples" in error
    assert not Path("studies").exists()
    assert softpnet_here("search", signals, "--trials", 1)[0] == 0


def test_the_best_settings_are_confirmed_in_the_precision_of_the_trials(signals, softpnet_here, runs_here):
    given = ["search", signals, "--trials", 2, "--epochs", 1, "--confirm", 2, "--precision", "64-true"]
    code, _, error = softpnet_here(*given)
    assert code == 0, error
    for path in Path("studies/signals-softpnet/confirmed").rglob("*.jsonl"):
        assert path.read_text().count('"precision": "64-true"') == 2


def test_there_is_nothing_to_confirm_where_the_default_is_best(signals, softpnet_here):
    code, out, _ = softpnet_here("search", signals, "--trials", 1, "--epochs", 1, "--confirm", 2)
    assert code == 0 and out.endswith("no trial beat the default, so that there is nothing to confirm\n")


@pytest.mark.parametrize(
    "given, sentence",
    [
        (["--trials", 0], "--trials is 0, expected at least 1"),
        (["--jobs", 0], "--jobs is 0, expected at least 1"),
        (["--on", "moon"], "--on is 'moon', expected local or ray, or ray://HOST:PORT"),
        (["--confirm", -1], "--confirm is -1, expected 0 to 10"),
        (["--confirm", 11], "--confirm is 11, expected 0 to 10"),
        (["--device", "cuda:63"], "device 'cuda:63' is not available here"),
        (["--over", "learning_rate"], "--over 'learning_rate' is not of the form SETTING=VALUES, as in learning_rate"),
        (["--over", "speed=1..2"], "unknown setting 'speed' to search; the valid ones are epochs,"),
        (["--over", "copies=3,1", "--over", "copies=1,2"], "option 'copies' is given 2 times, expected once"),
        (["--into", "no.md"], "there is no page no.md"),
    ],
)
def test_what_cannot_be_is_one_sentence(signals, softpnet_here, given, sentence):
    code, out, error = softpnet_here("search", signals, *given)
    assert (code, out) == (2, "") and error.startswith(f"softpnet: {sentence}") and error.count("\n") == 1
    assert not Path("studies").exists()


def test_without_optuna_the_command_says_what_to_install(signals, softpnet_here, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, error = softpnet_here("search", signals)
    assert code == 2 and error.startswith("softpnet: the package optuna is missing")
    assert "pip install 'softpnet[search]' brings it" in error


def test_where_no_trial_can_be_trained_the_table_says_why(signals, softpnet_here, monkeypatch):
    def diverging(*_):
        raise TrainingError("the loss is nan")

    monkeypatch.setattr(trial.Subject, "run", diverging)
    code, out, error = softpnet_here("search", signals, "--trials", 2)
    assert code == 2 and "none of the 2 trials could be trained to its end; the table says why" in error
    assert [row[-1] for row in rows(out)] == ["failed the loss is nan"] * 2


def test_the_study_in_the_repository_says_what_the_page_says(softpnet_here, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    study = shutil.copytree(ROOT / "results/studies/parity_xor", tmp_path / "study")
    given = ["--metric", "concept_accuracy", "--trials", 20, "--confirm", 5]
    given += ["--gamma-decay", 1, "--study", study]
    code, out, error = softpnet_here("search", "examples/parity_xor.py", *given)
    assert code == 0, error
    page = (ROOT / "docs/tuning.md").read_text()
    told = [line for line in out.splitlines() if "on test data" in line]
    assert len(told) == 2 and all(f"    {line}\n" in page for line in told)
    (best,) = [row for row in rows(out) if row[-1] == "best"]
    assert f"{best[-2].removeprefix('+')} points above the default" in page
