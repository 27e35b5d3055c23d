"""Slots that a model asks to label go into a table, and what is filled in there joins the anchors."""

import csv

import pytest
import torch
from PIL import Image

import softpnet as sp
from softpnet import Learner, tasks
from softpnet.data.labelled_slots import check_free, with_labelled, write_slots
from softpnet.task.data import make_data
from softpnet.task.lazy import numbers
from softpnet.training.streams import Streams

TASK = """
from pathlib import Path
import torch, softpnet as sp
from softpnet.data.tables import Table
HERE = Path(__file__).parent
NAMES = ["low", "mid", "high"]

def task(read: str = "images"):
    def data(streams):
        table = Table(HERE / "train.csv")
        inputs = {
            "images": lambda: table.images(["left", "right"], (1, 16, 16)),
            "image_files": lambda: table.image_files(["left", "right"], (1, 16, 16)),
            "crops": lambda: table.crops("both", ["l", "r"], (1, 16, 16)),
            "tensor": lambda: 1 * table.images(["left", "right"], (1, 16, 16)),
        }[read]()
        order = torch.randperm(len(table.rows), generator=streams("order")) if read == "tensor" else slice(None)
        inputs = inputs[order] if read == "tensor" else inputs
        anchors = sp.Anchors(Table(HERE / "anchors.csv").images("image", (1, 16, 16)), torch.arange(3))
        examples = sp.Examples(inputs, table.integers("sum")[order])
        return sp.Data(examples, anchors, {"test": examples})
    return sp.Task(
        sp.ConceptSpace(slots=2, values=3, value_names=[NAMES]), lambda c: c.sum(-1), name="bars", data=data,
        settings={"epochs": 1, "warmup_steps": 1, "episodes": 1, "copies": 1, "batch_size": 4},
    )
"""


def picture(value, number):
    bar = torch.zeros(16, 16, dtype=torch.uint8)
    bar[4 * value : 4 * value + 4] = 255 - number
    return Image.fromarray(bar.numpy())


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A task whose examples are rows of a table of image files, in the current folder."""
    monkeypatch.chdir(tmp_path)
    pairs = [(0, 1), (2, 2), (1, 0), (0, 2), (1, 1), (2, 0)]
    lines = ["left,right,both,l_x0,l_y0,l_x1,l_y1,r_x0,r_y0,r_x1,r_y1,sum"]
    for number, pair in enumerate(pairs):
        both = Image.new("L", (32, 16))
        for side, value, x in zip("ab", pair, (0, 16), strict=True):
            picture(value, number).save(f"{number}{side}.png")
            both.paste(picture(value, number), (x, 0))
        both.save(f"{number}.png")
        lines.append(f"{number}a.png,{number}b.png,{number}.png,0,0,16,16,16,0,32,16,{sum(pair)}")
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
    for value in range(3):
        picture(value, 50).save(f"anchor{value}.png")
    (tmp_path / "anchors.csv").write_text("image\nanchor0.png\nanchor1.png\nanchor2.png\n")
    (tmp_path / "bars.py").write_text(TASK)
    return tmp_path


def filled(path, values):
    """Fill in the first rows of a table: its rows, as dicts."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, value in zip(rows, values, strict=False):
        row["value"] = value
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def expected_cell(home, read, example, slot):
    """Where an input stands: its file, column and row."""
    file, column = f"{example}{'ab'[slot]}.png", ("left", "right")[slot]
    if read == "crops":
        file, column = f"{example}.png", f"both, box {'lr'[slot]!r}"
    return {"file": str(home / file), "column": column, "row": f"{home / 'train.csv'}, line {example + 2}"}


@pytest.mark.parametrize("read", ["images", "image_files", "crops", "tensor"])
def test_slots_that_are_suggested_filled_in_and_trained_on_are_anchors(home, softpnet_here, read):
    task = ("bars.py", "--option", f"read={read}")
    assert softpnet_here("train", *task, "--out", "first", "--no-pictures")[0] == 0
    code, out, error = softpnet_here("suggest", "first", "--task", "bars.py", "--count", 4, "--into", "labels.csv")
    assert code == 0 and "fill in 'value' in labels.csv, and train again with --anchors labels.csv" in out, error
    rows = filled(home / "labels.csv", ["mid", "", "2"])  # a name, nothing, a number
    for row in rows:
        cell = {} if read == "tensor" else expected_cell(home, read, int(row["example"]), int(row["slot"]))
        assert list(row) == ["example", "slot", *cell, "read as", "value", "input"] and cell.items() <= row.items()
        assert not cell or f"(file {cell['file']}, column {cell['column']}, row {cell['row']})" in out

    code, out, error = softpnet_here("train", *task, "--anchors", "labels.csv", "--out", "second", "--no-pictures")
    assert code == 0 and out.startswith("anchors from labels.csv: 2\n"), error
    train = make_data(tasks.load("bars.py", {"read": read}), Streams(0)).train
    ours = [train.inputs[int(row["example"])][int(row["slot"])] for row in (rows[0], rows[2])]
    first, second = (Learner.load(home / run, origin="bars.py").anchors[0] for run in ("first", "second"))
    assert second.primitives.tolist() == [0, 1, 1, 2, 2] and first.primitives.tolist() == [0, 1, 2]
    assert torch.equal(second.inputs[[2, 4]], numbers(torch.stack(ours)))
    assert softpnet_here("evaluate", "second", "--task", "bars.py")[0] == 0


def test_what_is_wrong_with_a_filled_in_table_is_named_with_its_row(home, softpnet_here):
    assert softpnet_here("train", "bars.py", "--option", "read=tensor", "--out", "run", "--no-pictures")[0] == 0
    assert softpnet_here("suggest", "run", "--task", "bars.py", "--count", 2, "--into", "labels.csv")[0] == 0
    kept = (home / "labels.csv").read_text()
    words = ("train", "bars.py", "--option", "read=tensor", "--anchors", "labels.csv", "--out", "next")

    def refused(values, *more):
        (home / "labels.csv").write_text(kept)
        filled(home / "labels.csv", values)
        code, _, error = softpnet_here(*words, *more)
        assert code == 2 and error.count("\n") == 1 and not (home / "next").exists()
        return error

    error = refused(["", "tall"])
    assert "labels.csv, line 3, column 'value': 'tall', expected one of ['low', 'mid', 'high'], or a number" in error
    assert "no row of labels.csv is filled in" in refused([])
    assert "labels.csv, line 2: the input of this slot has changed" in refused(["low"], "--seed", 1)
    code, _, error = softpnet_here("suggest", "run", "--task", "bars.py", "--into", "labels.csv")
    assert code == 2 and "labels.csv is there already, and may hold labels" in error


def test_groups_and_attributes_have_columns_of_their_own(tmp_path):
    space = sp.ConceptSpace(
        sp.Group(slots=(0, 1), values=3, name="size"), sp.Group(slots=(1,), values=(2, 2), name="look")
    )
    inputs = torch.arange(24.0).reshape(4, 2, 3)
    path, slots = tmp_path / "labels.csv", torch.tensor([[3, 1], [0, 0]])
    columns = write_slots(path, space, inputs, slots, ["a", "b"])
    assert columns == ["value of size", "value of look/attribute 0", "value of look/attribute 1"]
    text = path.read_text().replace(",a,,,,", ",a,2,1,0,")
    assert text.count("2,1,0") == 1
    anchors = {
        "size": sp.Anchors(torch.zeros(3, 3), torch.arange(3)),
        "look": sp.Anchors(torch.zeros(4, 3), torch.arange(4)),
    }
    path.write_text(text)
    joined, count = with_labelled([path], space, inputs, anchors)
    assert count == 2 and joined["size"].concepts.tolist() == [0, 1, 2, 2]
    assert joined["look"].concepts.tolist() == [0, 1, 2, 3, 2] and torch.equal(joined["look"].inputs[-1], inputs[3, 1])
    for change, said in ((",2,1,,", "line 2, column 'value of look/attribute 1': ''"), (",,,,", "no row")):
        path.write_text(text.replace(",2,1,0,", change))
        with pytest.raises(sp.InputError, match=said):
            with_labelled([path], space, inputs, anchors)


def test_tables_are_held_against_each_other(tmp_path):
    space, inputs = sp.ConceptSpace(slots=2, values=3), torch.arange(24.0).reshape(4, 2, 3)
    anchors, slots = sp.Anchors(torch.zeros(3, 3), torch.arange(3)), torch.tensor([[3, 1]])
    one, same, other = (tmp_path / f"{name}.csv" for name in ("one", "same", "other"))
    for path, value in ((one, 1), (same, 1), (other, 2)):
        write_slots(path, space, inputs, slots, ["a"])
        path.write_text(path.read_text().replace(",a,,", f",a,{value},"))
    joined, count = with_labelled([one, same], space, inputs, anchors)
    assert count == 1 and joined["concept"].concepts.tolist() == [0, 1, 2, 1]
    with pytest.raises(sp.InputError, match=r"slot \[3, 1\] is given with concepts 1 and 2, expected one"):
        with_labelled([one, other], space, inputs, anchors)


def test_only_a_new_csv_table_is_written(tmp_path):
    with pytest.raises(sp.InputError, match=r"--into is .*labels, expected the name of a new CSV table"):
        check_free(tmp_path / "labels")
    assert check_free(tmp_path / "labels.csv") is None
