"""An exported model answers as the trained one does, without torch, and says what it cannot."""

import contextlib
import copy
import dataclasses
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Group, InputError, Learner, Machine, Rows, Task, runtime
from softpnet.export import formats, write
from softpnet.export import rule as shipped
from softpnet.networks.blank import table_rows
from softpnet.networks.calibration import Calibration
from softpnet.runtime import engines
from softpnet.runtime.inputs import ANY_NUMBER

ROOT = Path(__file__).parents[2]
SPACE = ConceptSpace(
    Group([0, 1], 3, "digit", value_names=[["stop", "yield", "go"]]), Group([2], (2, 2), "look", encoder="digit")
)
SPACE_OF_TWO = ConceptSpace(slots=2, values=3).all()
SHORT = dict(epochs=1, warmup_steps=2, batch_size=20, threads=1)


def rule(c):
    return torch.stack([c[..., 0] + c[..., 1], c[..., 2] * c[..., 3]], -1)


def encoder(channels=None):
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5))


def examples(count):
    """Inputs [N, 3, 4] and concepts [N, 4]."""
    generator = torch.Generator().manual_seed(0)
    concepts = (torch.rand(count, 4, generator=generator) * torch.tensor(SPACE.sizes)).long()
    primitives = torch.cat([concepts[:, :2], concepts[:, 2:3] * 2 + concepts[:, 3:]], 1)
    return torch.eye(4)[primitives] + 0.3 * torch.randn(count, 3, 4, generator=generator), concepts


ANCHORS = {"digit": Anchors(torch.eye(4)[:3], torch.arange(3)), "look": Anchors(torch.eye(4), torch.arange(4))}


def trained(task, **settings):
    inputs, concepts = examples(60)
    torch.manual_seed(0)
    model = Learner(task, **SHORT | settings).fit(inputs, task.rule(concepts), ANCHORS)
    # temperatures far from 1: an export that forgets them is found out
    model.calibration = Calibration(torch.tensor([0.5, 3.0]), torch.linspace(0.99, 0.2, 50))
    return model


@pytest.fixture(scope="module")
def model():
    return trained(Task(SPACE, rule, name="small", encoder=encoder))


@pytest.fixture(scope="module", params=[".onnx", ".pt2"])
def made(request, model, tmp_path_factory):
    """An export, once in each format."""
    path = tmp_path_factory.mktemp("export") / f"small{request.param}"
    return model.export(path, metrics={"test: concept_accuracy": 0.875})


@pytest.fixture(scope="module")
def opened(made):
    return runtime.load(made.path, threads=1)


def test_a_model_with_heads_in_place_of_prototypes_is_exported_too(tmp_path):
    other = trained(Task(SPACE, rule, name="small", encoder=encoder), method="abduction_anchored")
    inputs, _ = examples(7)
    opened = runtime.load(other.export(tmp_path / "heads.onnx").path, threads=1)
    found, own = opened.predict(inputs.numpy()), other.predict(inputs)
    np.testing.assert_allclose(found.probabilities, own.probabilities.numpy(), atol=1e-5)
    assert (found.concepts == own.concepts.numpy()).all() and (found.labels == own.labels.numpy()).all()


@pytest.fixture
def quickly():
    """torch's format needs no other library to be imported."""
    return lambda model, path: model.export(path / "model.pt2")


@pytest.mark.parametrize("count", [1, 3, 400])
def test_an_export_reads_any_number_of_examples_as_the_trained_model_does(model, opened, count):
    inputs, _ = examples(count)
    own, found = model.predict(inputs), opened.predict(inputs.numpy())
    np.testing.assert_allclose(found.probabilities, own.probabilities, atol=1e-5, rtol=0)
    assert (found.concepts == own.concepts.numpy()).all() and (found.labels == own.labels.numpy()).all()
    assert opened.names(found.concepts)[0] == [
        names[v] for names, v in zip(SPACE.value_names(), own.concepts[0], strict=True)
    ]


def test_a_rule_of_rows_that_repeat_gives_the_same_labels_elsewhere(model, tmp_path, quickly):
    rows = SPACE.all()[::5].repeat(3, 1)
    listed = copy.copy(model)
    listed.task = Task(SPACE, Rows(rows, labels=rule(rows), other=[-1, 7]), name="listed", encoder=encoder)
    found = runtime.load(quickly(listed, tmp_path).path).predict(3 * torch.randn(400, 3, 4).numpy())
    assert len(np.unique(found.concepts, axis=0)) > 18  # listed ones, and others
    assert (found.labels == listed.task.rule(torch.from_numpy(found.concepts)).numpy()).all()


def test_what_is_written_is_one_file_and_a_card_that_says_what_it_is(made):
    assert sorted(made.path.parent.iterdir()) == sorted([made.path, made.card])
    assert made.difference <= write.TOLERANCE and made.limits == []
    card = made.card.read_text()
    for words in (
        "stop, yield, go",
        made.path.name,
        "float32 [N, 3, 4]",
        "0.8750",
        f"{made.difference:.1e}",
        "exact, from a table of all 36 assignments",
        "softpnet",
        "sha256",
    ):
        assert words in card, words


@pytest.mark.parametrize("reject", [0.0, 0.2, 0.5, 1.0])
def test_it_abstains_where_the_trained_model_does(model, opened, reject):
    inputs, _ = examples(40)
    own, found = model.predict(inputs, reject), opened.predict(inputs.numpy(), reject)
    assert (found.concepts == own.concepts.numpy()).all() and (found.labels == own.labels.numpy()).all()


def test_the_best_reading_for_a_known_label_is_that_of_all_assignments(model, opened):
    inputs, concepts = examples(30)
    labels, rows = rule(concepts.roll(1, 0)), SPACE.all()  # mostly not what would be read without them
    p = model.predict(inputs).probabilities.double()
    joint = torch.stack([p[:, i, rows[:, i]] for i in range(4)]).prod(0)  # [N, M]
    fits = (rule(rows) == labels[:, None]).all(-1)
    of_label = (joint * fits).sum(1)
    found = opened.feasible(inputs.numpy(), labels.numpy())
    assert (rule(torch.from_numpy(found.concepts)) == labels).all()
    best = (joint * fits).amax(1)
    np.testing.assert_allclose(found.probabilities, best / of_label, rtol=1e-3)
    np.testing.assert_allclose(found.label_probabilities, of_label, rtol=1e-3)
    assert (found.concepts != opened.predict(inputs.numpy()).concepts).any()


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np
from softpnet import runtime
model = runtime.load({path!r})
inputs = np.load({inputs!r})
found, known = model.predict(inputs, reject=0.9), model.feasible(inputs, [[2, 0]] * len(inputs))
print(model.task, found.labels.shape, known.concepts[:, :2].sum(1).tolist())
"""


def test_the_runtime_needs_what_the_page_installs_alone(model, tmp_path):
    path = model.export(tmp_path / "small.onnx").path
    np.save(tmp_path / "inputs.npy", examples(5)[0].numpy())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {word.partition(">=")[0].lower().replace("-", "_") for word in project["dependencies"]}
    page = (ROOT / "docs/shipping.md").read_text()
    names -= set(page.partition("\npip install ")[2].partition("\n")[0].split())
    names |= {"sklearn", "PIL", "onnx", "onnxscript"}
    assert "torch" in names
    code = BLOCKED.format(blocked=names, path=str(path), inputs=str(tmp_path / "inputs.npy"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "small (5, 2) [2, 2, 2, 2, 2]\n", done.stderr


def pixels(shape, kind):
    return np.arange(np.prod(shape)).reshape(shape).astype(kind)


@pytest.mark.parametrize(
    "inputs, said",
    [
        (pixels((2, 3, 4), "uint8"), None),
        (pixels((2, 3, 4), "float64"), None),
        (pixels((2, 3, 4), "float16"), None),
        (pixels((2, 3, 4), "bool"), None),
        (pixels((2, 3, 4), ">f4")[::-1], None),
        (pixels((1, 3, 4), "float32").tolist(), None),
        (pixels((2, 3, 4), "int64"), r"whole numbers \(int64\), but .* real ones .* or to uint8 if they are pix"),
        (pixels((2, 3, 4), "int32"), "whole numbers"),
        (pixels((2, 3, 4), "uint16"), "whole numbers"),
        (pixels((1, 3, 4), "int64").tolist(), "whole numbers"),
        (pixels((2, 3, 4), "complex64"), "inputs are complex64, expected real or whole numbers"),
        (pixels((2, 3, 4), "longdouble"), "expected real or whole numbers of at most 64 bits"),
        (np.full((2, 3, 4), "a"), "inputs are <U1"),
        ([[["a"] * 4] * 3], "inputs are <U1"),
        ([[[1.0], [1.0, 2.0]]], "inputs cannot be read as an array"),
        ([], "inputs have rank 1"),
        (pixels((2, 3, 4), "float32")[0, 0], r"inputs have rank 1 \(shape \[4\]\), expected \[N, n, ...\]"),
        (pixels((2, 3, 5), "float32"), r"inputs have size \[5\], expected \[4\] as in training"),
        (pixels((2, 3), "float32"), r"inputs have size \[\], expected \[4\]"),
        (pixels((2, 1, 4), "float32"), "inputs have 1 slots"),
        (np.zeros((0, 3, 4), np.float32), "inputs are empty"),
        (np.zeros((2, 0, 4), np.float32), "inputs have 0 slots"),
        (np.array([0, np.nan, 1, np.inf] * 6, np.float32).reshape(2, 3, 4), "too large for float32 in 2 of 2"),
        (np.full((1, 3, 4), 3e38, np.float32), "1 of 1 examples cannot be read, number 0 first: .* 3e[+]38 to 3e[+]38"),
        (np.full((1, 3, 4), -1e300), r"for float32 in 1 of 1, first -1e\+300 in number 0"),
    ],
)
def test_a_learner_and_its_export_take_the_same_inputs_and_refuse_others_in_the_same_words(model, opened, inputs, said):
    assert_same_answer(model, opened, inputs, said)


def test_an_export_warns_of_pixels_that_are_not_scaled_as_its_learner_does(tmp_path):
    images = torch.rand(8, 2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    task = Task(ConceptSpace(slots=2, values=2), lambda c: c.sum(-1), name="pixels")
    learner = Learner(task, encoder="mlp", epochs=1, warmup_steps=1)
    model = learner.fit(images, torch.arange(8) % 3, Anchors(images[:2, 0], torch.arange(2)))
    opened = runtime.load(model.export(tmp_path / "model.onnx").path)
    for read, given in ((model.predict, 254 * images), (opened.predict, (254 * images).numpy())):
        with pytest.warns(UserWarning, match="inputs go up to .*, but those of training are pixels of 0 to 1"):
            read(given)


def assert_same_answer(model, opened, inputs, said):
    """Of a Learner and of its export; of tensors too, where torch has such."""
    if said is None:
        own, found = model.predict(inputs), opened.predict(inputs)
        np.testing.assert_allclose(found.probabilities, own.probabilities, atol=1e-5, rtol=0)
        assert (found.concepts == own.concepts.numpy()).all()
        return
    alike = [inputs]
    with contextlib.suppress(TypeError):
        alike += [torch.from_numpy(inputs)]
    refusals = []
    for read, given in [(opened.predict, inputs), *((model.predict, each) for each in alike)]:
        with pytest.raises(InputError, match=said) as refused:
            read(given)
        refusals.append(str(refused.value))
    assert len(set(refusals)) == 1


class Columns(nn.Module):
    """Of three whole numbers, a small table looks up the first, a larger one the second, and the last counts."""

    def __init__(self):
        super().__init__()
        self.small, self.large, self.mix = nn.Embedding(5, 3), nn.Embedding(9, 3), nn.Linear(7, 4)

    def forward(self, x):
        return self.mix(torch.cat([self.small(x[:, 0]), self.large(x[:, 1]), x[:, 2:].float()], 1))


@pytest.fixture(scope="module")
def columns():
    torch.manual_seed(0)
    space = ConceptSpace(slots=2, values=3)
    task = Task(space, lambda c: c.sum(-1), name="columns", encoder=Columns())
    ids = torch.tensor([[0, 1, -1], [1, 2, 0], [2, 8, 1]])
    concepts = space.all()
    model = Learner(task, **SHORT).fit(ids[concepts], concepts.sum(-1), Anchors(ids, torch.arange(3)))
    return model, ids


@pytest.fixture(scope="module", params=[".onnx", ".pt2"])
def opened_columns(request, columns, tmp_path_factory):
    path = tmp_path_factory.mktemp("columns") / f"columns{request.param}"
    return runtime.load(columns[0].export(path).path, threads=1)


@pytest.mark.parametrize(
    "at, number, kind, said",
    [
        (0, 4, "int64", None),
        (1, 8, "uint16", None),
        (2, -7, "int32", None),
        (0, -1, "int64", "inputs hold the id -1 in number [0-9]+, expected 0 to 4, the rows of the encoder's table"),
        (0, 5, "int64", "inputs hold the id 5 in number [0-9]+, expected 0 to 4"),
        (1, 9, "int32", "inputs hold the id 9 in number [0-9]+, expected 0 to 8"),
        (1, -9, "int8", "inputs hold the id -9 in number [0-9]+, expected 0 to 8"),
        (0, 2**64 - 1, "uint64", "inputs hold the id 18446744073709551615 in number [0-9]+, expected 0 to 4"),
        (0, 1, "float32", r"inputs are real numbers \(float32\), but those of training are whole ones"),
        (0, 1, "uint8", r"inputs are real numbers \(uint8\), but those of training are whole ones"),
    ],
)
def test_ids_outside_the_table_that_looks_them_up_are_refused_by_both(columns, opened_columns, at, number, kind, said):
    model, ids = columns
    inputs = ids[1].expand(4, 2, 3).numpy().astype(kind)
    inputs[3, 1, at] = number
    assert_same_answer(model, opened_columns, inputs, said)


def test_ids_outside_the_table_are_refused_of_sources_and_before_training(columns):
    model, ids = columns
    wrong = ids.clone()
    wrong[2, 0] = 5
    with pytest.raises(InputError, match=r"inputs hold the id 5 in number [0-9]+, expected 0 to 4"):
        model.predict(list(wrong[SPACE_OF_TWO]))
    for inputs, anchors, what in ((wrong, ids, "inputs"), (ids, wrong, "anchors of group 'concept'")):
        with pytest.raises(InputError, match=rf"{what} hold the id 5 in number [0-9]+, expected 0 to 4"):
            labels = SPACE_OF_TWO.sum(-1)
            Learner(model.task, **SHORT).fit(inputs[SPACE_OF_TWO], labels, Anchors(anchors, torch.arange(3)))


def test_ids_that_an_encoder_changes_before_it_looks_them_up_may_be_any(columns):
    class Padded(Columns):
        def forward(self, x):
            return super().forward(x.clamp(min=0))

    blank = torch.zeros(1, 3, dtype=torch.int64)
    assert table_rows(Columns(), blank).tolist() == [5, 9, ANY_NUMBER]
    assert table_rows(Padded(), blank).tolist() == [ANY_NUMBER] * 3


@pytest.mark.parametrize("ending", [".onnx", ".pt2"])
def test_any_name_of_a_group_or_encoder_can_be_exported(tmp_path, ending):
    name, other = 'speed "v" (km, h); [m]', "a\\nb"
    groups = Group([0, 1], 3, name), Group([2], (2, 2), "look", encoder=other)
    anchors = {name: ANCHORS["digit"], "look": ANCHORS["look"]}
    inputs, concepts = examples(60)
    task = Task(ConceptSpace(*groups), rule, encoder={name: encoder(), other: encoder()})
    for method in ("softpnet", "abduction_anchored"):
        named = Learner(task, method=method, **SHORT).fit(inputs, rule(concepts), anchors)
        opened = runtime.load(named.export(tmp_path / f"{method}{ending}").path)
        assert (opened.predict(inputs.numpy()).concepts == named.predict(inputs).concepts.numpy()).all()


def test_labels_and_shares_that_make_no_sense_are_named(opened):
    inputs = examples(2)[0].numpy()
    with pytest.raises(InputError, match=r"label \[9, 0\] of example 1; .*10 labels, \[0, 0\] to \[4, 1\]"):
        opened.feasible(inputs, [[0, 0], [9, 0]])
    with pytest.raises(InputError, match=r"labels are int64 \[2\], expected whole numbers \[2, 2\]"):
        opened.feasible(inputs, [1, 2])
    with pytest.raises(InputError, match="reject is 5, expected a share"):
        opened.predict(inputs, reject=5)


def test_files_that_are_no_exports_are_named(model, tmp_path, monkeypatch):
    for name, said in (("a.onnx", "not end in its sha256"), ("a.pt2", "not end in its"), ("a.txt", "ends in '.txt'")):
        for content in (b"something else", b""):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(InputError, match=said):
                runtime.load(tmp_path / name)
    with pytest.raises(InputError, match=r"there is no file .*softpnet export RUN"):
        runtime.load(tmp_path / "none.onnx")
    made = model.export(tmp_path / "made.onnx").path
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime is missing; pip install .softpnet\[runtime\]"):
        runtime.load(made)


def test_a_damaged_export_is_refused_before_it_is_parsed(made, monkeypatch):
    """Bits changed at random and at both ends, a part cut off, something added, and one without its sha256."""
    data = made.path.read_bytes()
    places = np.random.default_rng(0).integers(0, 8 * len(data), 30)
    damaged = [flipped(data, int(place)) for place in (0, *places, 8 * len(data) - 1)]
    damaged += [data[:-1], data[:100], data + b"\n", data[: -len(engines.SEALS[made.path.suffix]) - engines.DIGITS]]
    monkeypatch.setitem(engines.ENGINES, made.path.suffix, lambda *given: pytest.fail("it was parsed"))
    for each in damaged:
        with pytest.raises(InputError, match=r"sha256.*; export the run again$"):
            runtime.Model(each, made.path)


def flipped(data, bit):
    """The data with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.fixture(scope="module")
def shipped_onnx(model, tmp_path_factory):
    """An ONNX export, parsed by another library."""
    path = model.export(tmp_path_factory.mktemp("forged") / "small.onnx").path
    return import_module("onnx").load(path)


@pytest.fixture
def forged(shipped_onnx, tmp_path):
    """From an ONNX model that was changed, the runtime's model, with a sha256 that fits."""

    def open_forged(change):
        proto = copy.deepcopy(shipped_onnx)
        del proto.metadata_props[1:]  # its own sha256
        change(proto)
        path = tmp_path / "forged.onnx"
        path.write_bytes(engines.sealed(proto.SerializeToString(), ".onnx"))
        return runtime.load(path, threads=1)

    return open_forged


def odd_notes(text):
    """Notes as `export` never writes them, by what is odd, and whether they may be read all the same."""
    plain = json.loads(text)
    fine: dict[str, list] = {"task": ["foo"], "rule_said": ["foo"], "confidences": [None, [0]], "rule": [None]}
    fine |= {"format": [-1, 0], "table_rows": [None], "unit_pixels": [True]}
    for name, own in plain.items():
        for value in (None, True, -1, 0, 2**80, 0.5, "foo", [], {}, [0], [[]], ["foo"], [["foo"], []], [1e-9, 2]):
            same = any(type(value) is type(each) and value == each for each in fine.get(name, []))
            yield f"{name}: {value!r}", json.dumps(plain | {name: value}), same
        for number in ("Infinity", "NaN", "1e999", "[1e999]", "[" * 99_999 + "]" * 99_999):
            yield f"{name}: {number:.9}", json.dumps(plain | {name: "%"}).replace('"%"', number), False
        yield f"no {name}", json.dumps({key: each for key, each in plain.items() if key != name}), False
        yield f"{name}s too", json.dumps(plain | {f"{name}s": own}), False
    rule = plain["rule"]
    for name, value in (
        ("order", [0, 1, 2, 9]),
        ("order", [0, 1, 2, -1]),
        ("order", [0, 1]),
        ("order", []),
        ("edges", []),
        ("edges", rule["edges"][:-1]),
        ("edges", rule["edges"][::-1]),
        ("edges", [rule["labels"]] * 4),
        ("labels", rule["edges"][0] | {"shape": [1, 1, *rule["edges"][0]["shape"]]}),
        ("labels", rule["labels"] | {"shape": []}),
        ("labels", rule["labels"] | {"shape": [0, 2]}),
        ("labels", rule["labels"] | {"shape": [-1, 2]}),
        ("labels", rule["labels"] | {"shape": [1] * 99 + [10, 2]}),
        ("labels", rule["labels"] | {"type": "<f8"}),
        ("labels", rule["labels"] | {"data": "????"}),
        ("labels", rule["labels"] | {"data": "AAAA"}),
        ("labels", rule["labels"] | {"data": rule["labels"]["data"][:8]}),
    ):
        yield f"rule: {name} {value!r:.30}", json.dumps(plain | {"rule": rule | {name: value}}), False
    names = plain["value_names"]
    for forgery in (
        {"slots": 2},
        {"input_shape": [5]},
        {"input_shape": [4, 1]},
        {"input_type": "int64"},
        {"traced_rule": True, "rule": None},
        {"value_names": names[:-1], "rule": None},
        {"value_names": [*names, ["more"]], "rule": None},
        {"value_names": [each[:1] for each in names], "rule": None},
        {"value_names": [[*each, "more"] for each in names], "rule": None},
        {"table_rows": {"type": "<i1", "shape": [1], "data": "eJxjBAAAAgAC"}},
    ):
        yield str(forgery), json.dumps(plain | forgery), False


def test_forged_notes_are_refused_in_one_sentence(forged, shipped_onnx):
    notes = shipped_onnx.metadata_props[0].value
    wrong = []
    for what, text, fine in odd_notes(notes):
        outcome = None
        try:
            opened = forged(lambda proto, text=text: setattr(proto.metadata_props[0], "value", text))
            inputs = np.zeros((2, opened.slots % 9, *opened.input_shape), opened.input_type)
            opened.names(opened.predict(inputs, reject=None if "confidences" in what else 0.1).concepts)
            if "rule" not in what:
                opened.feasible(inputs, [[2, 0]] * 2)
        except InputError as error:
            outcome = str(error)
        except Exception as error:
            outcome = f"a {type(error).__name__}\n"
        if (outcome is None) != fine or "\n" in (outcome or ""):
            wrong.append(f"{what}: {outcome}")
    assert "\n".join(wrong) == ""


def test_a_network_that_gives_something_else_is_refused_in_one_sentence(forged):
    onnx = import_module("onnx")

    def flat(proto):
        graph = proto.graph
        last = graph.node.add(op_type="Flatten", input=["log_probabilities"], output=["flat"])
        last.attribute.add(name="axis", i=1, type=onnx.AttributeProto.INT)
        graph.output[1].CopyFrom(onnx.helper.make_tensor_value_info("flat", onnx.TensorProto.FLOAT, None))

    def renamed(proto):
        proto.graph.output.pop()

    for change in (flat, renamed):
        with pytest.raises(InputError, match=r"gives what its notes do not say; export the run again$"):
            forged(change).predict(examples(2)[0].numpy())


def test_weights_in_another_file_are_not_read(forged, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def move_weights(proto):
        weight = max(proto.graph.initializer, key=lambda each: len(each.raw_data))
        (tmp_path / "weights.bin").write_bytes(weight.raw_data)
        import_module("onnx.external_data_helper").set_external_data(weight, "weights.bin")
        weight.ClearField("raw_data")
        weight.data_location = import_module("onnx").TensorProto.EXTERNAL

    with pytest.raises(InputError, match=r"cannot be opened \(.*External data"):
        forged(move_weights)


def test_a_machine_that_sees_the_label_ships_its_table_or_else_the_traced_rule(model, tmp_path, monkeypatch, quickly):
    machine = Machine(
        (0, 0),
        lambda s, concept, v, labels: torch.stack(
            [s[:, 0] + v, s[:, 1]] if concept < 2 else [s[:, 0], s[:, 1] * 2 + v], 1
        ),
        accept=lambda s, labels: (s[:, 0] == labels[:, 0]) & ((s[:, 1] == 3) == (labels[:, 1] == 1)),
        rule=rule,
    )
    seeing = copy.copy(model)
    seeing.task = Task(SPACE, machine, name="seeing", encoder=encoder)
    inputs = examples(9)[0]
    assert quickly(seeing, tmp_path).limits == []
    monkeypatch.setattr(shipped, "TABLE", 10)
    (limit,) = quickly(seeing, tmp_path).limits
    found = runtime.load(tmp_path / "model.pt2")
    assert "sees the label, and 36 assignments" in limit
    assert (found.predict(inputs.numpy()).labels == model.predict(inputs).labels.numpy()).all()
    with pytest.raises(InputError, match="the best reading for a known label cannot be found"):
        found.feasible(inputs.numpy(), np.zeros((9, 2), int))


def test_a_rule_with_neither_diagram_nor_trace_leaves_the_concepts(model, tmp_path, uncompiled, quickly):
    def asking(c):  # as a solver is
        return torch.tensor([[a + b, d * e] for a, b, d, e in c.reshape(-1, 4).tolist()]).view(*c.shape[:-1], 2)

    other = copy.copy(model)
    other.task = uncompiled(dataclasses.replace(model.task, rule=asking))
    written = quickly(other, tmp_path)
    found = runtime.load(written.path)
    assert len(written.limits) == 2 and "apply the rule to the concepts yourself" in written.limits[1]
    assert found.predict(examples(2)[0].numpy()).labels is None and found.limits == written.limits
    assert all(limit[1:] in written.card.read_text() for limit in written.limits)


class Branching(nn.Module):
    def forward(self, x):
        return x.flatten(1) * 2 if x.sum() > 0 else x.flatten(1)


def test_an_encoder_that_cannot_be_traced_is_named(tmp_path, quickly, capfd):
    branching = trained(Task(SPACE, rule, name="branching", encoder=nn.Sequential(Branching(), nn.Linear(4, 5))))
    with pytest.raises(InputError) as refused:
        quickly(branching, tmp_path)
    line = Branching.forward.__code__.co_firstlineno + 1
    assert str(refused.value) == (
        f"the encoder of task 'branching' cannot be traced: test_export.py:{line} looks at a value "
        "(`return x.flatten(1) * 2 if x.sum() > 0 else x.flatten(1)`); write its forward with operations on whole "
        "tensors"
    )
    assert list(tmp_path.iterdir()) == [] and capfd.readouterr() == ("", "")  # nothing of what torch logs and prints


class Looping(nn.Module):
    def forward(self, x):
        return torch.stack([row * 2 for row in x.flatten(1)])


class Numpy(nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.flatten(1).detach().numpy())


@pytest.mark.parametrize(
    "kind, said",
    [
        (Looping, "traced: it works for one number of inputs alone, as a loop over them does; write"),
        (Numpy, r"traced: test_export.py:\d+ \(`return torch.from_numpy\(.*`\) fails with '.*numpy.*'; write"),
    ],
)
def test_why_an_encoder_cannot_be_traced_is_one_sentence(tmp_path, quickly, kind, said):
    other = trained(Task(SPACE, rule, name="other", encoder=nn.Sequential(kind(), nn.Linear(4, 5))))
    with pytest.raises(InputError, match=said):
        quickly(other, tmp_path)


def test_a_card_belongs_to_one_file(model, tmp_path):
    (tmp_path / "model.md").write_text("mine")
    cards = [model.export(tmp_path / name).card for name in ("model.onnx", "model.pt2")]
    assert [card.name for card in cards] == ["model.onnx.md", "model.pt2.md"]
    assert all(card.stem in card.read_text() for card in cards) and (tmp_path / "model.md").read_text() == "mine"


@pytest.mark.parametrize("difference", [0.25, float("nan")])
def test_an_export_that_reads_otherwise_is_not_written(model, tmp_path, monkeypatch, quickly, difference):
    monkeypatch.setattr(write, "largest_difference", lambda *given: difference)
    with pytest.raises(InputError, match=r"differs by .* expected at most 1e-05; nothing was written"):
        quickly(model, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_largest_difference_is_that_of_the_worst_probability(model, tmp_path, quickly):
    opened = runtime.load(quickly(model, tmp_path).path)
    inputs, other = examples(20)[0], copy.copy(model)
    other.calibration = Calibration(torch.tensor([0.5, 2.0]), model.calibration.confidences)
    expected = (other.predict(inputs).probabilities - model.predict(inputs).probabilities).abs().max()
    assert write.largest_difference(other, opened, inputs) == pytest.approx(float(expected), abs=1e-5)


def test_what_export_lacks_or_is_told_wrongly_is_named(model, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"ends in .onnx or .pt2"):
        model.export(tmp_path / "model.bin")
    with pytest.raises(InputError, match="not trained yet"):
        Learner(model.task).export(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"the package onnxscript is missing; pip install .softpnet\[export\]"):
        model.export(tmp_path / "model.onnx")


def test_an_operation_that_onnx_lacks_leads_to_torch(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return torch.special.i1(x.flatten(1))

    odd = trained(Task(SPACE, rule, name="odd", encoder=nn.Sequential(Odd(), nn.Linear(4, 5))))
    with pytest.raises(InputError, match=r"cannot be written as ONNX: ONNX lacks prims.bessel_i1; .* --to torch$"):
        odd.export(tmp_path / "model.onnx")
    assert odd.export(tmp_path / "model.pt2").difference <= write.TOLERANCE


def test_the_example_serves_an_export(model, tmp_path, monkeypatch, quickly):
    monkeypatch.setenv("MODEL", str(quickly(model, tmp_path).path))
    app = runpy.run_path(str(ROOT / "examples/serving/app.py"))["app"]
    inputs = examples(2)[0]
    with import_module("fastapi.testclient").TestClient(app) as client:
        sent = inputs.tolist(), [[1]], [[1], []], [[[1, 0, 0, 0]] * 3]
        answer, refused, ragged, whole = (client.post("/read", json=each) for each in sent)
    own = model.predict(inputs)
    names = [[SPACE.value_names()[i][v] for i, v in enumerate(row)] for row in own.concepts.tolist()]
    assert answer.json() == {"concepts": names, "labels": own.labels.tolist()}
    assert refused.status_code == 422 and "expected the 3 of the space" in refused.json()["detail"]
    assert ragged.status_code == 422 and whole.status_code == 200


def test_the_page_runs(model, made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runtime, "load", lambda path, load=runtime.load: load(made.path))  # in either format
    inputs, concepts = examples(4)
    own = copy.deepcopy(model)
    shown = {"photographs": inputs[:, 0], "one_more": inputs[0, 1]}
    namespace = {"inputs": inputs.numpy(), "labels": rule(concepts).numpy(), "model": own, **shown}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs/shipping.md").read_text(), flags=re.DOTALL):
        exec(block, namespace)
    assert capsys.readouterr().out.startswith("['") and int((own.anchors[0].primitives == 0).sum()) == 5
    assert not torch.equal(own.prototypes()[0][0], model.prototypes()[0][0])


@pytest.fixture
def run_folder(tmp_path, softpnet_here):
    """A run of the command line, and its task's file."""
    task = tmp_path / "my_task.py"
    task.write_text((ROOT / "CONTRIBUTING.md").read_text().partition("```python\n")[2].partition("```")[0])
    code, _, error = softpnet_here("train", task, "--epochs", 1, "--out", tmp_path / "run", "--no-pictures")
    assert code == 0, error
    return tmp_path / "run", task


def test_the_command_writes_a_run_and_prints_the_difference(softpnet_here, run_folder):
    run, task = run_folder
    code, out, error = softpnet_here("export", run, "--to", "torch", "--task", task)
    assert code == 0, error
    assert f"{run}/model.pt2: " in out and "largest difference to the trained model" in out
    assert "test: concept_accuracy" in (run / "model.pt2.md").read_text()
    assert runtime.load(run / "model.pt2").task == "sum"
    code, _, error = softpnet_here("export", run, "--to", "torch", "--out", "model.onnx", "--task", task)
    assert code == 2 and "--to torch writes a file that ends in .pt2" in error


def test_folders_that_cannot_be_exported_are_named(softpnet_here, run_folder, list_again, tmp_path):
    run, task = run_folder
    code, _, error = softpnet_here("export", tmp_path / "nothing")
    assert code == 2 and "there is no folder" in error and "softpnet train TASK --out" in error
    config = json.loads((run / "config.json").read_text())
    newer = config | {
        "settings": config["settings"] | {"swirl": 1},
        "versions": config["versions"] | {"softpnet": "99.1"},
    }
    (run / "config.json").write_text(json.dumps(newer))
    list_again(run)
    code, _, error = softpnet_here("export", run, "--task", task)
    assert code == 2 and "was written by softpnet 99.1, newer than this" in error
    assert error.rstrip().endswith("; upgrade softpnet (it has an unknown entry 'swirl' in 'settings')")
    (run / "config.json").write_text(json.dumps(config))
    list_again(run)
    os.remove(run / "model.safetensors")
    code, _, error = softpnet_here("export", run, "--task", task)
    assert code == 2 and "model.safetensors is missing" in error
    assert f"make it again with `softpnet train TASK --out {run} --resume`" in error


def test_every_format_has_its_engine():
    assert set(engines.ENGINES) == set(formats.FORMATS) == set(formats.ENDINGS.values())
