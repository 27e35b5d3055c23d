"""A smaller version of each part of `make torture`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from softpnet.report.pages import marks
from torture import __main__ as torture
from torture import damage, hostile, random_tasks, stops, tiny, writers
from torture.subject import Result, Subject

pytestmark = pytest.mark.processes


@dataclass(frozen=True)
class Here(Subject):
    """What is not hurt runs in this process, which has torch already."""

    softpnet: Callable[..., Any] = field(kw_only=True, compare=False)

    def finish(self, folder, *more):
        code, _, error = self.softpnet(*self.command(folder, *more)[3:])
        return code, error


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    written = tmp_path_factory.mktemp("subject") / "tiny.py"
    written.write_text(tiny.FILE)
    return written


@pytest.fixture
def subject(file, monkeypatch, softpnet_here):
    """The tiny task, from a file, trained for a second or two."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return Here(str(file), settings=("--epochs", "8"), softpnet=softpnet_here)


def assert_kept(result, cases):
    assert (result.kept, result.cases, result.failures) == (cases, cases, [])


def test_a_killed_run_resumes_to_the_same_bits(subject):
    assert_kept(stops.kills(1, [subject], jobs=1), 1)


def test_sigterm_exits_with_143_and_the_run_resumes_to_the_same_bits(subject):
    assert_kept(stops.terms(1, [subject], jobs=1), 1)


def test_a_full_disk_leaves_the_checkpoint_before(subject):
    assert_kept(stops.full_disk(1, [subject], jobs=1), 1)


def test_damage_to_any_file_is_noticed_before_use():
    assert_kept(damage.flips(60), 60)


@pytest.mark.parametrize("name", ["pickle as a checkpoint", "task file in the run folder"])
def test_hostile_files_are_refused(name):
    assert_kept(hostile.files([name]), 1)


def test_one_of_two_writers_wins(subject):
    assert_kept(writers.two(1, subject), 1)


def test_random_small_tasks_keep_what_holds_for_every_task():
    assert_kept(random_tasks.tasks(60), 60)


def test_a_broken_promise_is_counted_and_named():
    result = Result("a test", "a promise")
    result.add([])
    result.add(["this went wrong"])
    assert (result.cases, result.kept, result.failures) == (2, 1, ["this went wrong"])


def test_a_run_that_is_never_hurt_in_time_is_a_complaint_and_no_endless_loop(subject, monkeypatch):
    monkeypatch.setattr(stops, "_undisturbed", lambda subject: (8.0, {}))
    given = []

    def too_late(subject, folder, seconds, expected, dice):
        folder.mkdir()
        given.append(seconds)

    result = stops._each(Result("a test", "a promise"), too_late, [subject], count=1, jobs=1, seed=0)
    assert result.kept == 0 and "as if nothing had been done to it" in result.failures[0]
    assert given[:3] == [8.0, 4.0, 2.0] and len(given) == stops.ATTEMPTS


def test_a_part_is_tried_by_itself_and_the_others_keep_their_outcome(tmp_path, monkeypatch):
    page, record = tmp_path / "page.md", tmp_path / "record.json"
    page.write_text("\n".join(marks()))
    made = {name: Result(f"the {name}", "survives", 5, 5) for name in ("kills", "terms")}
    monkeypatch.setattr(torture, "PARTS", {name: lambda name=name: made[name] for name in made})
    assert torture.Torture(("kills", "terms"), record, page).run() == 0
    made["terms"].add(["it does not"])
    assert torture.Torture(("terms",), record, page).run() == 1
    shown = page.read_text()
    assert "| the kills | survives | 5 of 5 |" in shown and "| the terms | survives | 5 of 6 |" in shown


def test_the_page_has_the_table_of_the_record_with_every_part_kept():
    root = Path(__file__).parents[2]
    found = torture.read(root / torture.RECORD)
    assert set(found) <= set(torture.PARTS)
    assert torture.table(found) in (root / torture.PAGE).read_text()  # what was not tried yet is said there
    assert all(part["kept"] == part["cases"] and not part["failures"] for part in found.values())
