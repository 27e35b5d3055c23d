"""What `python -m torture.conditions` does to the suite, and what it tells of it."""

import json
import os
import sys
from pathlib import Path

import pytest

from softpnet.report.pages import marks
from torture import conditions
from torture.subject import PATIENCE_S

PRINTED = """
import json, os, pathlib, signal
home = pathlib.Path.home()
print(json.dumps({
    "variables": dict(os.environ),
    "ignored": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    "cores": len(os.sched_getaffinity(0)),
    "mnist": (home / ".cache/softpnet/mnist").is_symlink(),
}))
"""


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """What a suite under some conditions sees of the machine."""
    monkeypatch.setattr(conditions, "SUITE", (sys.executable, "-c", PRINTED))

    def look(*names):
        said = tmp_path / "said"
        with said.open("w") as file, conditions.under(names, file) as process:
            assert process.wait(PATIENCE_S) == 0
        return json.loads(said.read_text())

    return look


def test_a_suite_sees_all_the_conditions_of_its_run(seen):
    found = seen("aten-default", "no-sigint", "one-core", "order-2", "place")
    assert found["ignored"] and found["cores"] == 1 and found["mnist"]
    wanted = {"ATEN_CPU_CAPABILITY": "default", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"}
    assert wanted.items() <= found["variables"].items() and " " in found["variables"]["HOME"]
    assert found["variables"]["PYTEST_ADDOPTS"] == "-p randomly --randomly-seed=2"


def test_a_plain_run_changes_nothing(seen):
    found = seen("plain")
    assert not found["ignored"] and {**os.environ}.items() <= found["variables"].items()


@pytest.fixture
def suite(monkeypatch, tmp_path):
    """A suite that prints this and ends with this code; how often it was run is the length of a file; page and record
    of the command are in the same folder."""
    count = tmp_path / "count"
    count.touch()

    def make(said, code=0):
        script = f"echo run >> '{count}'; printf '{said}'; exit {code}"
        monkeypatch.setattr(conditions, "SUITE", ("sh", "-c", script))
        return lambda: len(count.read_text().splitlines())

    page = tmp_path / "page.md"
    page.write_text("\n".join(marks(conditions.MARK)))
    monkeypatch.setattr(conditions, "_git", lambda *words: "c0ffee" if words[0] == "rev-parse" else "")
    return make


def test_what_is_recorded_is_not_run_again_and_the_table_counts_it(suite, tmp_path, capsys):
    runs = suite("..\n12 passed, 2 warnings in 3.21s\n")
    record, page = places = tmp_path / "record.jsonl", tmp_path / "page.md"
    asked = conditions.Conditions(("aten-default+order-1", "plain"), 1, *places)
    assert asked.run() == 0 and runs() == 2
    assert asked.run() == 0 and runs() == 2
    assert conditions.Conditions(("plain",), 2, *places).run() == 0 and runs() == 3
    outcomes = conditions.read(record)
    assert [each["conditions"] for each in outcomes] == [["aten-default", "order-1"], ["plain"], ["plain"]]
    assert all((each["passed"], each["failed"], each["commit"]) == (12, 0, "c0ffee") for each in outcomes)
    shown = page.read_text()
    assert "| aten-default | `ATEN_CPU_CAPABILITY=default` | 1 of 1 | order-1 |" in shown and "12 tests" in shown
    assert "| loaded | two busy loops beside it | not tried yet |" in shown
    assert "| plain | `make test` | 2 of 2 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    "said, failures",
    [
        ("FAILED tests/a.py::b - no\nERROR tests/a.py::c\n1 failed, 9 passed, 1 error in 2s\n",
         ["tests/a.py::b", "tests/a.py::c"]),
        ("mypy: 3 errors\nmake: *** [check] Error 1\n", ["mypy: 3 errors", "make: *** [check] Error 1"]),
    ],
    ids=["tests fail", "make fails"],
)  # fmt: skip
def test_a_suite_that_fails_is_recorded_with_what_failed(suite, tmp_path, said, failures):
    suite(said, 2)
    record = tmp_path / "record.jsonl"
    assert conditions.Conditions(("plain",), 1, record, tmp_path / "page.md").run() == 1
    (outcome,) = conditions.read(record)
    assert outcome["failures"] == failures and outcome["exit"] == 2
    assert "| 0 of 1 |" in conditions.table([outcome])


def test_code_that_is_not_committed_and_unknown_conditions_are_refused(monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match=r"unknown condition 'moon'; the conditions are plain, aten-default, "):
        conditions.Conditions(("plain+moon",)).run()
    monkeypatch.setattr(conditions, "_git", lambda *words: " M tests/a.py")
    with pytest.raises(SystemExit, match=r"tests/a\.py is not committed; commit it"):
        conditions.Conditions(("plain",), record=tmp_path / "none").run()


def test_a_condition_that_this_processor_cannot_meet_is_said_and_not_tried(suite, monkeypatch, tmp_path):
    runs = suite("1 passed in 1s\n")
    monkeypatch.setattr(conditions, "missing_instructions", lambda names: "avx512f")
    conditions.Conditions(("aten-avx512",), 2, tmp_path / "record", tmp_path / "page.md").run()
    assert runs() == 0 and "| not tried: this processor has no avx512f |" in (tmp_path / "page.md").read_text()


def test_every_condition_is_in_a_run_and_the_page_has_the_table_of_the_record():
    assert {name for names in conditions.RUNS for name in names} == set(conditions.CONDITIONS)
    root = Path(__file__).parents[2]
    assert (
        conditions.table(conditions.read(root / conditions.RECORD)).strip()
        in (root / "docs/reliability.md").read_text()
    )
