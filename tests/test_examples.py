"""The examples run as their first lines say: as scripts, and as files for `softpnet train`."""

import json
import re
import runpy
from pathlib import Path

import pytest
import torch

from softpnet import tasks
from softpnet.training.streams import Streams

EXAMPLES = Path(__file__).parents[1] / "examples"
SHORT = {"epochs": 1, "warmup_steps": 2, "episodes": 5}
WORDS = [word for name, value in SHORT.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def example(name, run_name="example"):
    return runpy.run_path(str(EXAMPLES / name), run_name=run_name)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What an example writes goes into the folder that it is started in."""
    monkeypatch.chdir(tmp_path)


def test_the_sum_of_two_digits_runs_as_a_script(capsys):
    model = example("two_digit_sum.py")["main"](train=32, test=4, **SHORT)
    assert len(model.history) == 1
    assert re.fullmatch(r"digits right: .*%, sums right: .*%\nthe first pair reads .*\n", capsys.readouterr().out)


def test_the_sum_of_two_digits_is_the_readme_s_task():
    (block,) = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(), flags=re.DOTALL)
    readme = {}
    exec(block[: block.index("model = ")], readme)
    task = example("two_digit_sum.py")["task"]()
    data, rows = task.data(Streams(0)), task.space.all()
    ours = (data.train.inputs, data.train.labels, *data.anchors, task.rule(rows))
    theirs = (readme["pairs"], readme["sums"], *readme["anchors"], readme["task"].rule(rows))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert task.space.sizes == readme["task"].space.sizes and task.name == readme["task"].name


def test_bars_from_files_draws_its_files_and_reads_the_bars(capsys):
    example("bars_from_files.py", run_name="__main__")
    assert (
        Path("bars/train.csv").read_text().startswith("left,right,higher,left_bar,right_bar\nimages/train0-left.png,")
    )
    assert float(re.search(r"'concept_accuracy': ([0-9.]+)", capsys.readouterr().out)[1]) > 0.95


@pytest.mark.parametrize(
    "name, options",
    [("two_digit_sum.py", ["train=32", "test=4"]), ("bars_from_files.py", ["folder=drawn"])],
)
def test_the_command_line_trains_an_example(softpnet_here, name, options):
    if "draw" in (made := example(name)):
        made["draw"]("drawn")
    chosen = [word for option in options for word in ("--option", option)]
    code, out, error = softpnet_here("train", EXAMPLES / name, *chosen, *WORDS, "--out", "run", "--no-pictures")
    assert code == 0 and "concept accuracy" in out, error
    assert json.loads(Path("run/config.json").read_text())["task"] == Path(name).stem


TASKS = sorted(path for path in EXAMPLES.glob("*.py") if not path.stem.endswith("_data"))


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.name)
def test_an_example_says_in_its_first_lines_how_it_is_run(path):
    text = path.read_text()
    assert f"softpnet train examples/{path.name}" in text
    assert ("def main(" in text) == (f"python examples/{path.name}" in text)
    assert len(text.splitlines()) <= 70
    assert callable(runpy.run_path(str(path))["task"]) and tasks.load(str(path)).name == path.stem
