"""BDD-OIA is read from files of the usual format, without running what they hold, and its task learns from them."""

import itertools
import os
import pickle
import runpy
from pathlib import Path

import numpy
import pytest
import torch

import softpnet as sp
from softpnet import tasks
from softpnet.data import bdd_oia, plain_pickles
from softpnet.rules.compile import compilation
from softpnet.training.streams import Streams

EXAMPLE = Path(__file__).parents[2] / "examples/bdd_oia.py"
SIZES = {"train": 400, "val": 20, "test": 100}


def usual_rule(c):
    """The rule a second time, in plain words: a row of 21 numbers -> four numbers."""
    green, follow, clear, red, sign = c[:5]
    obstacle, no_left, left, no_right, right = (max(c[a:b]) for a, b in ((5, 9), (9, 12), (12, 15), (15, 18), (18, 21)))
    if (green and red) or (clear and obstacle):
        return [2, 2, 2, 2]
    stop = red or sign or obstacle
    return [int((green or follow or clear) and not stop), stop, int(left and not no_left), int(right and not no_right)]


def scenes(count, generator):
    """Concepts [count, 21] that do not exclude each other, and their actions."""
    drawn = (torch.rand(4 * count, 21, generator=generator) < 0.25).long()
    actions = torch.tensor([usual_rule(row) for row in drawn.tolist()])
    possible = actions[:, 0] < 2
    return drawn[possible][:count], actions[possible][:count]


def write(folder, order="published", **sizes):
    """Files as the preprocessing makes them: features in which every concept has a direction of its own."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(21, 2048, generator=generator) / 10
    (folder / "inputs").mkdir(parents=True, exist_ok=True)
    for split, count in (SIZES | sizes).items():
        concepts, actions = scenes(count, generator)
        features = concepts.float() @ directions + 0.05 * torch.randn(count, 2048, generator=generator)
        blocks = dict(zip(bdd_oia.TURNS, concepts[:, 9:].split(3, 1), strict=True))
        columns = torch.cat([concepts[:, :9], *(blocks[name] for name in bdd_oia.ORDERS[order])], 1)
        records = []
        for number in range(count):
            name = f"{split}{number}.jpg"
            label = [*actions[number].tolist(), 0][: 4 + number % 2]  # some files have a fifth action, "confused"
            kind = numpy.array if number % 3 else list
            records.append({"img_path": name, "class_label": kind(label), "attribute_label": columns[number].tolist()})
            torch.save(features[number, None].clone(), folder / "inputs" / f"{split}{number}.pt")
        (folder / f"{split}_BDD_OIA.pkl").write_bytes(pickle.dumps(records, protocol=2 + len(split) % 3))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("bdd2048"))


def test_features_actions_and_concepts_are_those_of_the_files(folder):
    found = bdd_oia.load("val", folder)
    assert found.features.shape == (20, 2048) and found.features.dtype == torch.float32
    assert torch.equal(found.features[3], torch.load(folder / "inputs/val3.pt")[0])
    assert found.actions.tolist() == [usual_rule(row) for row in found.concepts.tolist()]
    assert found.concepts.shape == (20, len(bdd_oia.CONCEPTS)) and len(set(bdd_oia.CONCEPTS)) == 21


def test_the_folder_may_be_named_by_the_environment(folder, monkeypatch):
    monkeypatch.setenv("SOFTPNET_BDD_OIA", str(folder))
    assert torch.equal(bdd_oia.load("val").concepts, bdd_oia.load("val", folder).concepts)
    monkeypatch.delenv("SOFTPNET_BDD_OIA")
    with pytest.raises(sp.InputError, match=r"no folder .* is named; .* --option bdd_oia=FOLDER, or set SOFTPNET_BDD"):
        bdd_oia.load("val")


@pytest.mark.parametrize("order", ["named", "ruled"])
def test_another_order_of_the_columns_is_found_out_and_named(folder, tmp_path, order):
    write(tmp_path, order, train=1, test=1)
    with pytest.raises(sp.InputError, match=f"'published' the reasons of .*; add --option order={order}"):
        bdd_oia.load("val", tmp_path)
    found = bdd_oia.load("val", tmp_path, order)
    assert found.actions.tolist() == [usual_rule(row) for row in found.concepts.tolist()]


RECORD = {"img_path": "val0.jpg", "class_label": [1, 0, 0, 0], "attribute_label": [1] + 20 * [0]}


@pytest.mark.parametrize(
    "records, sentence",
    [
        ([RECORD, RECORD | {"class_label": [1, 0]}], "image 1 of .* expected a dict with img_path"),
        ([RECORD | {"attribute_label": 20 * [0]}], r"attribute_label \(21 of 0 and 1\)"),
        ([RECORD | {"attribute_label": 21 * [0.5]}], r"attribute_label \(21 of 0 and 1\)"),
        ([RECORD | {"img_path": "../../secret.jpg"}], "a name inside the folder"),
        ([RECORD | {"img_path": "/secret.jpg"}], "a name inside the folder"),
        ([RECORD | {"img_path": "other.jpg"}], "other.pt cannot be read: No such file"),
        ([RECORD | {"img_path": "short.jpg"}], r"short.pt holds torch.float32 \[3\], expected 2,048 real numbers"),
        ([RECORD | {"img_path": "list.jpg"}], "list.pt holds list, expected one tensor"),
        ([RECORD | {"img_path": "torn.jpg"}], "torn.pt cannot be read as a tensor"),
        (["a.jpg"], "image 0 of .* is 'a.jpg', expected a dict"),
        ([], "holds list, expected a list with a dict per image"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path, records, sentence):
    write(tmp_path, train=1, test=1, val=1)
    for name, value in {"short": torch.zeros(3), "list": [1, 2]}.items():
        torch.save(value, tmp_path / f"inputs/{name}.pt")
    (tmp_path / "inputs/torn.pt").write_bytes((tmp_path / "inputs/short.pt").read_bytes()[:100])
    (tmp_path / "val_BDD_OIA.pkl").write_bytes(pickle.dumps(records))
    with pytest.raises(sp.InputError, match=sentence):
        bdd_oia.load("val", tmp_path)


def test_a_missing_file_and_an_unknown_order_are_named(tmp_path):
    with pytest.raises(sp.InputError, match=r"there is no .*val_BDD_OIA.pkl, expected the preprocessed files"):
        bdd_oia.load("val", tmp_path)
    with pytest.raises(sp.InputError, match="order is 'mine', expected one of published, named, ruled"):
        bdd_oia.load("val", tmp_path, "mine")


class Harm:
    """What a hostile file would have the reader call."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("call", [os.mkdir, eval, numpy.save, getattr])
def test_a_pickle_that_would_call_something_is_refused_and_nothing_is_called(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        harm = pickle.dumps([RECORD, Harm(call, "__import__('os').mkdir('made')")], protocol)
        (tmp_path / "harm.pkl").write_bytes(harm)
        with pytest.raises(sp.InputError, match=f"it would call .*{call.__name__}; expected lists, dicts"):
            plain_pickles.read_pickle(tmp_path / "harm.pkl")
    torch.save([Harm(call, "__import__('os').mkdir('made')")], tmp_path / "harm.pt")
    with pytest.raises(sp.InputError, match=r"harm.pt cannot be read as a tensor"):
        plain_pickles.read_tensor(tmp_path / "harm.pt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["harm.pkl", "harm.pt"]


@pytest.mark.parametrize(
    "data", [b"", b"no pickle", b"\x80\x04K\x01", b"c_codecs\nencode\n(Vx\nVidna\ntR.", pickle.dumps(numpy.array([{}]))]
)
def test_a_damaged_pickle_is_refused(tmp_path, data):
    (tmp_path / "damaged.pkl").write_bytes(data)
    with pytest.raises(sp.InputError, match=r"damaged.pkl cannot be read as a pickle of plain values"):
        plain_pickles.read_pickle(tmp_path / "damaged.pkl")


def test_plain_values_of_every_protocol_are_read(tmp_path):
    value = {
        "bits": [0, 1],
        "array": numpy.arange(6, dtype=">f4").reshape(2, 3).T,
        "number": numpy.int64(7),
        "bytes": b"\xff",
        "none": None,
    }
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "plain.pkl").write_bytes(pickle.dumps(value, protocol))
        found = plain_pickles.read_pickle(tmp_path / "plain.pkl")
        assert found.pop("array").tolist() == [[0, 3], [1, 4], [2, 5]]
        assert found == {name: each for name, each in value.items() if name != "array"}


def test_large_files_pipes_and_an_old_torch_are_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.pkl")
    with pytest.raises(sp.InputError, match=r"pipe.pkl cannot be read: it is no file"):
        plain_pickles.read_pickle(tmp_path / "pipe.pkl")
    (tmp_path / "large.pkl").write_bytes(pickle.dumps([1, 2, 3]))
    monkeypatch.setattr(plain_pickles, "SIZE_LIMIT", 5)
    with pytest.raises(sp.InputError, match=r"large.pkl has .* bytes, expected at most 5"):
        plain_pickles.read_pickle(tmp_path / "large.pkl")
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with pytest.raises(sp.InputError, match=r"torch 2.5.1\+cpu can be made to run code .*; update it to 2.6"):
        plain_pickles.read_tensor(tmp_path / "large.pkl")


def test_the_rule_is_the_usual_one_and_compiled_exactly():
    task = tasks.load(str(EXAMPLE))
    generator = torch.Generator().manual_seed(0)
    rows = torch.cat(
        [torch.randint(2, (500, 21), generator=generator), (torch.rand(500, 21, generator=generator) < 0.15).long()]
    )
    assert task.rule(rows).tolist() == [usual_rule(row) for row in rows.tolist()]
    compiled = compilation(task)
    assert compiled.how == "exact" and sum(compiled.rule.count(compiled.rule.labels)) == 2**21
    feasible = {tuple(label) for label in compiled.rule.labels.tolist()}
    allowed = {bits for bits in itertools.product((0, 1), repeat=4) if not (bits[0] and bits[1])}
    assert feasible == allowed | {(2, 2, 2, 2)}


def test_anchors_are_labelled_training_images_of_either_value(folder):
    data = tasks.load(str(EXAMPLE), {"bdd_oia": str(folder), "anchors": 3}).data(Streams(0))
    train = data.train
    assert list(data.anchors) == list(bdd_oia.CONCEPTS)
    for at, (inputs, values) in enumerate(data.anchors.values()):
        assert values.tolist() == [0, 0, 0, 1, 1, 1]
        found = (inputs[:, None] == train.inputs[:, 0]).all(-1)  # [M, N]
        assert torch.equal(train.concepts[found.int().argmax(1), at], values) and found.any(1).all()
    judged = runpy.run_path(str(EXAMPLE))["task"](split="validation", bdd_oia=str(folder)).data(Streams(0))
    assert len(data.tests["test"].inputs) == SIZES["test"] and len(judged.tests["test"].inputs) == SIZES["val"]


def test_21_concepts_are_learned_from_actions_and_anchors_by_one_encoder(folder):
    task = tasks.load(str(EXAMPLE), {"bdd_oia": str(folder), "anchors": 40})
    data = task.data(Streams(0))
    labels = data.train.labels.clone()
    labels[:10] = torch.tensor([1, 1, 0, 0])  # forward and stop: dropped, since the task says so
    steps = {"epochs": 1, "warmup_steps": 150, "warmup_examples": 0, "copies": 1, "batch_size": 100}
    model = sp.Learner(task, seed=0, threads=1, **steps).fit(data.train.inputs, labels, data.anchors)
    assert model.score(*data.tests["test"])["concept_accuracy"] > 0.88  # three of four are "no"
    assert list(model.module.encoders) == ["of_scene"] and len(model.module.settled()) == 21
    with pytest.raises(sp.InputError, match=r"\[1, 1, 0, 0\]"):
        sp.Learner(task, infeasible="raise", **steps).fit(data.train.inputs, labels, data.anchors)


def test_the_command_of_the_page_trains_it(tmp_path, softpnet_here):
    write(tmp_path, train=60, test=10, val=1)
    options = ("--option", f"bdd_oia={tmp_path}", "--epochs", "1", "--warmup-steps", "2", "--label-noise", "0.05")
    code, out, error = softpnet_here("train", EXAMPLE, *options, "--out", tmp_path / "run", "--no-pictures")
    assert code == 0 and "concept accuracy" in out, error
