"""Damaged files of test sets, which the task says to skip, do not cost the report of a finished training."""

import json
import re
import warnings

import numpy
import pytest
from PIL import Image

TASK = '''
"""Two brightnesses and their sum."""

import torch

import softpnet as sp
from softpnet.data.tables import Table

SHAPE = (1, 8, 8)


def examples(name):
    table = Table(f"{name}.csv")
    inputs = table.image_files(["left", "right"], SHAPE, unreadable="skip")
    return sp.Examples(inputs, table.integers("label"), table.integers(["a", "b"]))


def data(streams):
    anchors = sp.Anchors(torch.tensor([0.1, 0.5, 0.9])[:, None, None, None].expand(3, *SHAPE), torch.arange(3))
    return sp.Data(examples("train"), anchors, {"test": examples("test"), "new": examples("new")})


task = sp.Task(sp.ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="sums", data=data, encoder="mlp",
               settings={"epochs": 1, "batch_size": 6, "warmup_steps": 2})
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    noise = numpy.random.default_rng(0)
    for name in ("train", "test", "new"):
        rows = ["left,right,label,a,b"]
        for example in range(12):
            values = noise.integers(3, size=2)
            names = [f"{name}{example}{slot}.png" for slot in "ab"]
            for image, value in zip(names, values, strict=True):
                pixels = 100 * value + noise.integers(50, size=(8, 8))
                Image.fromarray(pixels.astype(numpy.uint8)).save(tmp_path / image)
            rows.append(",".join(map(str, (*names, values.sum(), *values))))
        (tmp_path / f"{name}.csv").write_text("\n".join(rows))
    (tmp_path / "task.py").write_text(TASK)
    for damaged in ("test5a.png", "new0b.png"):
        (tmp_path / damaged).write_bytes(b"no picture")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_readable_examples_are_judged_and_the_others_named(folder, softpnet_here):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        code, out, err = softpnet_here("train", "task.py", "--out", "run", "--watch")
    told = err + " ".join(str(each.message) for each in said)
    assert code == 0, out + err
    assert re.search(r"test set 'test': inputs \[5\] cannot be read \(test5a.png .*\); 1 of 12 examples are left", told)
    assert re.search(r"test set 'new': inputs \[0\] cannot be read \(new0b.png .*\); 1 of 12 examples are left", told)
    tests = json.loads((folder / "run" / "metrics.json").read_text())["tests"]
    assert set(tests) == {"test", "new"} and (folder / "run" / "learned.png").exists()
    for again in (("evaluate", "run"), ("report", "run")):
        code, out, err = softpnet_here(*again, "--task", "task.py")
        assert code == 0, out + err


def test_check_names_them(folder, softpnet_here):
    _, out, _ = softpnet_here("check", "task.py")
    words = " ".join(out.split())
    assert "test set 'test': inputs [5] cannot be read (test5a.png" in words and "new0b.png" in words


def test_a_test_file_that_may_not_be_skipped_is_named_before_training(folder, softpnet_here):
    (folder / "task.py").write_text(TASK.replace('unreadable="skip"', 'unreadable="raise"'))
    (folder / "new0b.png").write_bytes((folder / "new1b.png").read_bytes())
    code, _, err = softpnet_here("train", "task.py", "--out", "run")
    assert code and "test set 'test': test5a.png cannot be read as an image" in err
    assert not (folder / "run").exists()
