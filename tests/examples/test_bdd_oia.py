"""BDD-OIA is read from files of the usual format, without running what they hold, and its task learns from them."""

import io
import itertools
import math
import os
import pickle
import runpy
import struct
import zipfile
from pathlib import Path

import bdd_oia_data as bdd_oia
import numpy
import pytest
import torch

import softpnet as sp
from softpnet import tasks
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
            records.append({"img_path": name, "class_label": label, "attribute_label": columns[number].tolist()})
            torch.save(features[number, None].clone(), folder / "inputs" / f"{split}{number}.pt")
        (folder / f"{split}_BDD_OIA.pkl").write_bytes(pickle.dumps(records))
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
        ([RECORD | {"img_path": "other.jpg"}], "other.pt' cannot be read: No such file"),
        ([RECORD | {"img_path": "short.jpg"}], r"short.pt cannot be read as .* shape \(3,\) of torch.FloatStorage"),
        ([RECORD | {"img_path": "whole.jpg"}], r"whole.pt cannot be read as 2,048 real .* of torch.LongStorage"),
        ([RECORD | {"img_path": "list.jpg"}], "list.pt cannot be read as 2,048 real numbers: its operation EMPTY_LIST"),
        ([RECORD | {"img_path": "torn.jpg"}], "torn.pt cannot be read as 2,048 real numbers: .*; write it by torch"),
        ([RECORD | {"img_path": 10**5 * "a"}], "image 0 of .* expected a dict with img_path|File name too long"),
        (["a.jpg"], "image 0 of .* is 'a.jpg', expected a dict"),
        ([], "holds list, expected a list with a dict per image"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path, records, sentence):
    write(tmp_path, train=1, test=1, val=1)
    for name, value in {"short": torch.zeros(3), "whole": torch.zeros(2048).long(), "list": [1, 2]}.items():
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


def pickled(folder, data):
    (folder / "val_BDD_OIA.pkl").write_bytes(data)
    return bdd_oia.load("val", folder)


@pytest.mark.parametrize("value", [Harm(os.mkdir, "made"), Harm(eval, "1"), numpy.zeros(3), numpy.int64(1), object()])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_call_something_is_refused_and_nothing_is_called(tmp_path, monkeypatch, value, protocol):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sp.InputError, match=r"pkl cannot be read: its operation .* makes no plain value; exp"):
        pickled(tmp_path, pickle.dumps([RECORD, value], protocol))
    assert os.listdir() == ["val_BDD_OIA.pkl"]


def doubled(start, again, times):
    """Whatever is made first, and the last value twice so many times over."""
    return b"\x80\x04" + start + b"\x94" + b"".join(
        again(b"h" + bytes([at]) + b"h" + bytes([at])) + b"\x94" for at in range(times)
    )  # fmt: skip


HOSTILE = {
    "nothing": b"",
    "no pickle": b"no pickle",
    "cut off": pickle.dumps([RECORD])[:-9],
    "attributes of a function": b"\x80\x04cnumpy\narray\n}X\x01\x00\x00\x00aK\x01sb.",
    "lists in lists": doubled(b"]", lambda two: b"](" + two + b"e", 60) + b".",
    "keys that take for ever": doubled(b")", lambda two: two + b"\x86", 60) + b"}h\x3cK\x01s.",
    "numbers that are the same key": b"\x80\x04}\x8a\x08" + bytes(8) + b"K\x01s.",
    "a large table of values": b"\x80\x04]r\xff\xff\xff\x7f.",
    "a byte a list": b"\x80\x04](" + (bdd_oia.LISTS_LIMIT + 1) * b"]" + b"e.",
    "an array of no columns": pickle.dumps([RECORD | {"class_label": numpy.zeros((5 * 10**7, 0))}]),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_damaged_or_hostile_pickle_is_one_short_sentence(tmp_path, data):
    with pytest.raises(sp.InputError) as refused:
        pickled(tmp_path, data)
    assert len(str(refused.value)) < 700 and "expected" in str(refused.value)


def test_plain_values_of_every_protocol_that_python_3_writes_are_read():
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        record = RECORD | {"id": 70_000, "class_label": [1.0, 0.0, 0.0, False, 0.0], "more": [None, "é", -1]}
        assert bdd_oia._unpickled(pickle.dumps([record], protocol), bdd_oia.RECORDS) == [record]


def tensor_file(numbers=b"", notes=None, compress=zipfile.ZIP_STORED):
    """A file as torch.save writes it, of these bytes, with other notes or compressed."""
    whole, made = io.BytesIO(), io.BytesIO()
    torch.save(torch.zeros(1, 2048), whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(made, "w", compress) as new:
        for name in old.namelist():
            replaced = {"data.pkl": notes, "data/0": numbers}.get(name.partition("/")[2])
            new.writestr(name, replaced or old.read(name))
    return made.getvalue()


LARGE = pickle.dumps(Harm(torch._utils._rebuild_tensor_v2, (0, 0, "0"), 0, (10**9, (1, 2)), (1, 1)), 2)


@pytest.mark.parametrize(
    "data, sentence",
    [
        (tensor_file(notes=pickle.dumps([Harm(os.mkdir, "made")])), "its operation .* makes no plain value"),
        (tensor_file(notes=pickle.dumps(Harm(os.mkdir, "made"), 2)), "it holds no tensor"),
        (tensor_file(notes=LARGE), "it holds the shape|object has no attribute"),
        (tensor_file(compress=zipfile.ZIP_DEFLATED), "it is compressed, which could expand to any size"),
        (tensor_file(bytes(8188)), "out of bounds"),
        (tensor_file(struct.pack("<2048f", *range(2047), math.nan)), r"holds nan at \[2047\], expected finite"),
        (b"PK\x03\x04", "not a zip file"),
        (bytes(bdd_oia.SIZE_LIMIT + 1), r"has 16,777,217 bytes, expected at most 16,777,216"),
    ],
)
def test_a_tensor_file_is_read_only_where_its_numbers_lie_in_it(folder, tmp_path, monkeypatch, data, sentence):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, train=1, test=1, val=2)
    (tmp_path / "inputs/val1.pt").write_bytes(data)
    with pytest.raises(sp.InputError, match=f"val1.pt.*(?:{sentence})"):
        bdd_oia.load("val", tmp_path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
def test_a_part_of_a_larger_tensor_is_read_as_torch_reads_it(tmp_path, kind):
    write(tmp_path, train=1, test=1, val=1)
    numbers = torch.arange(3 * 2048).view(2048, 3).to(kind).T  # whose rows do not lie side by side
    torch.save(numbers[1, None].requires_grad_(), tmp_path / "inputs/val0.pt")
    assert torch.equal(bdd_oia.load("val", tmp_path).features, numbers[1, None].float())


def test_too_large_a_number_and_a_pipe_are_refused(tmp_path):
    write(tmp_path, train=1, test=1, val=1)
    torch.save(torch.full((2048,), 1e300, dtype=torch.float64), tmp_path / "inputs/val0.pt")
    with pytest.raises(sp.InputError, match=r"val0.pt holds 1e\+300 at \[0\], expected finite numbers"):
        bdd_oia.load("val", tmp_path)
    (tmp_path / "inputs/val0.pt").unlink()
    os.mkfifo(tmp_path / "inputs/val0.pt")
    with pytest.raises(sp.InputError, match=r"val0.pt cannot be read: it is no file"):
        bdd_oia.load("val", tmp_path)


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
