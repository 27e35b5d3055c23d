"""The examples of rules: each rule is compiled as its file says, and a tiny training runs."""

import itertools
import runpy
from pathlib import Path

import pytest
import torch

from softpnet import tasks
from softpnet.checks.check_task import check_task
from softpnet.learner import Learner
from softpnet.rules.compile import compilation
from softpnet.training.streams import Streams

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY = {"epochs": 1, "warmup_steps": 2, "warmup_examples": 0, "episodes": 5, "copies": 1}


def load(name, **options):
    return tasks.load(str(EXAMPLES / f"{name}.py"), options)


def functions(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def train(task, **settings):
    """One short epoch; the scores on the first test set."""
    data = task.data(Streams(0))
    model = Learner(task, **TINY | settings).fit(data.train.inputs, data.train.labels, data.anchors)
    return model.score(*data.tests["test"])


FEW = {"train": 8, "test": 4}


@pytest.mark.parametrize(
    "name, options",
    [
        ("addition", {"digits": 3, "limit": 4}),
        ("product", FEW),
        ("parity_xor", FEW),
        ("non_decreasing", FEW),
        ("formula", FEW),
        ("traffic_scene", FEW),
        ("latin_square", FEW),
    ],
)
def test_a_tiny_training_has_exact_targets(name, options, recwarn):
    task = load(name, **options)
    assert task.name == name and compilation(task).how == "exact"
    scores = train(task)
    assert 0 <= scores["concept_accuracy"] <= 1 and 0 <= scores["label_accuracy"] <= 1


@pytest.mark.parametrize(
    "name, counts",
    [
        ("product", {0: 19, 1: 1, 12: 4, 81: 1}),
        ("parity_xor", {0: 50, 1: 50}),
        ("non_decreasing", {0: 994_995, 1: 5_005}),
        ("latin_square", {0: 4**16 - 576, 1: 576}),
    ],
)
def test_the_compiled_rule_has_as_many_assignments_of_a_label_as_there_are(name, counts):
    rule = compilation(load(name)).rule
    assert rule.count(torch.tensor(list(counts))) == list(counts.values())


@pytest.mark.parametrize("digits", [1, 2, 15, 100])
def test_addition_adds_and_its_machine_knows_every_pair_of_numbers(digits):
    task = load("addition", digits=digits)
    rows = torch.randint(10, (50, 2 * digits), generator=torch.Generator().manual_seed(0))

    def number(entries):
        return int("".join(map(str, entries)))

    sums = task.rule(rows)
    for row, found in zip(rows.tolist(), sums.tolist(), strict=True):
        assert number(row[:digits]) + number(row[digits:]) == number(found)
    rule = compilation(task).rule
    assert rule.contains(rows, sums).all() and not rule.contains(rows, sums.roll(1, 0)).all()
    last = torch.tensor([[0] * digits + [7], [1] + [9] * (digits - 1) + [8]])  # 7; and the largest sum, 199...8
    assert rule.count(last) == [8, 1]


def test_addition_uses_each_image_once_and_no_anchor():
    data = load("addition", digits=2, limit=14_998).data(Streams(0))
    pixels = data.train.inputs.flatten(0, 1).flatten(1)  # [59,988, 784]
    weights = torch.rand(784, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert len(data.train.labels) == 14_997 and len(data.tests["test"].labels) == 2_500
    assert len((pixels.double() @ weights).unique()) == len(pixels)  # no two images of MNIST's are the same
    assert not torch.isin(data.anchors.inputs.flatten(1).double() @ weights, pixels.double() @ weights).any()


def test_a_formula_is_worth_what_python_says():
    task, signs = load("formula"), functions("formula")["SIGNS"]
    rows = task.space.all()[::97]
    for row, found in zip(rows.tolist(), task.rule(rows).tolist(), strict=True):
        written = itertools.zip_longest(map(str, row[:4]), (signs[at] for at in row[4:]), fillvalue="")
        assert found == eval("".join(itertools.chain(*written))), row
    rule = compilation(task).rule
    assert rule.contains(rows, task.rule(rows)).all() and sum(rule.count(rule.labels)) == 270_000
    assert rule.count(torch.tensor([6561, -729])) == [1, 1]  # 9 * 9 * 9 * 9, 0 - 9 * 9 * 9


def test_the_slots_of_a_formula_are_in_the_order_in_which_it_is_written():
    task = load("formula", train=64, test=4)
    inputs, _, concepts = task.data(Streams(0)).train  # [64, 7, 1, 28, 28], [64, 7]
    high = inputs[:, 1::2, 0, :9].amax((-2, -1))  # [64, 3]; a minus has nothing in its upper rows
    minus = concepts[:, 4:] == 1
    assert (high[minus] == 0).float().mean() > 0.9 and (high[~minus] > 0).float().mean() > 0.9


def test_the_pair_of_signs_that_the_rule_cannot_tell_apart_is_named_before_training():
    report = check_task(load("traffic_scene", train=100, test=20), **TINY)
    assert report.ok
    assert report["shortcuts"].outcome == "warning" and "1 of 7 exchanges" in report["shortcuts"].message
    assert "bend and school" in report["shortcuts"].message


def test_a_score_of_the_traffic_scene_has_every_group():
    scores = train(load("traffic_scene", train=16, test=8))
    assert {"concept_accuracy/light", "concept_accuracy/obstacle", "concept_accuracy/sign"} <= set(scores)


def test_traffic_signs_come_from_the_benchmark_s_folder_and_a_tiny_training_runs(tmp_path, write_signs):
    signs = functions("traffic_signs")["SIGNS"]
    write_signs(tmp_path, dict.fromkeys(signs, 5))
    for split in ("test", "validation"):
        task = load("traffic_signs", train=8, test=4, split=split, gtsrb=str(tmp_path))
        data = task.data(Streams(0))
        shown = (data.train.inputs[:, :, 0, 0, 0] * 255 / 6).round().long()  # [8, 2]; red tells the class
        assert torch.equal(torch.tensor(list(signs))[data.train.concepts], shown)
        assert data.anchors.inputs.shape == (8, 3, 32, 32) and data.tests["test"].inputs.shape == (4, 2, 3, 32, 32)
    assert compilation(task).how == "exact" and 0 <= train(task)["concept_accuracy"] <= 1


def test_traffic_signs_without_a_folder_say_which_photographs_they_need(monkeypatch):
    monkeypatch.delenv("SOFTPNET_GTSRB", raising=False)
    message = check_task(load("traffic_signs", train=8, test=4), **TINY)["data"].message
    assert "German Traffic Sign Recognition Benchmark" in message and "--option gtsrb=FOLDER" in message


def test_parity_tells_no_two_digits_of_one_parity_apart():
    report = check_task(load("parity_xor", train=400, test=20), **TINY)
    assert report.ok and "20 of 45 exchanges" in report["shortcuts"].message


def test_the_answer_sets_are_the_latin_squares():
    task = load("latin_square")
    lines = torch.tensor(list(itertools.permutations(range(4))))  # [24, 4]
    squares = lines[torch.cartesian_prod(*[torch.arange(24)] * 4)]  # [24^4, 4, 4]
    latin = squares[(squares.sort(1).values == torch.arange(4)[:, None]).all(1).all(1)].flatten(1)
    assert len(latin) == 576 and torch.equal(task.rule.known_rows().rows, latin.unique(dim=0))
    corrupt = functions("latin_square")["corrupt"](latin, torch.Generator().manual_seed(0))
    assert (task.rule(latin) == 1).all() and (task.rule(corrupt) == 0).all()


def test_boards_of_sudoku_are_valid_and_corrupted_ones_are_not(generator):
    made = functions("sudoku9")
    boards = made["boards"](200, generator)
    assert (made["valid"](boards) == 1).all() and len(boards.unique(dim=0)) == 200
    assert (made["valid"](made["corrupt"](boards, generator)) == 0).all()
    rule = load("sudoku9").rule
    assert rule.label_of(boards[0].tolist()) == [1] and rule.label_of([0] * 81) is None


def test_a_tiny_training_of_sudoku_asks_the_solver():
    task = load("sudoku9", train=2, test=2)
    assert task.settings["targets"] == "solver"
    assert 0 <= train(task, warmup_steps=20)["concept_accuracy"] <= 1
