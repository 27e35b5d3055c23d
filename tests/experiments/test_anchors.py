"""Two experiments on anchors: how many it takes, and whether suggested ones are better than random ones."""

import json
from pathlib import Path

import pytest
import torch

import softpnet as sp
from softpnet import tasks
from softpnet.cli.table import chosen_rows
from softpnet.experiments import label_next
from softpnet.experiments.anchors import ANCHORS, FEW, FEWEST, SUGGEST, TASKS, number
from softpnet.experiments.reproduce import run_missing
from softpnet.experiments.rows import Row, comparable
from softpnet.rules.exchange import alike
from softpnet.task.data import make_data
from softpnet.training.streams import Streams

BASE = """
import torch
from torch import nn
import softpnet as sp

def task(split="test"):
    def data(streams):
        concepts = torch.randint(3, (30, 2), generator=streams("data"))
        inputs = nn.functional.one_hot(concepts, 3) + 0.3 * torch.randn(30, 2, 3, generator=streams("data"))
        examples = sp.Examples(inputs, concepts.sum(-1), concepts)
        return sp.Data(examples, sp.Anchors(torch.eye(3), torch.arange(3)), {split: examples})

    settings = dict(epochs=1, batch_size=8, warmup_steps=2)
    return sp.Task(sp.ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="sums", data=data, settings=settings,
                   encoder=lambda size: nn.Linear(size, 4))
"""
FILE = str(Path(label_next.__file__))


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "sums.py"
    path.write_text(BASE)
    return str(path)


def made(seed=0, **options):
    return make_data(tasks.load(FILE, options), Streams(seed))


@pytest.mark.parametrize("choice", ["suggested", "random"])
def test_so_many_training_slots_join_the_anchors_with_what_they_show(base, choice):
    plain, more = make_data(tasks.load(base), Streams(0)), made(base=base, choice=choice, count="6")
    assert torch.equal(more.train.inputs, plain.train.inputs) and list(more.tests) == ["test"]
    assert torch.equal(more.anchors.inputs[:3], plain.anchors.inputs) and len(more.anchors.inputs) == 9
    slots, shown = plain.train.inputs.flatten(0, 1), plain.train.concepts.flatten()
    places = (more.anchors.inputs[3:, None] == slots).all(-1).int().argmax(1)  # [6]
    assert torch.equal(slots[places], more.anchors.inputs[3:]) and len(places.unique()) == 6
    assert torch.equal(shown[places], more.anchors.concepts[3:])


def test_random_slots_are_the_seeds_own_and_suggested_ones_are_the_models(base):
    def random(seed):
        return made(seed, base=base, choice="random", count="6").anchors.inputs

    assert torch.equal(random(0), random(0)) and not torch.equal(random(0)[3:], random(1)[3:])
    plain, found = tasks.load(base), made(base=base, count="2").anchors
    train = make_data(plain, Streams(0)).train
    seed = int(torch.randint(2**31, (), generator=Streams(0)("suggested")))
    model = sp.Learner(plain, seed=seed, threads=1).fit(
        train.inputs, train.labels, sp.Anchors(torch.eye(3), torch.arange(3))
    )
    slots = model.suggest_anchors(train.inputs, train.labels, 2)
    assert torch.equal(found.inputs[3:], train.inputs[slots[:, 0], slots[:, 1]])


def test_a_base_of_several_groups_is_refused(tmp_path):
    path = tmp_path / "two.py"
    groups = 'sp.Group([0], 2, name="a"), sp.Group([1], 2, name="b")'
    made = f"sp.Task(sp.ConceptSpace({groups}), lambda c: c.sum(-1))"
    path.write_text(f"import softpnet as sp\ndef task(split='test'):\n    return {made}\n")
    with pytest.raises(sp.InputError, match="has 2 groups, expected one"):
        tasks.load(FILE, {"base": str(path)})


def test_a_row_is_run_and_recorded_like_any_other(base, tmp_path):
    row = Row("small", "Small", FILE, options={"base": base, "count": "2"}, folder="suggest")
    assert list(run_missing([row], (0,), tmp_path, jobs=1)) == [(row, 0)]
    record = json.loads((tmp_path / "suggest/small.jsonl").read_text())
    assert record["task"] == "sums_suggested" and record["origin"]["options"] == dict(row.options)


def test_each_row_names_its_number_and_a_pair_of_choices_is_compared():
    assert {name: [number(row) for row in ANCHORS if comparable(row, TASKS[name])] for name in TASKS} == {
        "window": [1, 2, 5, 10], "evenodd": [0, 1, 2, 5, 10], "sudoku": [1, 2, 5, 10]
    }  # fmt: skip
    pairs = {row.league: [other for other in SUGGEST if comparable(row, other)] for row in SUGGEST}
    assert list(pairs) == ["suggest evenodd-3", "suggest 10"]
    for pair in pairs.values():
        assert [row.options["choice"] for row in pair] == ["suggested", "random"]
        one, other = ({**row.options, "choice": ""} for row in pair)
        assert one == other
    assert {row.name for row in chosen_rows(["anchors", "suggest"])} == {row.name for row in (*ANCHORS, *SUGGEST)}


def test_two_labels_are_one_0_and_one_1():
    assert tasks.load(FEW).data(Streams(0)).anchors.concepts.tolist() == [0, 1]


@pytest.mark.parametrize("name", TASKS)
def test_one_anchor_a_value_is_what_a_task_has_by_default(name):
    row = TASKS[name]
    plain, told = (make_data(tasks.load(row.task, {**row.options, "train": "160", **more}), Streams(0))
                   for more in ({}, {"anchors": "1"}))  # fmt: skip
    assert torch.equal(plain.anchors.inputs, told.anchors.inputs) and torch.equal(plain.train.inputs, told.train.inputs)


@pytest.mark.parametrize("name", TASKS)
def test_no_anchors_are_in_a_row_unless_the_rule_cannot_tell_values_apart(name):
    row = TASKS[name]
    refused = any(alike(tasks.load(row.task, row.options)))
    assert (name not in FEWEST) == refused
    if refused:
        with pytest.raises(sp.InputError, match="option anchors is 0, expected 1"):
            tasks.load(row.task, {**row.options, "anchors": "0"})
