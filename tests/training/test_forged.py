"""Forged run folders, whose manifests fit: whatever they hold is refused with one sentence, and left as it is."""

import contextlib
import dataclasses
import json
import math
import shutil
import warnings

import pytest
import torch
from safetensors.torch import save
from torch import nn

from softpnet import Anchors, InputError, Learner, Settings, SoftPNetError, tasks
from softpnet.storage import from_safetensors
from softpnet.task.hardware import Hardware
from softpnet.training.config import Config, Origin

GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.rand(12, 2, 1, 4, 4, generator=GENERATOR)
LABELS = torch.randint(2, (12,), generator=GENERATOR)
ANCHORS = Anchors(torch.rand(3, 1, 4, 4, generator=GENERATOR), torch.arange(3))
RULE = """
import softpnet

def task(modulus: int = 3):
    space = softpnet.ConceptSpace(slots=2, values=3)
    return softpnet.Task(space, lambda c: c.sum(-1) % modulus, name="forged", settings={"targets": "cache"})
"""


def encoder(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(16 * channels, 4), nn.BatchNorm1d(4))


def fit(folder, progress=None, resume=False):
    small = {"epochs": 2, "batch_size": 4, "warmup_steps": 1, "episodes": 2, "working_set": 2, "threads": 1}
    model = Learner(tasks.load(str(folder.parent / "rule.py"), {"modulus": 2}), encoder=encoder, **small)
    return model.fit(INPUTS, LABELS, ANCHORS, run=folder, resume=resume, checkpoint_steps=1, progress=progress)


def resume(folder):
    return fit(folder, resume=True)


def load(folder):
    return Learner.load(folder, task=tasks.load(str(folder.parent / "rule.py"), {"modulus": 2}), encoder=encoder)


class Crash(Exception):
    pass


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that was stopped in its second epoch, after the first step, with a model of before."""
    home = tmp_path_factory.mktemp("made")
    (home / "rule.py").write_text(RULE)

    def crash(step):
        if (step.epoch, step.step) == (1, 1):
            raise Crash

    with pytest.raises(Crash):
        fit(home / "run", crash)
    fit(home / "whole").save(home / "model")
    return home


@pytest.fixture
def home(made, tmp_path):
    return shutil.copytree(made, tmp_path / "home")


def assert_refused(use, folder):
    """One sentence, whatever is tried, and not a byte in the folder is another one afterwards."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SoftPNetError) as refused:
            use(folder)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 1000, str(refused.value)
    lock = {name: data for name, data in before.items() if name == "lock"}
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    assert after | lock == before


# The configuration

WRONG = {  # what is put in the place of an entry, as the text of config.json has it
    "nothing": None,
    "null": "null",
    "true": "true",
    "a whole number": "3",
    "a fraction": "0.5",
    "text": '"x"',
    "a list": "[1]",
    "an empty object": "{}",
    "nested objects": '{"a": {"a": [{"a": null}]}}',
    "NaN": "NaN",
    "an infinite number": "1e999",
}
RIGHT = {  # of the settings, by their type, and of all other entries
    int: {"a whole number"},
    float: {"a whole number", "a fraction"},
    bool: {"true"},
    str: set(),
    ("task",): {"text"},
    ("origin",): {"null"},
    ("origin", "task"): {"text"},
    ("origin", "options"): {"an empty object", "nested objects"},
    ("origin", "sha256"): {"null"},
    ("seed",): {"a whole number"},
    ("encoder",): {"null", "text"},  # the one handed in comes first
    ("init",): {"null"},
    ("data",): {"null"},
    ("compiled",): {"null"},
    ("settings", "targets"): {"text"},
    ("given_by", "epochs"): set(),
    ("hardware", "threads"): {"null", "a whole number"},
    ("hardware", "processes"): {"a whole number"},
    ("hardware", "workers"): {"a whole number"},
    ("hardware", "batch_norm"): {"nothing"},  # runs of before lack it
    ("hardware", "wait_seconds"): {"nothing", "a whole number"},
    ("versions",): {"an empty object"},
    ("versions", "torch"): {"text", "nothing"},
    ("machine",): {"an empty object"},
    ("machine", "cores"): {"text", "nothing", "null", "a whole number"},
}
SETTINGS = [("settings", field.name) for field in dataclasses.fields(Settings)]
PLACES = [
    *((name,) for name in Config.__struct_fields__),
    *(("origin", name) for name in Origin.__struct_fields__),
    *SETTINGS,
    *(("hardware", field.name) for field in dataclasses.fields(Hardware)),
    ("given_by", "epochs"),
    ("versions", "torch"),
    ("machine", "cores"),
]


def put(folder, place, text, list_again):
    """Write the configuration with the text in an entry's place, or, without a text, no such entry; what was there."""
    config = json.loads((folder / "config.json").read_text())
    part = config[place[0]] if place[1:] else config
    value = part.pop(place[-1])
    if text is not None:
        part[place[-1]] = "HERE"
    (folder / "config.json").write_text(json.dumps(config).replace('"HERE"', text or ""))
    list_again(folder)
    return value


def right(place, folder):
    if place in SETTINGS and place not in RIGHT:
        return RIGHT[type(json.loads((folder / "config.json").read_text())["settings"][place[1]])]
    return RIGHT.get(place, set())


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_configuration_with_an_entry_missing_or_of_another_type_is_refused(home, list_again, place):
    folder, sound = home / "model", (home / "model/config.json").read_bytes()
    for what, text in WRONG.items():
        if what not in right(place, folder):
            put(folder, place, text, list_again)
            assert_refused(load, folder)
            (folder / "config.json").write_bytes(sound)


OUT_OF_RANGE = ["-1", str(10**30), "1e300", str(10**400)]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        *((place, OUT_OF_RANGE[at % len(OUT_OF_RANGE)]) for at, place in enumerate(SETTINGS)),
        *((("seed",), text) for text in ("-1", str(10**30))),
        *((("input_shape",), text) for text in ("[1, 4, -4]", f"[{10**9}, {10**9}, {10**9}]", "[1, 4, 4, 4]")),
        *((("method",), text) for text in ('"../softpnet"', '"base"', '"supervised"', '""')),
        *(((name,), f'"{"0" * 64}"') for name in ("rule", "data")),
        (("hardware", "processes"), str(10**30)),
        (("origin", "options"), '{"modulus": [1]}'),
    ],
    ids=str,
)
def test_a_run_whose_configuration_has_other_or_impossible_values_is_not_resumed(home, list_again, place, text):
    put(home / "run", place, text, list_again)
    assert_refused(resume, home / "run")
    with contextlib.suppress(SoftPNetError):  # some could be, of another run; but then it can be read
        put(home / "model", place, text, list_again)
        load(home / "model")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": 1}, "unknown entry 'more'; the valid ones are task, origin, method"),
        ({"settings": {"more": 1}}, "unknown entry 'more' in 'settings'; the valid ones are epochs, batch_size"),
        ({"hardware": {"more": 1}}, "unknown entry 'more' in 'hardware'; the valid ones are device"),
        ({"origin": {"more": 1}}, "unknown entry 'more' in 'origin'; the valid ones are task, options, sha256"),
        ({"settings": {"epochs": "x"}}, r"its entry 'settings\.epochs' is 'x': Expected `int`, got `str`"),
        ({"settings": {"epochs": 0}}, "setting epochs is 0, expected at least 1"),
        ({"hardware": {"device": "tpu"}}, r"its entry 'hardware\.device' is 'tpu'"),
        ({"versions": {"torch": [2]}}, "its entry 'versions' is .*: Expected `str`, got `array`"),
    ],
    ids=str,
)
def test_a_refused_configuration_is_told_by_entry_and_value(home, list_again, change, words):
    path = home / "model/config.json"
    config = json.loads(path.read_text())
    for name, value in change.items():
        config[name] = config[name] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(config))
    list_again(home / "model")
    with pytest.raises(InputError, match=rf"config\.json is damaged, or was written by another version.*{words}"):
        load(home / "model")


def test_a_file_of_targets_that_a_configuration_names_is_never_run(home, list_again):
    (home / "evil.py").write_text(f"open({str(home / 'canary')!r}, 'w')")
    put(home / "model", ("settings", "targets"), json.dumps(str(home / "evil.py")), list_again)
    load(home / "model").fit(INPUTS, LABELS, ANCHORS)
    assert not (home / "canary").exists()


# Checkpoints


def tampered(folder, change, list_again):
    """Change the tensors and notes of the last checkpoint in place."""
    path = max(folder.glob("checkpoint-*"))
    tensors, notes = from_safetensors(path.read_bytes(), path)
    numbers = json.loads(notes["numbers"])
    change(tensors, numbers)
    path.write_bytes(save(tensors, {"numbers": json.dumps(numbers)}))
    list_again(folder)


def spoiled(tensor):
    """The tensor, in every way in which it cannot be."""
    yield tensor.to(torch.float16 if tensor.dtype != torch.float16 else torch.float32)
    yield torch.stack([tensor, tensor])
    yield torch.zeros(1_000_003, dtype=tensor.dtype)
    if tensor.dtype.is_floating_point:
        yield torch.full_like(tensor, math.nan)
        yield torch.full_like(tensor, -math.inf)
    if tensor.dtype == torch.int64:
        yield torch.full_like(tensor, -1)


NAMES = [
    *(
        f"module.encoders.of_concept.{name}"
        for name in ("1.weight", "1.bias", "2.running_mean", "2.num_batches_tracked")
    ),
    *(f"optimiser.{at}.{name}" for at in (0, 3) for name in ("step", "exp_avg", "exp_avg_sq")),
    *(f"state.{name}" for name in ("rows", "count", "started")),
    *(f"stream.{name}" for name in ("init", "walk", "batches")),
    "global_generator",
    "order",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_with_a_tensor_of_another_kind_or_without_it_is_refused(home, list_again, name):
    folder = home / "run"
    newest = max(folder.glob("checkpoint-*"))
    sound = newest.read_bytes()
    tensors, _ = from_safetensors(sound, newest)
    for value in spoiled(tensors[name]):
        tampered(folder, lambda tensors, _, value=value: tensors.update({name: value}), list_again)
        assert_refused(resume, folder)
        newest.write_bytes(sound)
    if name not in ("stream.walk", "stream.batches"):  # which are made at their first use
        tampered(folder, lambda tensors, _: tensors.pop(name), list_again)
        assert_refused(resume, folder)


def filled(name, value):
    return lambda tensors, numbers: tensors[name].fill_(value)


def renamed(name, other):
    return lambda tensors, numbers: tensors.update({other: tensors.pop(name)})


def noted(change):
    def apply(tensors, numbers):
        for name, value in change.items():
            both = isinstance(value, dict) and isinstance(numbers[name], dict)
            numbers[name] = numbers[name] | value if both else value

    return apply


@pytest.mark.parametrize(
    "change",
    [
        filled("state.rows", 3),
        filled("state.rows", 255),
        filled("state.count", 3),
        filled("state.count", 255),
        filled("order", 0),
        filled("order", 2**62),
        filled("stream.walk", 0),
        filled("stream.walk", 255),
        filled("global_generator", 255),
        filled("optimiser.0.step", -1),
        filled("optimiser.0.step", 0),
        filled("optimiser.0.step", 1.5),
        filled("optimiser.0.step", 1e9),
        filled("optimiser.0.exp_avg_sq", -1),
        filled("module.encoders.of_concept.2.running_var", -1),
        renamed("optimiser.3.step", "optimiser.4.step"),
        renamed("optimiser.3.step", "optimiser.3.steps"),
        renamed("optimiser.3.step", "optimiser.x.step"),
        renamed("state.rows", "state.row"),
        renamed("module.encoders.of_concept.1.bias", "module.encoders.of_concept.1.more"),
        renamed("order", "orders"),
        lambda tensors, numbers: tensors.update({"buffer.more": torch.zeros(1)}),
        lambda tensors, numbers: tensors.clear(),
        lambda tensors, numbers: numbers.clear(),
    ],
)
def test_a_checkpoint_with_values_out_of_range_is_refused(home, list_again, change):
    tampered(home / "run", change, list_again)
    assert_refused(resume, home / "run")


@pytest.mark.parametrize(
    "change",
    [
        *({name: value} for name in ("at", "records", "scale") for value in (None, 1, "x", [1], {"x": 1}, math.nan)),
        *(
            {"at": {name: value}}
            for name in ("warmup", "epoch", "step")
            for value in (-1, 10**9, 10**30, 0.5, "x", None)
        ),
        *({"at": {"seconds": value}} for value in (-1.0, math.nan, math.inf, "x", None, 10**400)),
        *({"at": {"sums": value}} for value in (None, {}, {"x": "x"}, {"x": 1.0}, [])),
        *({"at": {"counts": value}} for value in (None, {}, {"gamma": 0}, {"gamma": -1}, {"gamma": 10**30}, [])),
        *({"at": {"untaught": value}} for value in (None, [], [0], [0, -1], [0, 13], [0, 0.5], [0, 0, 0])),
        {"at": {"epoch": 2, "step": 1}},
        {"at": {"epoch": 0}},
        {"at": {"more": 1}},
        {"records": []},
        {"records": [{}]},
        {"records": [{"epoch": 2, "seconds": 1.0}]},
        {"records": [{"epoch": 1, "seconds": math.nan}]},
        {"records": [{"epoch": 1, "seconds": 1.0, "loss": "x"}]},
        {"records": [{"epoch": 1, "seconds": 1.0}] * 2},
        {"scale": {"scale": 0.5}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_checkpoint_with_notes_that_cannot_be_is_refused(home, list_again, change):
    tampered(home / "run", noted(change), list_again)
    assert_refused(resume, home / "run")


@pytest.mark.parametrize(
    "notes",
    [{}, {"numbers": ""}, {"numbers": "[1]"}, {"numbers": "[" * 100_000}, {"numbers": "1" * 5000}],
    ids=["none", "empty", "a list", "deep", "long"],
)
def test_a_checkpoint_with_damaged_notes_is_refused(home, list_again, notes):
    path = max((home / "run").glob("checkpoint-*"))
    path.write_bytes(save(from_safetensors(path.read_bytes(), path)[0], notes))
    list_again(home / "run")
    assert_refused(resume, home / "run")


# The model


@pytest.mark.parametrize(
    "name", ["module.encoders.of_concept.1.weight", "module.prototypes.of_concept", "anchors.concept"]
)
def test_a_model_with_a_tensor_of_another_kind_or_without_it_is_refused(home, list_again, name):
    path = home / "model/model.safetensors"
    tensors, notes = from_safetensors(path.read_bytes(), path)
    kinds = [tensors[name].to(torch.int32), tensors[name].double(), tensors[name][:1], torch.zeros(0), None]
    for value in kinds:
        changed = {each: t for each, t in (tensors | {name: value}).items() if t is not None}
        path.write_bytes(save(changed, notes))
        list_again(home / "model")
        assert_refused(load, home / "model")


@pytest.mark.parametrize("notes", [{}, {"finished": ""}, {"finished": "True"}, {"finished": "null"}], ids=str)
def test_a_model_that_does_not_say_whether_it_is_finished_is_refused(home, list_again, notes):
    path = home / "model/model.safetensors"
    path.write_bytes(save(from_safetensors(path.read_bytes(), path)[0], notes))
    list_again(home / "model")
    assert_refused(load, home / "model")
