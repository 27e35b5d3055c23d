"""Records become tables, and what has no record is run."""

import json
from pathlib import Path

import pytest

from softpnet.errors import InputError
from softpnet.experiments import reproduce
from softpnet.experiments.pages import BEGIN, END, write_into
from softpnet.experiments.rows import ROWS, Row

ROW = Row(
    "tiny",
    "Tiny",
    "kand_logic",
    ("--option", "train=16", "--option", "test=8", "--option", "cached=50", "--epochs", "1", "--warmup-steps", "0"),
    seeds=(0, 128),
    mean_at_least={"concept_accuracy": 90.0},
    each_at_least={"label_accuracy": 80.0},
)


def record(folder, seed, concept, label):
    test = {"concept_accuracy": concept, "primitive_accuracy": concept, "label_accuracy": label, "label_f1": label}
    content = {"seed": seed, "tests": {"test": test}, "seconds_per_epoch": 1.0, "versions": {"commit": "abcdef123456"}}
    reproduce.record_path(folder, ROW, seed).write_text(json.dumps(content))


def test_the_table_has_mean_deviation_minimum_and_says_what_was_reached(tmp_path):
    record(tmp_path, 0, 0.90, 0.85)
    record(tmp_path, 128, 0.94, 0.79)
    table = reproduce.write_up([ROW], tmp_path)
    assert "| Tiny | 2 | 92.00 ± 2.00 | 90.00 | 92.00 ± 2.00 | 82.00 ± 3.00 | 79.00 |" in table
    assert "concept mean >= 90.0: reached; label each >= 80.0: short by 1.00" in table
    assert "| Tiny | 128 | 94.00 | 94.00 | 79.00 | 1.0 | abcdef1234 |" in table


def test_only_what_has_no_record_is_run_and_the_record_tells_all(tmp_path):
    record(tmp_path, 0, 0.90, 0.85)
    before = reproduce.record_path(tmp_path, ROW, 0).read_text()
    assert reproduce.missing([ROW], tmp_path) == [(ROW, 128)]
    assert list(reproduce.run_missing([ROW], tmp_path, jobs=1)) == [(ROW, 128)]
    made = json.loads(reproduce.record_path(tmp_path, ROW, 128).read_text())
    assert made["row"] == "tiny" and made["seed"] == 128 and made["settings"]["epochs"] == 1
    assert len(made["curve"]) == 1 and set(made["tests"]) == {"test"} and "torch" in made["versions"]
    assert made["command"].startswith("softpnet train kand_logic --seed 128 ")
    assert reproduce.missing([ROW], tmp_path) == []
    assert reproduce.record_path(tmp_path, ROW, 0).read_text() == before


def test_committed_records_fit_the_rows_they_are_shown_in():
    folder = Path(__file__).parents[2] / "results"
    for row in ROWS:
        for found in reproduce.read_records(row, folder):
            assert found["row"] == row.name and found["seed"] in row.seeds
            assert found["command"] == " ".join(["softpnet", *row.command(found["seed"])])
            assert not found["versions"]["commit"].endswith("+"), "measured on code that was not committed"


def test_a_page_keeps_what_is_outside_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_into(page, "new\n")
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(InputError, match="needs one line"):
        write_into(page, "new")
