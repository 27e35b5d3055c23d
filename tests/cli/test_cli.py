"""The command line as a person meets it: processes, files, terminals, signals."""

import contextlib
import dataclasses
import errno
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image
from rich.console import Console

from softpnet import ConceptSpace, Learner, Settings, methods, tasks
from softpnet.checks.check_task import CHECKS
from softpnet.cli import display
from softpnet.cli.display import show_metrics
from softpnet.report import remarks
from softpnet.task.data import make_data
from softpnet.training.display import Numbers
from softpnet.training.streams import Streams
from torture.subject import PATIENCE_S, wait_for

RULE = '''
"""The sum of two bars."""

import torch

import softpnet

NAMES = ["low", "mid", "high"]


def label(c):
    return c[..., 0] + c[..., 1]


def picture(values, noise=0.0, generator=None):
    """Values [...] -> images [..., 1, 16, 16] with four bright rows."""
    bright = torch.arange(16)[:, None] // 4 == values[..., None, None, None]
    images = bright.float().expand(*bright.shape[:-1], 16).clone()
    return images + noise * torch.randn(images.shape, generator=generator) if noise else images


def examples(count, generator, noise=0.0):
    concepts = torch.randint(3, (count, 2), generator=generator)
    return softpnet.Examples(picture(concepts, noise, generator), label(concepts), concepts)


def data(streams):
    anchors = softpnet.Anchors(picture(torch.arange(3)), torch.arange(3))
    clean, noisy = examples(24, streams("test data")), examples(24, streams("noisy data"), noise=2.0)
    tests = {"test": clean, "noisy": noisy}
    return softpnet.Data(examples(32, streams("train data")), anchors, tests)


task = softpnet.Task(
    space=softpnet.ConceptSpace(slots=2, values=3, value_names=[NAMES]),
    rule=label,
    name="two bars",
    data=data,
    settings={"epochs": 50, "warmup_steps": 2, "episodes": 2, "copies": 1, "batch_size": 16},
)
'''
NAMES = ["low", "mid", "high"]


def command(*arguments):
    return [sys.executable, "-m", "softpnet", *map(str, arguments)]


def environment(**changes):
    return {**os.environ, "OMP_NUM_THREADS": "1", **changes}


def softpnet(*arguments, cwd=None):
    """Run `softpnet ...` in a process of its own."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )


def assert_one_sentence(code, error, *parts):
    """Exit code 2 and one line on stderr, which says the parts in order."""
    assert code == 2, error
    assert error.startswith("softpnet: ") and error.endswith("\n") and error.count("\n") == 1, error
    assert "Traceback" not in error
    assert re.search(".*".join(map(re.escape, parts)), error), error


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A user's folder, with their rule in it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "my_rule.py").write_text(RULE)
    return folder


@pytest.fixture(scope="module")
def trained(home):
    """`softpnet train my_rule.py` from start to end, not on a terminal."""
    done = softpnet(
        "train", "my_rule.py", "--epochs", 2, "--seed", 3, "--learning-rate", 0.01, "--out", "run", cwd=home
    )
    assert done.returncode == 0, done.stderr
    return home / "run", done


@pytest.fixture(scope="module")
def interrupted(home):
    """A long training on a terminal, stopped by Ctrl-C: folder, exit code, stdout, screen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("train", "my_rule.py", "--epochs", 100_000, "--no-pictures", "--out", "interrupted"),
        cwd=home,
        env=environment(COLUMNS="200", TERM="xterm-256color"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    screen, stopped, deadline = "", False, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1.0)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            read = os.read(ours, 65536)
        except OSError as error:  # the process has closed its end
            assert error.errno == errno.EIO
            break
        if not read:
            break
        screen += read.decode(errors="replace")
        if not stopped and re.search(r"epoch [3-9]\d*/100000", screen):
            process.send_signal(signal.SIGINT)
            stopped = True
    else:
        process.kill()
    out, _ = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    return home / "interrupted", process.returncode, out, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)


@pytest.fixture
def pngs(home):
    """Image files of the concepts low, mid, high."""
    paths = []
    for value, name in enumerate(NAMES):
        pixels = numpy.zeros((16, 16), numpy.uint8)
        pixels[4 * value : 4 * value + 4] = 255
        paths.append(home / f"{name}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths


# Help and lists


@pytest.fixture(scope="module")
def helps():
    """The answers to `--help` and `train --help`."""
    return {"general": softpnet("--help"), "train": softpnet("train", "--help")}


@pytest.mark.parametrize("which", ["general", "train"])
def test_help_answers(helps, which):
    assert helps[which].returncode == 0 and "usage: softpnet" in helps[which].stdout


def test_help_names_every_command_and_every_setting(helps):
    for name in ("train", "check", "evaluate", "predict", "suggest", "reproduce", "table", "tasks", "methods"):
        assert name in helps["general"].stdout
    for name in Settings.__dataclass_fields__:
        assert "--" + name.replace("_", "-") in helps["train"].stdout


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (
            ["reproduce", "nothing"],
            ["unknown row 'nothing'", "there are figures, all, table1, best, league, noise, precision, table2, short,"],
        ),
        (["reproduce", "table1", "--jobs", "0"], ["--jobs is 0, expected at least 1"]),
        (["table", "--seeds", "11"], ["--seeds is 11, expected 1 to 10"]),
        (["table", "--picture", "a.svg"], ["picture path 'a.svg' must end in .png"]),
        (["table"], ["results has no record of these rows", "softpnet reproduce"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_table_that_cannot_be_made_is_refused_in_one_sentence(softpnet_here, tmp_path, monkeypatch, arguments, parts):
    monkeypatch.chdir(tmp_path)
    code, _, error = softpnet_here(*arguments)
    assert_one_sentence(code, error, *parts)


def test_the_committed_records_are_printed_and_drawn_by_the_command(softpnet_here, tmp_path):
    records = Path(__file__).parents[2] / "results"
    given = ("--form", "latex", "--only", "results", "--picture", tmp_path / "seeds.png")
    code, out, _ = softpnet_here("table", "table2", "--records", records, *given)
    assert (tmp_path / "seeds.png").exists() and (tmp_path / "seeds.svg").exists()
    assert code == 0 and out.count(r"\begin{tabular}") == 1 and "Sudoku, Soft-PNet" in out and "EvenOdd" not in out


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["tasks"], ["methods"]], ids=" ".join)
def test_help_and_lists_never_import_torch(arguments):
    code = (
        f"import sys; sys.argv = ['softpnet', *{arguments!r}]\n"
        "from softpnet.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as left: assert not left.code, left.code\n"
        "heavy = {'torch', 'lightning_fabric', 'matplotlib', 'sklearn', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what, folder", [("tasks", tasks), ("methods", methods)])
def test_tasks_and_methods_are_listed_with_what_they_are(what, folder):
    done = softpnet(what)
    assert done.returncode == 0 and folder.names()
    for name in folder.names():
        assert re.search(rf"^{name} +{re.escape(folder.summary(name))}$", done.stdout, re.MULTILINE)


# Comparing methods


def test_methods_are_compared_on_a_task_of_one_s_own_and_what_changed_is_not_mixed(
    home, softpnet_here, runs_here, monkeypatch
):
    (home / "compared").mkdir()
    rule = RULE.replace("return images +", "images += float(open('shift.txt').read())\n    return images +")
    (home / "compared" / "my_rule.py").write_text(rule)
    (home / "compared" / "shift.txt").write_text("0")
    monkeypatch.chdir(home / "compared")
    given = ("compare", "my_rule.py", "--methods", "supervised", "softpnet", "--seeds", 2, "--epochs", 1)
    code, out, error = softpnet_here(*given)
    assert code == 0, error
    records = sorted(path.name for path in Path("comparisons/two_bars").glob("*.jsonl"))
    assert records == ["softpnet.jsonl", "supervised.jsonl"]
    assert "softpnet train my_rule.py --method supervised --seed 0 --epochs 1" in out
    assert re.search(r"│ softpnet +│ supervised +│ 2 +│ [+-]", out)
    assert "picture: comparisons/two_bars/seeds.png" in out and Path("comparisons/two_bars/seeds.svg").exists()
    code, again, error = softpnet_here(*given)  # from the records
    assert (code, again, error) == (0, out, "")
    Path("shift.txt").write_text("0.1")  # data that is not in the task's file
    code, _, error = softpnet_here(*given)
    assert_one_sentence(code, error, "were made with other data", "remove the records")
    Path("my_rule.py").write_text(rule + "\n# changed\n")
    code, _, error = softpnet_here(*given)
    assert_one_sentence(code, error, "softpnet.jsonl, line 1,", "task file's sha256", "remove the line")
    code, _, error = softpnet_here("compare", "my_rule.py", "--methods", "none", "--records", "other")
    assert_one_sentence(code, error, "unknown method 'none'")
    code, _, error = softpnet_here("compare", "my_rule.py", "--methods")
    assert_one_sentence(code, error, "--methods names none; there are abduction")


# Checking a task


def outcomes(out):
    """By check: its outcome and message."""
    kinds = "passed|warning|failed|not applicable|not run"
    lines = [re.fullmatch(rf"({kinds}) +(.+?)  +(.+)", line) for line in out.splitlines()[:-1]]
    return {line[2]: (line[1], line[3]) for line in lines}


def test_check_prints_one_line_per_check_and_exits_with_0_where_none_fails(softpnet_here, home):
    code, out, error = softpnet_here("check", home / "my_rule.py")
    assert code == 0 and error == "", error
    found = outcomes(out)
    assert list(found) == list(CHECKS)
    # the second test set of this rule is noisy on purpose
    assert [name for name, (outcome, _) in found.items() if outcome == "warning"] == ["inputs"]
    assert "test set 'noisy': pixels go from" in found["inputs"][1]
    assert re.fullmatch(r"task 'two bars': \d+ passed, .*", out.splitlines()[-1])


@pytest.mark.parametrize(
    "old, new, name",
    [
        ("return c[..., 0] + c[..., 1]", "return c[:, 0] + c[:, 1]", "rule vectorised"),
        ("return c[..., 0] + c[..., 1]", "return 1 / 0", "rule runs"),
        ("picture(torch.arange(3)), torch.arange(3))", "picture(torch.arange(3)), torch.arange(3) + 1)", "anchors"),
        ('name="two bars",', 'name="two bars", move=lambda rows, generator: rows.flip(-1) // 2,', "move label"),
    ],
)
def test_check_names_what_is_broken_and_exits_with_1(softpnet_here, tmp_path, old, new, name):
    (tmp_path / "broken.py").write_text(RULE.replace(old, new))
    code, out, error = softpnet_here("check", tmp_path / "broken.py", "--targets", "cache")
    assert code == 1 and error == ""
    failed = [check for check, (outcome, _) in outcomes(out).items() if outcome == "failed"]
    assert name in failed and "Traceback" not in out


def test_check_takes_the_task_s_options_and_a_seed(softpnet_here, tmp_path):
    (tmp_path / "sized.py").write_text(
        "import softpnet\n"
        "def task(size: int = 3):\n"
        "    space = softpnet.ConceptSpace(slots=2, values=size)\n"
        "    return softpnet.Task(space=space, rule=lambda c: c.sum(-1))\n"
    )
    code, out, _ = softpnet_here("check", tmp_path / "sized.py", "--option", "size=7", "--seed", 3)
    assert code == 0 and "49 assignments" in out


@pytest.mark.parametrize(
    "words, failed",
    [
        ((), []),
        (("--targets", "cache"), ["rows"]),
        (("--targets", "exact"), ["rows"]),
        (("--method", "abduction"), []),
        (("--method", "pnet_sl"), ["rows"]),
        (("--method", "abduction", "--targets", "auto"), ["settings"]),
        (("--targets", "kbest", "--epochs", 0), ["settings"]),
    ],
)
def test_check_takes_the_method_and_the_settings_of_train(softpnet_here, tmp_path, monkeypatch, words, failed):
    """Of a rule over 10^8 assignments that is like no other: no two of them can be told to be of one kind."""
    monkeypatch.setattr("softpnet.rules.probe.QUESTIONS", 100_000)  # it is given up earlier so
    (tmp_path / "large.py").write_text(
        "import softpnet, torch\n"
        "space = softpnet.ConceptSpace(slots=8, values=10)\n"
        "task = softpnet.Task(space, lambda c: (c * 10 ** torch.arange(8)).sum(-1) * 2_654_435_761 // 2**16 % 2)\n"
    )
    code, out, error = softpnet_here("check", tmp_path / "large.py", *words)
    assert code == bool(failed) and error == ""
    assert [check for check, (outcome, _) in outcomes(out).items() if outcome == "failed"] == failed


def test_a_task_that_cannot_be_checked_at_all_is_bad_usage(softpnet_here, tmp_path):
    code, out, error = softpnet_here("check", "mnist")
    assert_one_sentence(code, error, "unknown task 'mnist'")
    code, out, error = softpnet_here("check", "kand_logic", "--method", "hard_pnet")
    assert_one_sentence(code, error, "unknown method 'hard_pnet'")
    (tmp_path / "empty.py").write_text("")
    code, out, error = softpnet_here("check", tmp_path / "empty.py")
    assert_one_sentence(code, error, "does not define `task`")
    assert out == ""


# Options


@pytest.mark.parametrize(
    "words, sentence",
    [
        ("", "no command is named; the commands are train, check, "),
        ("trian my_rule.py", "unknown command 'trian'; did you mean train?"),
        ("train", "TASK is not named; expected softpnet train TASK: A built-in task"),
        ("train --epochs 3", "TASK is not named"),
        ("train kand_logic --epoch 3", "unknown option '--epoch'; did you mean --epochs?"),
        ("train --epocs", "unknown option '--epocs'; did you mean --epochs?"),
        ("train kand_logic --batch_sise=3", "unknown option '--batch_sise'; did you mean --batch-size?"),
        ("train kand_logic --no-pictuers", "unknown option '--no-pictuers'; did you mean --no-pictures?"),
        ("train kand_logic -x", "unknown option '-x'; `softpnet train --help` lists what it takes"),
        ("train kand_logic other", "unexpected argument 'other'; `softpnet train --help` lists what it takes"),
        ("train kand_logic --epochs ten", "--epochs is 'ten', expected a whole number"),
        ("train kand_logic --epochs=1e3", "--epochs is '1e3', expected a whole number"),
        ("train kand_logic --threads x", "--threads is 'x', expected a whole number"),
        ("train kand_logic --learning-rate 1e-", "--learning-rate is '1e-', expected a number"),
        ("train kand_logic --epochs --seed 3", "--epochs has no value, expected a whole number"),
        ("train kand_logic --out", "--out has no value, expected a path"),
        ("train kand_logic --target sotf", "--target is 'sotf', expected one of 'soft', 'best'; did you mean soft?"),
        ("train kand_logic --views true", "--views is a switch, which takes no value; leave out 'true'"),
        ("table --only claims claim", "--only is 'claim', expected one of 'claims', 'paper-claims', "),
        ("train kand_logik", "unknown task 'kand_logik'; did you mean kand_logic?"),
        ("train kand_logic --targets exacct", "unknown target source 'exacct'; did you mean exact?"),
        ("train kand_logic --method sofpnet", "unknown method 'sofpnet'; did you mean softpnet?"),
        ("train kand_logic --option crops=box", "task kand_logic has no option 'crops'; did you mean crop?"),
        ("table tabel1", "unknown row 'tabel1'; did you mean table1?"),
    ],
)
def test_a_mistyped_command_line_is_one_sentence_that_names_what_is_near(softpnet_here, words, sentence):
    code, out, error = softpnet_here(*words.split())
    assert_one_sentence(code, error, f"softpnet: {sentence}")
    assert not out and len(error) < 250


def test_values_out_of_range_are_one_sentence(softpnet_here, home):
    code, _, error = softpnet_here("train", home / "my_rule.py", "--epochs", 0, "--out", home / "never")
    assert_one_sentence(code, error, "epochs is 0", "at least 1")
    code, _, error = softpnet_here("train", home / "my_rule.py", "--method", "magic", "--out", home / "never")
    assert_one_sentence(code, error, "unknown method 'magic'", "softpnet")
    assert not (home / "never").exists()


@pytest.mark.parametrize(
    "arguments",
    [["--device", "abacus"], ["--precision", "3"], ["--threads", "0"], ["--processes", "0"]],
    ids=" ".join,
)
def test_hardware_that_cannot_be_is_refused_without_a_traceback(softpnet_here, home, arguments):
    code, _, error = softpnet_here("train", home / "my_rule.py", *arguments, "--out", home / "never")
    assert code == 2 and "Traceback" not in error
    assert arguments[0].strip("-") in error and arguments[1] in error
    assert not (home / "never").exists()


def test_a_training_that_diverged_is_one_sentence_and_no_success(softpnet_here, home):
    code, _, error = softpnet_here(
        "train", home / "my_rule.py", "--learning-rate", 1e30, "--epochs", 1, "--out", home / "diverged"
    )
    assert_one_sentence(code, error, "learning_rate")
    assert not (home / "diverged" / "metrics.json").exists()


def test_an_unknown_task_lists_the_built_in_ones(softpnet_here):
    code, _, error = softpnet_here("train", "mnist")
    assert_one_sentence(code, error, "unknown task 'mnist'", *tasks.names(), ".py file")


def test_task_options_are_checked(softpnet_here, home):
    code, _, error = softpnet_here("train", "kand_logic", "--option", "sizes=box")
    assert_one_sentence(code, error, "kand_logic has no option 'sizes'", "crop, train")
    code, _, error = softpnet_here("train", "kand_logic", "--option", "crop")
    assert_one_sentence(code, error, "'crop'", "NAME=VALUE")
    code, _, error = softpnet_here("train", home / "my_rule.py", "--option", "crop=box")
    assert_one_sentence(code, error, "takes no options", "crop")


# A user's own rule, trained


def test_a_user_s_file_trains_end_to_end_into_a_run_folder(trained):
    folder, _ = trained
    for name in (
        "config.json",
        "epochs.jsonl",
        "metrics.json",
        "model.safetensors",
        "learned.png",
        "learned.svg",
        "curves.png",
    ):
        assert (folder / name).stat().st_size > 0
    config = json.loads((folder / "config.json").read_text())
    assert config["task"] == "two bars" and config["seed"] == 3
    given, own = config["settings"], {"warmup_steps": 2, "episodes": 2, "copies": 1, "batch_size": 16}
    assert given["epochs"] == 2 and given["learning_rate"] == 0.01, "the command line did not override the task"
    assert {name: given[name] for name in own} == own, "what was not given is not the task's"
    epochs = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2]
    metrics = json.loads((folder / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert metrics["epochs"] == 2 and metrics["interrupted"] is False and set(metrics["tests"]) == {"test", "noisy"}


def test_a_run_folder_holds_no_pickle(trained):
    for path in trained[0].rglob("*"):
        assert path.suffix in {".json", ".jsonl", ".safetensors", ".png", ".svg", ".sha256"}
        assert not path.read_bytes().startswith((b"\x80", b"PK")), (
            f"{path.name} looks like a pickle or a zip of pickles"
        )


def test_nothing_is_written_to_stderr_when_it_is_no_terminal(trained):
    assert trained[1].stderr == ""


def test_a_log_gets_a_line_per_epoch(trained):
    number = r"-?\d[\d.e+-]*"
    for epoch in (1, 2):
        line = rf"^epoch {epoch}/2: proto {number}  KL {number} .*; {number} s$"
        assert len(re.findall(line, trained[1].stdout, re.MULTILINE)) == 1, trained[1].stdout


def test_pictures_are_drawn_in_their_formats(trained):
    with Image.open(trained[0] / "learned.png") as picture:
        assert picture.format == "PNG" and min(picture.size) > 100
    assert "<svg" in (trained[0] / "learned.svg").read_text()


def test_a_watched_run_has_the_first_test_set_s_metrics_per_epoch_and_learns_the_same(trained, softpnet_here, tmp_path):
    given = ("--epochs", 2, "--seed", 3, "--learning-rate", 0.01, "--out", tmp_path / "run")
    code, _, error = softpnet_here("train", trained[0].parent / "my_rule.py", "--watch", *given)
    assert code == 0, error
    epochs = [json.loads(line) for line in (tmp_path / "run/epochs.jsonl").read_text().splitlines()]
    final = json.loads((tmp_path / "run/metrics.json").read_text())["tests"]["test"]
    assert len(epochs) == 2 and final.items() <= epochs[-1].items() and "concept_accuracy" in epochs[0]
    assert (tmp_path / "run/accuracy.png").exists() and not (trained[0] / "accuracy.png").exists()
    model = "model.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (trained[0] / model).read_bytes()


def printed(text, metrics):
    """The numbers of the row of each metric in a printed table."""
    rows = {}
    for name in metrics:
        line = re.search(rf"^\W*{name.replace('_', ' ')}\b(.*)$", text, re.MULTILINE)
        assert line, f"{name} is not printed in\n{text}"
        rows[name] = re.findall(r"-?\d+\.\d\d", line[1])
    return rows


def assert_prints_metrics(text, folder):
    tests = json.loads((folder / "metrics.json").read_text())["tests"]
    names = [name for name in tests["test"] if "primitive" not in name]
    assert len({f"{tests['noisy'][name]:.4f}" for name in names}) > 2, "the numbers are too alike to tell them apart"
    expected = {name: [f"{100 * scores[name]:.2f}" for scores in tests.values()] for name in names}
    assert printed(text, names) == expected


def test_train_prints_the_metrics_and_where_the_run_is(trained):
    folder, done = trained
    assert_prints_metrics(done.stdout, folder)
    assert "run folder: run" in done.stdout


def test_evaluate_prints_the_same_numbers_again(trained, softpnet_here, home, monkeypatch):
    before = {path: path.read_bytes() for path in trained[0].iterdir()}
    monkeypatch.chdir(home)
    code, out, error = softpnet_here("evaluate", "run", "--task", "my_rule.py")
    assert code == 0, error
    assert_prints_metrics(out, trained[0])
    assert {path: path.read_bytes() for path in trained[0].iterdir()} == before


def test_suggest_names_the_training_slots_to_label_next(trained, softpnet_here):
    rule = trained[0].parent / "my_rule.py"
    code, out, error = softpnet_here("suggest", trained[0], "--task", rule, "--count", 3)
    model = Learner.load(trained[0], task=tasks.load(str(rule)))
    train = make_data(model.task, Streams(model.seed)).train
    named = model.suggest_anchors(train.inputs, train.labels, 3)
    names, read = model.task.space.value_names(), model.predict(train.inputs).concepts
    expected = [f"label next: example {e}, slot {s}, now read as {names[s][read[e, s]]}" for e, s in named.tolist()]
    assert (code, out.splitlines()) == (0, expected), error
    code, _, error = softpnet_here("suggest", trained[0], "--task", rule, "--count", 0)
    assert code == 2 and "count is 0, expected a whole number, 1 to 64" in error


def test_a_run_can_be_evaluated_from_another_folder(trained, softpnet_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, error = softpnet_here("evaluate", trained[0], "--task", trained[0].parent / "my_rule.py")
    assert code == 0, error
    assert_prints_metrics(out, trained[0])


def test_a_run_can_be_evaluated_with_its_task_moved_elsewhere(trained, softpnet_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moved.py").write_text(RULE)
    code, out, error = softpnet_here("evaluate", trained[0], "--task", "moved.py")
    assert code == 0, error
    assert_prints_metrics(out, trained[0])


def test_a_moved_task_is_made_with_the_options_of_the_run(softpnet_here, tmp_path):
    """The rule asks for three values; the run is trained with them, the default is two."""
    optional = RULE.replace("task = softpnet", "def task(values: int = 2):\n  return softpnet")
    optional = optional.replace("values=3, value_names=[NAMES]", "values=values")
    (tmp_path / "optional.py").write_text(optional)
    run = ("--out", tmp_path / "run", "--epochs", 1, "--no-pictures", "--option", "values=3")
    code, _, error = softpnet_here("train", tmp_path / "optional.py", *run)
    assert code == 0, error
    (tmp_path / "optional.py").rename(tmp_path / "moved.py")
    code, out, error = softpnet_here("evaluate", tmp_path / "run", "--task", tmp_path / "moved.py")
    assert code == 0, error
    assert_prints_metrics(out, tmp_path / "run")


def test_test_sets_with_and_without_true_concepts_are_shown_together(trained, capfd):
    scores = {
        "full": {"concept_accuracy": 0.25, "label_accuracy": 0.5},
        "labels only": {"label_accuracy": 0.75},
    }
    show_metrics(
        Learner.load(trained[0], task=tasks.load(str(trained[0].parent / "my_rule.py"))).task,
        scores,
        trained[0],
    )
    shown = printed(capfd.readouterr().out, ["concept_accuracy", "label_accuracy"])
    assert shown == {"concept_accuracy": ["25.00"], "label_accuracy": ["50.00", "75.00"]}


def test_remarks_and_parts_are_shown_below_and_in_the_table(trained, capfd):
    task = Learner.load(trained[0], task=tasks.load(str(trained[0].parent / "my_rule.py"))).task
    show_metrics(task, {"test": {"concept_accuracy/a [b]/attribute 0": 0.5}}, trained[0], ["test: look at 'a'"])
    shown = capfd.readouterr().out
    assert "concept accuracy, a [b], attribute 0 │ 50.00" in shown
    assert "test: look at 'a'" in shown
    assert f"picture: {trained[0] / 'learned.png'}" in shown


def test_train_and_evaluate_remark_on_concepts_that_stay_wrong(softpnet_here, home, tmp_path, monkeypatch):
    monkeypatch.setattr(remarks, "SUSPICIOUS_GAP", -2.0)  # whatever is learned in one epoch
    run, rule = tmp_path / "run", home / "my_rule.py"
    for words in (("train", rule, "--epochs", 1, "--no-pictures", "--out", run), ("evaluate", run, "--task", rule)):
        _, out, _ = softpnet_here(*words)
        assert "test: labels are right more often than concepts, by" in out and "noisy: labels are" in out


@pytest.mark.parametrize("values", [3, (3, 2)])
def test_primitives_have_rows_only_where_they_are_more_than_one_concept(trained, capfd, values):
    task = tasks.load(str(trained[0].parent / "my_rule.py"))
    task = dataclasses.replace(task, space=ConceptSpace(slots=2, values=values))
    show_metrics(task, {"test": {"concept_accuracy": 0.5, "primitive_accuracy": 0.25}}, trained[0])
    assert ("primitive accuracy" in capfd.readouterr().out) == (values != 3)


def test_names_are_shown_as_they_are_though_they_look_like_markup(trained, capfd):
    task = Learner.load(trained[0], task=tasks.load(str(trained[0].parent / "my_rule.py"))).task
    show_metrics(dataclasses.replace(task, name="a[/red]"), {"b[/bold]": {"label_accuracy": 0.5}}, trained[0])
    shown = capfd.readouterr().out
    assert "a[/red], last epoch" in shown and "b[/bold]" in shown


@pytest.mark.parametrize("what", ["kand-softg", "figures"])
def test_records_that_cannot_be_written_are_one_sentence(softpnet_here, home, what):
    code, _, error = softpnet_here("reproduce", what, "--records", home / "my_rule.py", "--seeds", 1)
    assert_one_sentence(code, error, "my_rule.py")


def test_a_reader_that_went_away_is_no_error_to_talk_about():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command("methods"), env=environment(), stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE_S
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    "words, code",
    [
        ("tasks >&-", 0),
        ("--help >&- 2>&-", 0),
        ("train nowhere 2>&-", 2),
        ("train nowhere 2> /dev/full", 2),
        ("tasks > /dev/full", 2),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_traceback(words, code):
    shell = ["sh", "-c", f'exec "$0" -m softpnet {words}', sys.executable]
    done = subprocess.run(shell, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code and "Traceback" not in done.stderr and done.stderr.count("\n") <= 1


def without_a_reader():
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w")


@pytest.mark.parametrize("stdout", [lambda: None, lambda: open("/dev/full", "w"), without_a_reader])
def test_a_training_whose_output_nobody_takes_goes_on_and_saves_its_model(
    softpnet_here, home, tmp_path, monkeypatch, stdout
):
    monkeypatch.setattr(sys, "stdout", stdout())
    closed = sys.stdout is None
    words = ("train", home / "my_rule.py", "--epochs", 2, "--no-pictures", "--out", tmp_path / "run")
    code, _, error = softpnet_here(*words)
    assert code == 0 and {"metrics.json", "model.safetensors"} <= {path.name for path in (tmp_path / "run").iterdir()}
    assert error.count("\n") == error.count("takes no more lines") == (not closed)


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(trained, softpnet_here, home):
    before = {path: path.read_bytes() for path in trained[0].iterdir()}
    code, _, error = softpnet_here("train", home / "my_rule.py", "--out", trained[0])
    assert_one_sentence(code, error, str(trained[0]), "already holds a run", "another folder")
    assert {path: path.read_bytes() for path in trained[0].iterdir()} == before


def test_a_file_in_place_of_a_run_folder_is_one_sentence(softpnet_here, home):
    code, _, error = softpnet_here("train", home / "my_rule.py", "--out", home / "my_rule.py")
    assert_one_sentence(code, error, "my_rule.py", "folder")
    code, _, error = softpnet_here("evaluate", home / "my_rule.py")
    assert_one_sentence(code, error, "my_rule.py", "not a run folder")


def test_a_folder_without_a_run_is_one_sentence(softpnet_here, tmp_path):
    for name in ("evaluate", "predict"):
        code, _, error = softpnet_here(name, tmp_path / "nowhere", *(["a.png"] if name == "predict" else []))
        assert_one_sentence(code, error, "there is no folder", str(tmp_path / "nowhere"), "softpnet train TASK --out")


# New tables


@pytest.fixture
def new_table(trained, softpnet_here, home, pngs, monkeypatch):
    """`evaluate` of a table in the user's folder; first, what the run reads of low mid, of high high and of low low."""
    monkeypatch.chdir(home)
    pairs = [(0, 1), (2, 2), (0, 0)]
    given = ("predict", "run", "--task", "my_rule.py", "--json", *(pngs[i] for pair in pairs for i in pair))
    read = predictions(softpnet_here(*given)[1])

    def evaluate(text, *words, columns=("--columns", "left", "right")):
        Path("new.csv").write_text(text)
        return softpnet_here("evaluate", "run", "--task", "my_rule.py", "--table", "new.csv", *columns, *words)

    return read, evaluate


ROWS = ("low.png,mid.png", "high.png,high.png", "low.png,low.png")


def test_a_run_is_judged_on_a_new_table(new_table):
    read, evaluate = new_table
    labels = [read[0]["label"], read[1]["label"], (read[2]["label"] + 1) % 5]  # the last one is wrong
    lines = [f"{row},{label}" for row, label in zip(ROWS, labels, strict=True)]
    code, out, error = evaluate("\n".join(["left,right,sum", *lines]), "--labels", "sum")
    assert (code, error) == (0, "") and printed(out, ["label_accuracy"]) == {"label_accuracy": ["66.67"]}
    assert "concept accuracy" not in out and "two bars, last epoch" in out and "run folder: run" in out
    assert re.search(r"┃ +new ┃", out)  # the column is named after the table
    assert evaluate("\n".join(["left,right,label", *lines])) == (code, out, error)


def test_concepts_are_judged_where_the_new_table_has_them(new_table):
    read, evaluate = new_table
    true = [example["concepts"] for example in read]
    other = NAMES[NAMES.index(true[0][1]) - 1]
    true[0] = [str(NAMES.index(true[0][0])), other]  # a number for a name; and what is not read
    lines = [f"{row},{at['label']},{','.join(c)}" for row, at, c in zip(ROWS, read, true, strict=True)]
    code, out, error = evaluate("\n".join(["left,right,label,a,b", *lines]), "--concepts", "a", "b")
    assert (code, error) == (0, "")
    assert printed(out, ["label_accuracy", "concept_accuracy"]) == {
        "label_accuracy": ["100.00"],
        "concept_accuracy": ["83.33"],
    }
    assert "new: labels are right more often than concepts, by 16.7 points" in out
    assert "1 of 3 rows have concepts that give another label; the first is new.csv, line 2" in out


def test_boxes_of_one_image_are_judged_and_predicted_as_images_are(new_table, softpnet_here, pngs):
    read, evaluate = new_table
    both = numpy.concatenate([numpy.array(Image.open(path)) for path in pngs[:2]], axis=1)  # [16, 32]
    Image.fromarray(both).save("both.png")
    corners = [f"{name}_{corner}" for name in ("left", "right") for corner in ("x0", "y0", "x1", "y1")]
    text = f"photo,{','.join(corners)},label\nboth.png,0,0,16,16,16,0,32,16,{read[0]['label']}\n"
    words = ("--columns", "photo", "--boxes", "left", "right")
    code, out, error = evaluate(text, columns=words)
    assert (code, error) == (0, "") and printed(out, ["label_accuracy"]) == {"label_accuracy": ["100.00"]}
    given = ("predict", "run", "--task", "my_rule.py", "--json")
    assert predictions(softpnet_here(*given, "new.csv", *words)[1]) == read[:1]
    for words, *parts in (
        (("--columns", "photo", "--boxes", "left"), "--boxes names ['left'], expected 2 boxes, one per slot"),
        (("--columns", "a", "b", "c", "--boxes", "left", "right"), "expected 2 columns, one per slot, or one for all"),
        (("--columns", "photo", "--boxes", "left", "low"), "new.csv has no column 'low_x0'"),
    ):
        code, _, error = evaluate(text, columns=words)
        assert_one_sentence(code, error, *parts)
    code, _, error = evaluate(
        text.replace("32,16", "33,16"), columns=("--columns", "photo", "--boxes", "left", "right")
    )
    assert_one_sentence(code, error, "new.csv, line 2, column 'photo': box 'right'", "is not inside both.png", "32x16")
    code, _, error = softpnet_here(*given, *pngs[:2], "--boxes", "left", "right")
    assert_one_sentence(code, error, "--boxes names columns of one .csv or .parquet table, but 2 files")


def test_an_image_of_another_size_in_a_new_table_is_scaled_if_asked(new_table, pngs):
    _, evaluate = new_table
    with Image.open(pngs[0]) as image:
        image.resize((32, 32), Image.Resampling.NEAREST).save("large.png")
    code, _, error = evaluate("left,right,label\nlarge.png,low.png,0\n")
    assert_one_sentence(code, error, "new.csv, line 2, column 'left': large.png is 32x32, expected 16x16", "--resize")
    code, out, error = evaluate("left,right,label\nlarge.png,low.png,0\n", "--resize")
    assert (code, error) == (0, "") and "label accuracy" in out


@pytest.mark.parametrize(
    "text, words, parts",
    [
        ("left,right,label\n", (), ["new.csv has no rows below its header"]),
        ("left,right\nlow.png,low.png\n", (), ["new.csv has no column 'label'; it has ['left', 'right']"]),
        ("left,label\nlow.png,0\n", (), ["new.csv has no column 'right'"]),
        ("left,right,label\nlow.png,low.png,0\nlow.png,low.png,x\n", (), ["line 3, column 'label': 'x', expected a"]),
        (
            "left,right,label\nlow.png,low.png,0\nlow.png,low.png,5\nlow.png,low.png,-1\n",
            (),
            ["new.csv, line 3: label 5 is given by no assignment of task 'two bars' (1 more rows", "correct the label"],
        ),
        ("left,right,label\nlow.png,low.png,0\nlow.png,no.png,0\n", (), ["line 3, column 'right': no.png cannot be"]),
        (
            "left,right,label\nlow.png,low.png,0\n",
            ("--labels", "a", "b"),
            ["--labels names ['a', 'b'], expected one c"],
        ),
        ("left,right,label\nlow.png,low.png,0\n", ("--concepts", "a"), ["--concepts names ['a'], expected 2 columns"]),
        (
            "left,right,label,a\nlow.png,low.png,0,tall\n",
            ("--concepts", "a", "a"),
            ["line 2, column 'a': 'tall', expected one of ['low', 'mid', 'high'], or a number from 0 to 2"],
        ),
        ("left,right,label\nlow.png,low.png,0\n", ("--columns", "left"), ["expected 2 columns, one per slot"]),
        (
            "left,right,label\nlow.png,low.png,0\n",
            ("--other-data",),
            ["--other-data is about the task's own test sets"],
        ),
    ],
)
def test_what_is_wrong_with_a_new_table_is_one_sentence(new_table, text, words, parts):
    code, out, error = new_table[1](text, *words)
    assert_one_sentence(code, error, *parts)
    assert out == ""


def test_options_of_a_table_and_the_table_come_together(trained, softpnet_here):
    for words, *parts in (
        (("--columns", "left"), "--columns is about a table, but none is named", "expected RUN --table new.csv"),
        (("--resize",), "--resize is about a table, but none is named"),
        (("--table", "new.csv"), "--table is new.csv, whose columns of images are not named", "expected RUN --table"),
    ):
        code, _, error = softpnet_here("evaluate", trained[0], *words)
        assert_one_sentence(code, error, *parts)


def test_a_new_table_of_label_vectors_names_a_column_per_entry(softpnet_here, home, pngs, tmp_path, monkeypatch):
    rule = RULE.replace("return c[..., 0] + c[..., 1]", "return torch.stack([c.sum(-1), c[..., 0]], -1)")
    (tmp_path / "vectors.py").write_text(rule)
    monkeypatch.chdir(tmp_path)
    code, _, error = softpnet_here("train", "vectors.py", "--epochs", 1, "--no-pictures", "--out", "run")
    assert code == 0, error
    Path("new.csv").write_text(f"left,right,sum,first\n{pngs[0]},{pngs[0]},2,1\n{pngs[0]},{pngs[0]},0,1\n")
    given = ("evaluate", "run", "--task", "vectors.py", "--table", "new.csv", "--columns", "left", "right")
    code, _, error = softpnet_here(*given)
    assert_one_sentence(code, error, "--labels names ['label'], expected 2 columns, one per entry of the label")
    code, _, error = softpnet_here(*given, "--labels", "sum", "first")
    assert_one_sentence(code, error, "new.csv, line 3: label [0, 1] is given by no assignment of task 'two bars';")
    Path("new.csv").write_text(f"left,right,sum,first\n{pngs[0]},{pngs[0]},2,1\n")
    code, out, error = softpnet_here(*given, "--labels", "sum", "first")
    assert code == 0 and "label accuracy, entry 1" in out, error


# Terminals and Ctrl-C


def test_a_terminal_shows_epoch_gamma_and_lambda(interrupted):
    *_, screen = interrupted
    assert re.search(r"epoch [1-9]\d*/100000", screen)
    assert re.search(r"gamma (1|0\.\d+)", screen) and re.search(r"lambda 1\b", screen)
    assert re.search(r"proto \d", screen) and re.search(r"KL -?\d", screen)
    assert "compiling the rule and checking the data, 0 s" in screen.partition("epoch 1/")[0]


@pytest.mark.parametrize(
    "notes, shown",
    [
        ([], "compiling the rule and checking the data"),
        (["targets: exact"], "starting"),
        (
            ["encoder a is frozen: its features of the training inputs are computed once"],
            "computing the features of the training inputs",
        ),
    ],
)
def test_before_the_first_step_a_terminal_says_what_is_being_done(notes, shown):
    column = Numbers(types.SimpleNamespace(notes=notes))
    line = types.SimpleNamespace(fields={"numbers": None}, elapsed=12.3)
    assert column.render(line).plain == f"{shown}, 12 s"
    line.fields["numbers"] = "KL 0.1"
    assert column.render(line).plain == "KL 0.1"


@pytest.mark.parametrize("arguments, said", [(["rule"], "compiling the rule"), (["check"], "checking the task")])
def test_a_terminal_shows_what_is_waited_for_and_a_log_does_not(softpnet_here, home, monkeypatch, arguments, said):
    assert said not in softpnet_here(*arguments, home / "my_rule.py")[2]
    screen = io.StringIO()
    monkeypatch.setattr(display, "console", lambda error: Console(file=screen, force_terminal=True, width=100))
    softpnet_here(*arguments, home / "my_rule.py")
    assert said in screen.getvalue()


@pytest.mark.parametrize("name", methods.names())
def test_the_line_of_an_epoch_has_no_number_that_needs_the_glossary(name):
    assert not {"acceptance", "distinct", "found"} & set(methods.find(name).columns)


def test_a_finished_run_goes_on_where_it_is_given_more_epochs(home, trained, softpnet_here, tmp_path):
    folder = shutil.copytree(trained[0], tmp_path / "run")
    words = ("train", home / "my_rule.py", "--seed", 3, "--learning-rate", 0.01, "--no-pictures", "--out", folder)
    code, out, error = softpnet_here(*words, "--resume", "--epochs", 3)
    assert code == 0 and "goes on to 3 epochs" in error
    assert "epoch 3/3: " in out and "epoch 2/3: " not in out
    assert len((folder / "epochs.jsonl").read_text().splitlines()) == 3


def test_ctrl_c_saves_what_was_learned_and_exits_130(interrupted):
    folder, code, out, screen = interrupted
    assert code == 130 and "Traceback" not in screen + out
    metrics = json.loads((folder / "metrics.json").read_text(), parse_constant=pytest.fail)
    finished = len((folder / "epochs.jsonl").read_text().splitlines())
    assert metrics["interrupted"] is True and metrics["epochs"] == finished >= 2
    assert f"stopped after {finished} of 100000 epochs" in out and "saved" in out


def test_an_interrupted_run_can_be_loaded(interrupted, home):
    model = Learner.load(interrupted[0], task=tasks.load(str(home / "my_rule.py")))
    probabilities = model.predict(torch.zeros(1, 2, 1, 16, 16)).probabilities
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(1, 2))


def test_ctrl_c_before_training_exits_130_without_a_traceback(softpnet_here, tmp_path):
    """Making the data may take long; whoever stops it needs no stack."""
    impatient = RULE.replace("def data(streams):", "def data(streams):\n    raise KeyboardInterrupt\n")
    (tmp_path / "impatient.py").write_text(impatient)
    code, _, error = softpnet_here("train", tmp_path / "impatient.py", "--out", tmp_path / "run")
    assert code == 130 and "Traceback" not in error


@pytest.mark.processes
def test_a_terminal_that_is_closed_leaves_a_run_that_can_be_loaded_and_exit_code_129(home):
    """The system then sends SIGHUP, and nothing can be written to the terminal any more."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home)
        given = command("train", "my_rule.py", "--epochs", 100_000, "--no-pictures", "--out", "hung-up")
        os.execve(given[0], given, environment(COLUMNS="200", TERM="xterm-256color"))
    screen = ""
    while not re.search(r"epoch [3-9]\d*/100000", screen):
        screen += os.read(terminal, 65536).decode(errors="replace")
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129
    assert list((home / "hung-up").glob("checkpoint-*"))
    assert len(Learner.load(home / "hung-up", origin=str(home / "my_rule.py")).history) >= 2


@pytest.mark.processes
def test_many_ctrl_c_in_a_row_stop_a_comparison_without_a_traceback(home):
    """Each reaches the command and its runs, as on a terminal."""
    given = (
        "compare",
        "my_rule.py",
        "--methods",
        "softpnet",
        "--seeds",
        1,
        "--epochs",
        100_000,
        "--records",
        "impatient",
    )
    process = subprocess.Popen(
        command(*given), cwd=home, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert wait_for(lambda: any(home.glob("impatient/*/unfinished/*/epochs.jsonl")), process)
        for _ in range(6):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.02)
        _, error = process.communicate(timeout=PATIENCE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):  # none is left, as it should be
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130 and "Traceback" not in error, error


# Predict


def test_predict_prints_concepts_and_label(trained, softpnet_here, home, pngs, monkeypatch):
    monkeypatch.chdir(home)
    code, out, error = softpnet_here("predict", "run", "--task", "my_rule.py", *pngs[:2], pngs[2], pngs[2])
    assert code == 0 and error == "", error
    lines = out.splitlines()
    assert len(lines) == 2
    for at, line in enumerate(lines):
        found = re.fullmatch(rf"{at}: label (\d), concepts (\w+) (\w+) \(least certain concept (0\.\d+|1\.0+)\)", line)
        assert found and int(found[1]) == NAMES.index(found[2]) + NAMES.index(found[3])


def predictions(text):
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_predict_json_gives_every_probability(trained, softpnet_here, home, pngs, monkeypatch):
    monkeypatch.chdir(home)
    code, out, error = softpnet_here("predict", "run", "--task", "my_rule.py", "--json", *pngs[:2], pngs[2], pngs[2])
    assert code == 0, error
    found = predictions(out)
    assert [one["example"] for one in found] == [0, 1]
    model = Learner.load("run", origin="my_rule.py")
    pixels = torch.stack([torch.from_numpy(numpy.array(Image.open(pngs[i]))) for i in (0, 1, 2, 2)])
    expected = model.predict((pixels.float() / 255).view(2, 2, 1, 16, 16)).probabilities
    for at, one in enumerate(found):
        assert [list(row) for row in one["probabilities"]] == [NAMES, NAMES]
        for row in one["probabilities"]:
            assert sum(row.values()) == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(
            torch.tensor([list(row.values()) for row in one["probabilities"]]),
            expected[at],
            atol=1e-5,
            rtol=0,
        )
        assert one["concepts"] == [max(row, key=row.get) for row in one["probabilities"]]
        assert one["label"] == sum(map(NAMES.index, one["concepts"]))


def test_predict_abstains_where_it_is_not_sure(trained, softpnet_here, home, pngs, monkeypatch):
    monkeypatch.chdir(home)
    given = ("predict", "run", "--task", "my_rule.py", *pngs[:2])
    assert softpnet_here(*given, "--reject", 1)[:2] == softpnet_here(*given)[:2]  # whatever error is fine
    code, out, error = softpnet_here(*given, "--reject", 0)
    assert code == 0 and out.startswith("0: label ?, concepts ? ? (least certain concept 0."), error
    assert error == "--reject 0 left out 2 of 2 concepts, and so the label of 1 of 1 examples\n"
    (found,) = predictions(softpnet_here(*given, "--reject", 0, "--json")[1])
    assert found["label"] is None and found["concepts"] == [None, None]
    code, out, error = softpnet_here(*given, "--reject", 1.5)
    assert code != 0 and "reject is 1.5, expected a share from 0 to 1" in error and out == ""


def test_a_model_of_vectors_reads_an_array_and_says_so_of_a_table(softpnet_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "import torch, softpnet as sp\n"
        "def data(streams):\n"
        "    c = torch.randint(2, (20, 3), generator=streams('data'))\n"
        "    examples = sp.Examples(1.0 * torch.eye(2)[c], c.sum(-1), c)\n"
        "    return sp.Data(examples, sp.Anchors(torch.eye(2), torch.arange(2)), {'test': examples})\n"
        "task = sp.Task(sp.ConceptSpace(slots=3, values=2), lambda c: c.sum(-1), data=data)\n"
    )
    assert softpnet_here("train", "own.py", "--epochs", 1, "--no-pictures", "--out", "run")[0] == 0
    numpy.save("new.npy", numpy.zeros((4, 3, 2)))
    code, out, error = softpnet_here("predict", "run", "new.npy", "--task", "own.py")
    assert code == 0 and len(out.splitlines()) == 4, error
    Path("new.csv").write_text("a,b,c\n1,2,3\n")
    code, _, error = softpnet_here("predict", "run", "new.csv", "--columns", "a", "b", "c", "--task", "own.py")
    assert code == 2 and "shape is (2,)" in error, error
    assert "tables name image files; a model of other inputs, such as vectors, reads one .npy array" in error
    assert "vectors [N, n, D]" in " ".join(softpnet_here("predict", "--help")[1].replace("│", " ").split())


def test_predict_reads_an_array(trained, softpnet_here, home, pngs, monkeypatch, tmp_path):
    monkeypatch.chdir(home)
    pixels = numpy.stack([numpy.array(Image.open(path), numpy.float32) / 255 for path in pngs[:2]])
    numpy.save(tmp_path / "pair.npy", pixels.reshape(1, 2, 1, 16, 16))
    assert softpnet_here("predict", "run", "--task", "my_rule.py", "--json", tmp_path / "pair.npy") == softpnet_here(
        "predict", "run", "--task", "my_rule.py", "--json", *pngs[:2]
    )


def test_predict_reads_the_images_that_a_table_names(trained, softpnet_here, home, pngs, monkeypatch, tmp_path):
    monkeypatch.chdir(home)
    (tmp_path / "pairs.csv").write_text(f"right,left\n{pngs[1]},{pngs[0]}\n{pngs[2]},{pngs[2]}\n")
    given = ("predict", "run", "--task", "my_rule.py", "--json")
    from_table = softpnet_here(*given, tmp_path / "pairs.csv", "--columns", "left", "right")
    assert from_table == softpnet_here(*given, tmp_path / "pairs.csv", "--columns", "left", "--columns", "right")
    assert from_table == softpnet_here(*given, *pngs[:2], pngs[2], pngs[2]) and from_table[0] == 0
    code, _, error = softpnet_here(*given, tmp_path / "pairs.csv")
    assert_one_sentence(code, error, "pairs.csv is a table", "not named; expected RUN new.csv --columns left")
    code, _, error = softpnet_here(*given, *pngs[:2], "--columns", "left", "right")
    assert_one_sentence(code, error, "columns of one .csv or .parquet table, but 2 files", str(pngs[0]))
    code, _, error = softpnet_here(*given, "--columns", "left", "right", tmp_path / "pairs.csv")
    assert_one_sentence(code, error, "no file came before it", "in this order")
    code, _, error = softpnet_here(*given, tmp_path / "pairs.csv", "--columns", "left")
    assert_one_sentence(code, error, "names ['left'], expected 2 columns, one per slot")


def test_predict_answers_before_all_is_read(trained, softpnet_here, home, pngs, monkeypatch, tmp_path):
    monkeypatch.chdir(home)
    monkeypatch.setattr("softpnet.networks.reader.AT_ONCE", 4)  # two examples
    pairs = [(pngs[0], pngs[1])] * 3 + [(pngs[2], tmp_path / "missing.png")]
    (tmp_path / "new.csv").write_text("left,right\n" + "".join(f"{left},{right}\n" for left, right in pairs))
    files = [file for pair in pairs for file in pair]
    for given, place in ((files, ""), ([tmp_path / "new.csv", "--columns", "left", "right"], "line 5, column 'right'")):
        code, out, error = softpnet_here("predict", "run", "--task", "my_rule.py", "--json", *given)
        assert_one_sentence(code, error, place, "missing.png")
        assert [found["example"] for found in predictions(out)] == [0, 1]


def test_predict_reads_sixteen_bits_per_pixel_as_the_same_picture(trained, softpnet_here, home, monkeypatch, tmp_path):
    monkeypatch.chdir(home)
    grey = numpy.tile(numpy.arange(0, 256, 16, dtype=numpy.uint8), (16, 1))
    Image.fromarray(grey).save(tmp_path / "8.png")
    Image.fromarray(grey.astype(numpy.uint16) * 257).save(tmp_path / "16.png")
    code, out, _ = softpnet_here(
        "predict", "run", "--task", "my_rule.py", "--json", *[tmp_path / "8.png"] * 2, *[tmp_path / "16.png"] * 2
    )
    assert code == 0
    eight, sixteen = predictions(out)
    for one, other in zip(eight["probabilities"], sixteen["probabilities"], strict=True):
        assert one == pytest.approx(other, abs=1e-3)


@pytest.mark.parametrize("count", [1, 3])
def test_a_number_of_images_that_fills_no_example_is_one_sentence(
    trained, softpnet_here, home, pngs, monkeypatch, count
):
    monkeypatch.chdir(home)
    code, out, error = softpnet_here("predict", "run", "--task", "my_rule.py", *pngs[:count])
    assert_one_sentence(code, error, f"{count} image files", "multiple of the 2 slots")
    assert out == ""


def test_an_image_of_another_size_is_one_sentence_unless_resized(
    trained, softpnet_here, home, pngs, monkeypatch, tmp_path
):
    monkeypatch.chdir(home)
    large = tmp_path / "large.png"
    with Image.open(pngs[1]) as image:
        image.resize((32, 48), Image.Resampling.NEAREST).save(large)
    code, _, error = softpnet_here("predict", "run", "--task", "my_rule.py", pngs[0], large)
    assert_one_sentence(code, error, str(large), "32x48", "16x16", "--resize")
    code, out, error = softpnet_here("predict", "run", "--task", "my_rule.py", "--resize", "--json", pngs[0], large)
    assert code == 0, error
    assert len(predictions(out)) == 1


def test_an_image_that_cannot_be_read_is_one_sentence(trained, softpnet_here, home, pngs, monkeypatch, tmp_path):
    monkeypatch.chdir(home)
    whole = pngs[1].read_bytes()
    broken = {
        "text.png": b"no picture",
        "empty.png": b"",
        "cut.png": whole[: len(whole) - 30],
        "header.ppm": b"P5\nR4 16\n255\n" + bytes(256),
        "array.npy": b"\x93NUMPY no array",
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        images = [tmp_path / name] if name.endswith(".npy") else [pngs[0], tmp_path / name]
        code, _, error = softpnet_here("predict", "run", "--task", "my_rule.py", *images)
        assert_one_sentence(code, error, str(tmp_path / name), "cannot be read")
    code, _, error = softpnet_here("predict", "run", "--task", "my_rule.py", pngs[0], tmp_path / "missing.png")
    assert_one_sentence(code, error, str(tmp_path / "missing.png"))


def test_an_array_that_does_not_fit_is_one_sentence(trained, softpnet_here, home, monkeypatch, tmp_path):
    monkeypatch.chdir(home)
    for array, *parts in (
        (numpy.zeros((1, 2, 1, 16, 16), complex), "complex128", "expected real or whole numbers"),
        (numpy.zeros((2, 1, 16, 16), numpy.float32), "1 slots", "2"),
        (numpy.zeros((1, 3, 1, 16, 16), numpy.float32), "3 slots", "2"),
        (numpy.zeros((1, 2, 1, 8, 8), numpy.float32), "[1, 8, 8]", "[1, 16, 16]"),
    ):
        numpy.save(tmp_path / "array.npy", array)
        code, _, error = softpnet_here("predict", "run", "--task", "my_rule.py", tmp_path / "array.npy")
        assert_one_sentence(code, error, *parts)


# Broken files of users


SPACE = "import softpnet\nspace = softpnet.ConceptSpace(slots=2, values=3)\n"


@pytest.mark.parametrize(
    "text, parts",
    [
        pytest.param("x = 1\ndef task(:", ["broken.py could not be run", "SyntaxError", "line 2"], id="syntax error"),
        pytest.param("x = 1", ["does not define `task`", "softpnet.Task(space=..., rule=...)"], id="no task"),
        pytest.param("task = 3", ["`task`", "is int", "expected a softpnet.Task"], id="wrong type"),
        pytest.param("task = lambda: 3", ["`task`", "is int", "expected a softpnet.Task"], id="makes the wrong type"),
        pytest.param("1 / 0", ["could not be run", "ZeroDivisionError"], id="fails when read"),
        pytest.param("def task():\n    return 1 / 0", ["ZeroDivisionError"], id="fails when called"),
        pytest.param("def task(size: int):\n    pass", ["size", "--option size="], id="needs an option"),
        pytest.param("import softpnet_that_is_not_there", ["softpnet_that_is_not_there"], id="import fails"),
        pytest.param(
            SPACE + "task = softpnet.Task(space=space, rule=lambda c: c.nothing, name='fails', data=print)",
            ["the rule of task 'fails' failed", "AttributeError"],
            id="rule fails",
        ),
        pytest.param(
            SPACE + "task = softpnet.Task(space=space, rule=lambda c: c.sum(-1), name='bare')",
            ["'bare' has no data", "data=...", "fit(inputs, labels, anchors)"],
            id="no data",
        ),
        pytest.param(
            SPACE + "task = softpnet.Task(space=space, rule=lambda c: c.sum(-1), data=lambda streams: 3)",
            ["data", "int", "expected", "softpnet.Data"],
            id="data of the wrong type",
        ),
    ],
)
def test_a_broken_file_of_a_user_is_one_sentence(softpnet_here, tmp_path, text, parts):
    (tmp_path / "broken.py").write_text(text)
    code, _, error = softpnet_here("train", tmp_path / "broken.py", "--out", tmp_path / "run")
    assert_one_sentence(code, error, *parts)
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_is_one_sentence(softpnet_here, tmp_path):
    code, _, error = softpnet_here("train", tmp_path / "nothing.py")
    assert_one_sentence(code, error, "no file", "nothing.py", "defines a task")


def test_a_test_set_is_asked_for_before_training(softpnet_here, tmp_path):
    untested = RULE.replace("anchors, tests)", "anchors, {})")
    assert untested != RULE
    (tmp_path / "untested.py").write_text(untested)
    code, _, error = softpnet_here(
        "train", tmp_path / "untested.py", "--epochs", 1, "--no-pictures", "--out", tmp_path / "run"
    )
    assert_one_sentence(code, error, "'two bars'", "test set")
    assert not (tmp_path / "run").exists()


# Options of a user's task


@pytest.mark.parametrize(
    "declared, text, value",
    [
        ("size: int = 3", "size=4", 4),
        ("size: float = 0.5", "size=0.25", 0.25),
        ("size: bool = True", "size=no", False),
        ("size: str = 'x'", "size=y=z", "y=z"),
        ("size: Literal[4, 9] = 4", "size=9", 9),
        ("size: int | None = None", "size=4", 4),
        ("size=3", "size=4", 4),
    ],
)
def test_an_option_of_a_user_s_task_arrives_in_its_declared_type(softpnet_here, tmp_path, declared, text, value):
    (tmp_path / "typed.py").write_text(
        "from typing import Literal\nimport softpnet\n"
        f"def task({declared}):\n"
        "    space = softpnet.ConceptSpace(slots=2, values=3)\n"
        "    return softpnet.Task(space=space, rule=lambda c: c.sum(-1), name=repr(size))\n"
    )
    code, _, error = softpnet_here("train", tmp_path / "typed.py", "--option", text)
    assert_one_sentence(code, error, f"task {repr(value)!r} has no data")
