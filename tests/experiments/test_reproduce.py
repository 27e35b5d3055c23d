"""Records become tables, and what has no record is run."""

import dataclasses
import json
import math
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import get_args

import pytest

from softpnet import Learner, tasks
from softpnet.cli.display import time_left
from softpnet.cli.reproduce import Reproduce, run_and_show
from softpnet.cli.table import Part, chosen_rows, show
from softpnet.errors import InputError, TrainingError
from softpnet.experiments import paper, records, reproduce
from softpnet.experiments.engines import base, local
from softpnet.experiments.paper import Stated
from softpnet.experiments.reproduce import UNFINISHED, run_missing
from softpnet.experiments.rows import ROWS, SEEDS, TABLES, Row
from softpnet.experiments.rows import SHORT as SHORT_ROWS
from softpnet.experiments.sealed import seal, unseal
from softpnet.report import table
from softpnet.report.pages import marks, write_into
from softpnet.report.summary import compare, summarise
from softpnet.storage import to_json
from softpnet.training.environment import versions
from softpnet.training.folder import CONFIG, RunFolder
from softpnet.training.lock import hold
from torture.subject import PATIENCE_S, wait_for

SMALL = {"train": "16", "test": "8", "cached": "50"}
SHORT = {"epochs": 1, "warmup_steps": 0}
PAPER = {
    "made up": {"concept_accuracy": Stated(90.0, 1.5), "label_accuracy": Stated(80.5, 2.0)},
    "primitives alone": {"primitive_accuracy": Stated(90.0, 1.0)},
    "labels alone": {"label_accuracy": Stated(80.5, 2.0)},
}
ROW = Row("tiny", "Tiny", "kand_logic", options=SMALL, settings=SHORT, paper="made up")
OTHER = Row("other", "Other", "kand_logic", "pnet_sl", SMALL, SHORT)
CEILING = Row("top", "Top", "kand_logic", "supervised", SMALL, SHORT)


def record(folder, row, seed, concept, label, /, **changes):
    concepts = ("concept_accuracy", "concept_f1", "primitive_accuracy", "primitive_f1")
    test = {name: concept for name in concepts} | {"gap": label - concept, "collapse": 0.0}
    chosen = records.choices(row)
    content = {
        "row": row.name,
        "command": row.command_line(seed),
        "seed": seed,
        "task": row.task,
        "origin": {"task": row.task, "options": chosen["options"]},
        "method": row.method,
        "settings": chosen["settings"],
        "curve": [{"loss": concept + seed, "seconds": 1.0}],
        "weights_sha256": f"{row.name}{seed}",
        "tests": {
            "test": test | {"label_accuracy": label, "label_f1": label},
            "second": {"concept_accuracy": 0.25, "label_accuracy": 0.5},
        },
        "seconds_per_epoch": 1.0,
        "versions": {"commit": "abcdef123456"},
    }
    records.put_line(records.record_path(folder, row), seed, seal(content | changes))


@pytest.fixture(autouse=True)
def a_paper_of_our_own(monkeypatch):
    made = paper.figures() | {"kand_logic": PAPER}
    monkeypatch.setattr(paper, "figures", lambda: made)


@pytest.fixture
def filled(tmp_path):
    for seed, concept, label in ((0, 0.90, 0.85), (128, 0.94, 0.79)):
        record(tmp_path, ROW, seed, concept, label)
        record(tmp_path, OTHER, seed, concept - (0.10 if seed else 0.06), label)
        record(tmp_path, CEILING, seed, 0.97, 0.95)
    return tmp_path


def test_the_table_has_mean_deviation_minimum_the_paper_and_the_ceiling(filled):
    summaries = summarise([ROW, OTHER, CEILING], SEEDS, filled)
    shown = table.result_table(summaries)
    ours, other, top = (dict(zip(shown.head, line, strict=True)) for line in shown.rows)
    assert (ours["run"], ours["seeds"], ours["concept"]) == ("Tiny", "2", "92.00 ± 2.00 (90.00)")
    assert (ours["label"], ours["gap"], ours["s / epoch"]) == ("82.00 ± 3.00 (79.00)", "-10.00", "1.0")
    assert ours["farthest seed from the mean: concept, label"] == "2.00, 3.00"
    against = "minus the ceiling: concept, label"
    assert (ours[against], other[against], top[against]) == ("-5.00, -13.00", "-13.00, -13.00", "")
    paper = table.paper_table(summaries)
    assert paper.head == ["run", "seeds", "concept", "label", against]
    cells = ["92.00 ± 2.00; 90.00 ± 1.50 (+2.00)", "82.00 ± 3.00; 80.50 ± 2.00 (+1.50)"]
    assert paper.rows == [["Tiny", "2", *cells, "-5.00, -13.00"]]
    assert ["Tiny", "128", "94.00"] == table.seed_table(summaries).rows[1][:3]
    assert table.without_empty_columns(table.other_sets_table(summaries)).rows[0] == [
        "Tiny",
        "second",
        "25.00 ± 0.00 (25.00)",
        "50.00 ± 0.00 (50.00)",
    ]


def test_calibration_errors_are_shown_where_records_have_them_and_older_ones_are_averaged_still(tmp_path):
    before = {"test": {"concept_accuracy": 0.9, "label_accuracy": 0.8}}
    after = {"test": before["test"] | {"concept_ece": 0.0125, "label_ece": 0.03, "concept_ece/speed": 0.5}}
    for row, seed, tests in ((ROW, 0, before), (ROW, 128, after), (OTHER, 0, after), (OTHER, 128, after)):
        record(tmp_path, row, seed, 0.9, 0.8, tests=tests)
    summaries = summarise([ROW, OTHER], SEEDS, tmp_path)
    shown = table.without_empty_columns(table.result_table(summaries))
    mixed, new = (dict(zip(shown.head, line, strict=True)) for line in shown.rows)
    assert mixed["concept"] == new["concept"] == "90.00 ± 0.00 (90.00)"
    assert (mixed["concept ECE"], mixed["label ECE"]) == ("", "")  # a mean over some of the seeds would mislead
    assert (new["concept ECE"], new["label ECE"]) == ("1.25 ± 0.00", "3.00 ± 0.00")
    seeds = table.seed_table(summaries)
    assert [row[seeds.head.index("concept ECE")] for row in seeds.rows] == ["", "1.25", "1.25", "1.25"]


def test_records_without_calibration_errors_leave_no_empty_columns(filled):
    summaries = summarise([ROW], SEEDS, filled)
    for made in (table.result_table, table.seed_table, table.other_sets_table):
        assert not any("ECE" in name for name in table.without_empty_columns(made(summaries)).head)


def test_the_ceiling_is_that_of_the_same_seeds(filled):
    record(filled, CEILING, 256, 0.10, 0.10)  # a test set that the others have not been judged on
    assert table.result_table(summarise([ROW, CEILING], SEEDS, filled)).rows[0][-1] == "-5.00, -13.00"


def test_the_overview_has_what_a_first_look_needs(filled):
    ours, other, top = table.overview_table(summarise([ROW, OTHER, CEILING], SEEDS, filled)).rows
    assert ours == ["Tiny", "2", "92.00 ± 2.00 (90.00)", "82.00 ± 3.00 (79.00)", "90.00, 80.50", "-5.00, -13.00"]
    assert other[-2:] == ["", "-13.00, -13.00"] and top[-2:] == ["", ""]


def test_titles_are_shown_as_they_are_though_they_look_like_markup(filled, capsys):
    show([dataclasses.replace(ROW, title="a[/red]")], SEEDS, filled, "terminal", None, ("overview",))
    assert "a[/red]" in capsys.readouterr().out


def test_columns_that_say_nothing_are_left_out(filled, capsys):
    show([OTHER], SEEDS, filled, "markdown", None, ("overview",))
    assert "| run | seeds | concept | label |\n" in capsys.readouterr().out


def test_rows_that_lack_seeds_are_named_though_they_have_none(filled):
    record(filled, OTHER, 256, 0.9, 0.9)
    none = Row("none", "None yet", "kand_logic")
    summaries = summarise([ROW, OTHER, none], SEEDS[:3], filled)
    assert table.left_table(summaries, [ROW, OTHER, none], 3).rows == [["Tiny", "tiny", "2"], ["None yet", "none", "0"]]


def test_a_single_seed_has_no_deviation(tmp_path):
    record(tmp_path, ROW, 0, 0.9, 0.8)
    summaries = summarise([ROW], SEEDS, tmp_path)
    assert table.result_table(summaries).rows[0][2] == "90.00"
    assert table.paper_table(summaries).rows[0][2] == "90.00; 90.00 ± 1.50 (+0.00)"


def test_concepts_that_are_attributes_are_counted_by_primitive_too(filled):
    digits = Row("digits", "Digits", "mnist_evenodd")
    record(filled, digits, 0, 0.9, 0.8)
    stated = dataclasses.replace(ROW, paper="primitives alone")
    (shown,) = table.primitive_table(summarise([stated, digits], SEEDS, filled)).rows
    assert shown == ["Tiny", "92.00 ± 2.00; 90.00 ± 1.00 (+2.00)", "92.00 ± 2.00 (90.00)"]


def test_some_of_the_tables_can_be_asked_for_by_name(filled, capsys):
    assert get_args(Part) == (*table.TABLES, "left")
    show([ROW, OTHER], SEEDS, filled, "markdown", None, ("pairs",))
    assert capsys.readouterr().out.startswith("**Difference on the same seeds")
    show([OTHER], SEEDS, filled, "markdown", None, ("paper", "seeds"))  # the paper has nothing of it
    assert capsys.readouterr().out.startswith("**Every seed**")


def test_the_seed_farthest_from_the_mean_is_shown_though_it_is_not_the_lowest(tmp_path):
    for seed, concept in ((0, 0.90), (128, 0.90), (256, 0.96)):
        record(tmp_path, ROW, seed, concept, 0.5)
    assert table.result_table(summarise([ROW], SEEDS, tmp_path)).rows[0][-2] == "4.00, 0.00"


def test_methods_are_compared_on_the_same_seeds_with_a_confidence_interval(filled):
    record(filled, ROW, 256, 0.5, 0.5)  # a seed that the other has not: left out
    ours, other = summarise([ROW, OTHER], SEEDS, filled)
    found = compare(ours, other, "concept_accuracy")
    # Differences 6 and 10: mean 8, standard error 2, Student's 97.5 % point at one degree of freedom 12.706.
    assert found.seeds == 2 and math.isclose(found.mean, 8.0)
    assert math.isclose(found.low, 8 - 12.7062 * 2, abs_tol=1e-3)
    assert math.isclose(found.high, 8 + 12.7062 * 2, abs_tol=1e-3)
    shown = ["Tiny", "Other", "2", "+8.00 (-17.41 to +33.41)", "+0.00 (+0.00 to +0.00)"]
    assert table.comparison_table([ours, other]).rows == [shown]
    assert compare(ours, other, "no_such_metric") is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"epochs": 2, "warmup_steps": 0}}, r"settings .*'epochs': 2.*, expected .*'epochs': 1"),
        ({"origin": {"options": {}}}, "options"),
        ({"method": "softg"}, "method softg, expected softpnet"),
        ({"task": "visual_sudoku"}, "task visual_sudoku, expected kand_logic"),
        ({"hardware": {"precision": "bf16-mixed"}}, "precision bf16-mixed, expected 32-true"),
    ],
)
def test_a_record_of_another_configuration_is_not_averaged(filled, changes, message):
    record(filled, ROW, 256, 0.9, 0.9, **changes)
    with pytest.raises(InputError, match=rf"tiny\.jsonl, line 3, .* made with a different configuration \({message}"):
        summarise([ROW], SEEDS, filled)


def test_records_that_all_are_of_another_configuration_than_the_row_are_noticed(filled):
    changed = dataclasses.replace(ROW, settings=SHORT | {"batch_size": 8})
    with pytest.raises(InputError, match="different configuration"):
        summarise([changed], SEEDS, filled)


def test_a_record_that_was_changed_by_hand_is_noticed(filled):
    record(filled, ROW, 256, 0.9, 0.9, configuration="0" * 64)
    with pytest.raises(InputError, match=r"tiny\.jsonl, line 3, .* changed after it was made, since its configuration"):
        summarise([ROW], SEEDS, filled)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged, since it does not begin with the sha256"),
        (b"null", "damaged, since it does not begin with the sha256"),
        (seal({"row": "tiny"}), "damaged: Object missing required field `command`"),
        ({"tests": None}, r"damaged: Expected `object`, got `null` - at `\$.tests`"),
        ({"versions": "today"}, r"damaged: Expected `object`, got `str` - at `\$.versions`"),
        ({"versions": {}}, r"missing required field `commit` - at `\$.versions`"),
        ({"curve": [1]}, r"got `int` - at `\$.curve\[0\]`"),
        ({"tests": {}}, "the other seeds"),
        ({"seconds_per_epoch": "1"}, r"Expected `float`, got `str` - at `\$.seconds_per_epoch`"),
        ({"seed": 128}, "it is a second record of seed 128"),
        ({"row": "other"}, "it is a record of other"),
        ({"interrupted": True}, "its run was not finished"),
        ({"tests": {"test": {"label_accuracy": 7.5}}}, "label_accuracy on 'test' is 7.5"),
        ({"tests": {"test": {"label_accuracy": True}}}, "label_accuracy on 'test' is True"),
        ({"tests": {"test": {"label_accuracy": -0.5}}}, "label_accuracy on 'test' is -0.5"),
        ({"tests": {"test": None}}, r"Expected `object`, got `null` - at `\$.tests"),
        ({"tests": {"test": 0.5}}, r"Expected `object`, got `float` - at `\$.tests"),
        ({"tests": {"test": {"concept_accuracy": 0.5}}}, "no label accuracy on 'test'"),
        ({"seconds_per_epoch": -5.0}, r"Expected `float` >= 0.0 - at `\$.seconds_per_epoch`"),
        ({"seconds_per_epoch": True}, r"Expected `float`, got `bool` - at `\$.seconds_per_epoch`"),
        ({"seconds_per_epoch": 10**400}, r"Number out of range - at `\$.seconds_per_epoch`"),
        ({"curve": []}, "its curve has 0 of 1 epochs"),
        ({"tests": {"test": {"label_accuracy": 0.5}}}, "the other seeds"),
    ],
)
def test_a_damaged_record_is_named_with_what_to_do(filled, content, message):
    record(filled, ROW, 256, 0.9, 0.9, **(content if isinstance(content, dict) else {}))
    path = records.record_path(filled, ROW)
    if isinstance(content, bytes):
        path.write_bytes(b"".join([*path.read_bytes().splitlines(keepends=True)[:2], content, b"\n"]))
    expected = rf"tiny\.jsonl, line 3, is not averaged with others: .*{message}.*; remove the line to make it again"
    with pytest.raises(InputError, match=expected):
        summarise([ROW], SEEDS, filled)


def test_a_record_of_changed_code_is_marked_in_the_table(tmp_path):
    for seed, commit in ((0, "0123456789abcdef"), (128, "0123456789abcdef+")):
        record(tmp_path, ROW, seed, 0.9, 0.8, versions={"commit": commit})
    shown = table.seed_table(summarise([ROW], SEEDS, tmp_path)).rows
    assert [row[-1] for row in shown] == ["0123456789", "0123456789+"]


def test_two_seeds_with_the_same_weights_are_noticed(filled):
    record(filled, ROW, 256, 0.9, 0.9, weights_sha256="tiny128", model_sha256="its anchors differ")
    with pytest.raises(InputError, match="seeds 128 and 256 of tiny gave identical weights"):
        summarise([ROW], SEEDS, filled)


def test_older_records_are_told_apart_by_their_curves(filled):
    for seed in (256, 384):
        record(filled, ROW, seed, 0.9, 0.9, weights_sha256=None, curve=[{"loss": 0.5, "seconds": float(seed)}])
    with pytest.raises(InputError, match="seeds 256 and 384 of tiny gave identical weights"):
        summarise([ROW], SEEDS, filled)


def test_a_record_that_lacks_a_digest_is_compared_by_what_it_shares_with_the_others(filled):
    """Older records lack the weights' digest: one training must not count as two seeds for that."""
    curve = [{"loss": 0.5, "seconds": 1.0}]
    record(filled, ROW, 256, 0.9, 0.9, model_sha256="same", curve=curve)
    record(filled, ROW, 384, 0.9, 0.9, weights_sha256=None, model_sha256="same", curve=[{"loss": 0.7, "seconds": 1.0}])
    with pytest.raises(InputError, match="seeds 256 and 384 of tiny gave identical weights"):
        summarise([ROW], SEEDS, filled)
    record(filled, ROW, 384, 0.9, 0.9, weights_sha256=None, model_sha256=None, curve=curve)
    with pytest.raises(InputError, match="seeds 256 and 384 of tiny gave identical weights"):
        summarise([ROW], SEEDS, filled)


def test_records_from_before_single_attributes_were_judged_are_averaged_with_newer_ones(filled):
    path = records.record_path(filled, ROW)
    newer = json.loads(unseal(path.read_bytes().splitlines()[1]))
    newer["tests"]["test"] |= {"concept_accuracy/attribute 0": 0.98, "concept_accuracy/attribute 1": 0.9}
    records.put_line(path, 128, seal(newer))
    (both,) = summarise([ROW], SEEDS, filled)
    assert both.values["concept_accuracy"] == [90.0, 94.0] and not any("/" in metric for metric in both.values)
    (new,) = summarise([ROW], [128], filled)
    assert new.values["concept_accuracy/attribute 1"] == [90.0]


def test_a_figure_that_is_not_there_is_a_dash_beside_the_one_that_is(filled):
    """A test set may have no true concepts; its label must not stand in the concepts' place."""
    for row, label in ((ROW, 0.8), (CEILING, 0.9)):
        for seed in (0, 128):
            record(filled, row, seed, 0.9, label, tests={"test": {"label_accuracy": label + seed / 1280}})
    summaries = summarise([ROW, CEILING], SEEDS, filled)
    shown = table.result_table(summaries)
    ours, top = (dict(zip(shown.head, line, strict=True)) for line in shown.rows)
    assert ours["minus the ceiling: concept, label"] == "–, -10.00" and top["minus the ceiling: concept, label"] == ""
    assert ours["farthest seed from the mean: concept, label"] == "–, 5.00"
    assert table.paper_table(summaries).rows[0][2] == ""
    only_label = dataclasses.replace(ROW, paper="labels alone")
    assert table.overview_table(summarise([only_label], SEEDS, filled)).rows[0][4] == "–, 80.50"


def test_a_command_with_spaces_can_be_pasted_into_a_shell():
    row = Row("x", "X", "my rule.py", options={"name": "two words"})
    assert shlex.split(row.command_line(3)) == ["softpnet", *row.command(3)] and "'my rule.py'" in row.command_line(3)


def test_names_with_signs_of_markdown_or_latex_stay_in_their_cells():
    text = table.Text("", ["set", "concept"], [[r"a | b_{c}$x^2~\d", "1"]])
    assert r"| a \| b_{c}" in table.markdown(text)
    escaped = r"a \textbar{} b\_\{c\}\$x\textasciicircum{}2\textasciitilde{}\textbackslash{}d & 1 \\"
    assert escaped in table.latex(text)


def test_markdown_and_latex_hold_the_same_cells(filled):
    text = table.result_table(summarise([ROW], SEEDS, filled))
    assert "| Tiny | 2 | 92.00 ± 2.00 (90.00) |" in table.markdown(text)
    assert r"Tiny & 2 & 92.00 $\pm$ 2.00 (90.00) &" in table.latex(text) and r"\bottomrule" in table.latex(text)
    assert r"95 \% interval" in table.latex(table.Text("", ["95 % interval"], []))
    signs = table.latex(table.Text("", ["+1.50 (-0.25 to +3.00)", "k-best", "`softpnet train a_b --seed 0`"], []))
    assert r"+1.50 ($-$0.25 to +3.00) & k-best & \texttt{softpnet train a\_b -{}-seed 0} \\" in signs


def test_only_what_has_no_record_is_run_and_the_record_tells_all(tmp_path):
    record(tmp_path, ROW, 0, 0.90, 0.85)
    (before,) = records.record_path(tmp_path, ROW).read_bytes().splitlines()
    assert records.missing([ROW], (0, 128), tmp_path) == [(ROW, 128)]
    assert list(run_missing([ROW], (0, 128), tmp_path, jobs=1)) == [(ROW, 128)]
    first, second = records.record_path(tmp_path, ROW).read_bytes().splitlines()
    made = json.loads(unseal(second))
    assert made["row"] == "tiny" and made["seed"] == 128 and made["settings"]["epochs"] == 1
    assert len(made["curve"]) == 1 and set(made["tests"]) == {"test"} and "torch" in made["versions"]
    assert made["command"].startswith("softpnet train kand_logic --seed 128 ")
    assert len(made["configuration"]) == len(made["weights_sha256"]) == 64 and made["machine"]["threads"] == 1
    (read,) = records.read_records(ROW, (128,), tmp_path)
    assert (read.tests, read.curve, read.command) == (made["tests"], made["curve"], made["command"])
    assert records.missing([ROW], (0, 128), tmp_path) == [] and first == before
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kand_logic", "tiny.jsonl", "unfinished"]


def test_the_configuration_is_that_of_all_seeds_and_of_no_other_settings():
    config = {"task": "t", "origin": {"options": {}}, "method": "m", "settings": {"epochs": 1}, "seed": 0}
    same = records.configuration(config | {"seed": 1, "versions": {}})
    assert same == records.configuration(config) != records.configuration(config | {"settings": {"epochs": 2}})


def test_a_record_from_before_a_setting_existed_has_that_setting_s_default(tmp_path):
    settings = records.choices(ROW)["settings"]
    assert "walk_steps" not in settings
    for seed, steps in ((0, {}), (128, {"walk_steps": 1})):
        record(tmp_path, ROW, seed, 0.9, 0.9, settings=settings | steps)
    assert len(records.read_records(ROW, SEEDS, tmp_path)) == 2
    record(tmp_path, ROW, 256, 0.9, 0.9, settings=settings | {"walk_steps": 2})
    with pytest.raises(InputError, match="different configuration"):
        records.read_records(ROW, SEEDS, tmp_path)


def test_a_record_that_does_not_fit_is_named_before_anything_is_run(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(reproduce, "run_missing", lambda *given: started.append(given) or iter(()))
    (row,) = chosen_rows(["kand-softg"])
    record(tmp_path, row, SEEDS[-1], 0.9, 0.9, method="softg_k")
    with pytest.raises(InputError, match=r"kand-softg\.jsonl, line 1, .* made with a different configuration"):
        Reproduce(("kand-softg",), records=tmp_path).run()
    assert not started


def test_a_run_that_fails_is_named_and_does_not_keep_the_others_from_running(tmp_path, capsys, runs_here):
    broken = Row("broken", "Broken", "kand_logic", settings={"epochs": 0})
    with pytest.raises(
        TrainingError, match=r"1 of 2 runs failed:\nsoftpnet train kand_logic --seed 0 --epochs 0 ended with 2: "
    ):
        run_and_show([broken, ROW], (0,), tmp_path, 1, None)
    assert records.missing([broken, ROW], (0,), tmp_path) == [(broken, 0)]
    shown = capsys.readouterr().out
    assert re.search(r"│ Tiny +│ 1 ", shown) and re.search(r"│ Broken +│ broken +│ 0 ", shown)


def test_a_record_that_cannot_be_written_does_not_keep_the_others_from_running(tmp_path, runs_here):
    records.record_path(tmp_path, ROW).with_suffix(".jsonl.part").mkdir(parents=True)
    with pytest.raises(TrainingError, match=r"1 of 2 runs failed:\n.*tiny\.jsonl could not be written"):
        list(run_missing([ROW, OTHER], (0,), tmp_path, jobs=1))
    assert records.missing([ROW, OTHER], (0,), tmp_path) == [(ROW, 0)]


@pytest.mark.parametrize(
    "folder, lock",
    [(".", "tiny-seed0.lock"), ("tiny-seed0", "lock")],
    ids=["of another reproduce", "of one that was killed"],
)
def test_a_run_of_another_process_is_waited_for_and_not_run_again(tmp_path, monkeypatch, folder, lock):
    monkeypatch.setattr(base, "PAUSE_S", 0.01)
    monkeypatch.setattr(local.Engine, "run", lambda *given: pytest.fail("it was run again"))
    held = tmp_path / ROW.task / UNFINISHED / folder
    held.mkdir(parents=True)
    with ThreadPoolExecutor(1) as pool, pytest.warns(UserWarning, match=r"in use by process \d+ on .*; waiting for it"):
        with hold(held, lock):
            done = pool.submit(lambda: list(run_missing([ROW], (0,), tmp_path, jobs=1)))
            time.sleep(0.1)
            assert not done.done()
            record(tmp_path, ROW, 0, 0.9, 0.8)  # by the other
        assert done.result(PATIENCE_S) == [(ROW, 0)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"versions": versions() | {"platform": "another kernel"}}, None),
        ({"versions": versions() | {"commit": "another"}}, "commit was another, is "),
        ({"method": "pnet_sl"}, "method was pnet_sl, is softpnet"),
        ({"settings": {"weight": 1.0}}, ".* was written by another version of softpnet"),
    ],
)
def test_a_run_that_was_cut_off_under_other_code_or_choices_is_begun_again(tmp_path, monkeypatch, changes, reason):
    there = []
    monkeypatch.setattr(local.Engine, "run", lambda *given: there.append(folder.path.exists()) or (1, "not run here"))
    model = Learner(tasks.load(ROW.task, ROW.options), **ROW.settings)
    with RunFolder.to_write(tmp_path / ROW.task / UNFINISHED / "tiny-seed0") as folder:
        config = json.loads(model.config().to_bytes())
        folder.write(CONFIG, to_json(config | {"data": "0" * 64, "input_shape": [3, 28, 28]} | changes))
    expected = nullcontext() if reason is None else pytest.warns(UserWarning, match=f"is begun again, since {reason}")
    with expected, pytest.raises(TrainingError, match="not run here"):
        list(run_missing([ROW], (0,), tmp_path, jobs=1))
    assert there == [reason is None]


def test_the_folder_of_a_run_whose_record_is_there_is_removed_unless_it_is_in_use(tmp_path):
    record(tmp_path, ROW, 0, 0.9, 0.8)
    folder = tmp_path / ROW.task / UNFINISHED / "tiny-seed0"
    folder.mkdir(parents=True)
    for held, lock in [(folder.parent, "tiny-seed0.lock"), (folder, "lock")]:
        with hold(held, lock):
            assert list(run_missing([ROW], (0,), tmp_path, jobs=1)) == [] and folder.exists()
    assert list(run_missing([ROW], (0,), tmp_path, jobs=1)) == [] and not list(folder.parent.iterdir())


def test_what_a_run_warns_of_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setattr(local.Engine, "run", lambda *given: (0, "softpnet: warning: beware\n"))
    monkeypatch.setattr(reproduce, "write_record", lambda row, seed, run, folder: record(folder, row, seed, 0.9, 0.8))
    (tmp_path / ROW.task / UNFINISHED / "tiny-seed0").mkdir(parents=True)
    with pytest.warns(UserWarning, match="train kand_logic --seed 0 .*: softpnet: warning: beware"):
        list(run_missing([ROW], (0,), tmp_path, jobs=1))


def test_all_records_that_do_not_fit_are_counted(filled):
    changed = dataclasses.replace(ROW, settings=SHORT | {"batch_size": 8})
    with pytest.raises(InputError, match=r"tiny\.jsonl, line 1, .* \(--records\), and so for 1 more of tiny"):
        summarise([changed], SEEDS, filled)


def test_no_process_is_started_once_the_others_were_stopped():
    engine = local.Engine()
    code, said = engine.run(["train", "no_such_task"], Path("none"))
    assert code == 2 and said.startswith("softpnet: unknown task 'no_such_task'")
    engine.stop()
    with pytest.raises(CancelledError):
        engine.run(["tasks"], Path("none"))


def test_the_time_that_is_left_is_that_of_what_is_left():
    assert time_left(600, 2, 5) == "about 15 min left"
    assert time_left(36_000, 4, 20) == "about 40 h 0 min left"


STOPPED = """
import json
import sys
from pathlib import Path
from contextlib import closing
from softpnet.experiments.reproduce import run_missing
from softpnet.experiments.rows import Row
row = Row("long", "Long", "kand_logic", options=json.loads(sys.argv[2]), settings=json.loads(sys.argv[3]))
with closing(run_missing([row], (0,), Path(sys.argv[1]), 1)) as done:
    print(len(list(done)))
"""


@pytest.mark.processes
def test_what_was_cut_off_goes_on_from_its_checkpoint(tmp_path, runs_here):
    """The run makes a checkpoint, and the second start leaves the epochs before it as they were."""
    settings = {"epochs": 30, "warmup_steps": 0, "episodes": 2, "batch_size": 8}
    command = [sys.executable, "-c", STOPPED, str(tmp_path), json.dumps(SMALL), json.dumps(settings)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    folder = tmp_path / "kand_logic" / UNFINISHED / "long-seed0"
    assert wait_for((folder / "epochs.jsonl").exists, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) != 0
    checkpoints = sorted(path.name for path in folder.glob("checkpoint-*"))
    assert checkpoints and not checkpoints[-1].startswith("checkpoint-000000-0000-")
    before = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    row = Row("long", "Long", "kand_logic", options=SMALL, settings=settings)
    assert list(run_missing([row], (0,), tmp_path, jobs=1)) == [(row, 0)]
    made = json.loads((tmp_path / "kand_logic/long.jsonl").read_text())
    assert len(made["curve"]) == 30 and not made["interrupted"]
    assert 0 < len(before) < 30 and made["curve"][: len(before)] == before  # to the microsecond: not trained again


def test_committed_records_fit_the_rows_they_are_shown_in():
    folder = Path(__file__).parents[2] / "results"
    for row in ROWS:
        for found in records.read_records(row, SEEDS, folder):
            assert found.command == row.command_line(found.seed)
            assert not found.versions.commit.endswith("+"), "measured on code that was not committed"


def test_a_record_names_its_task_as_the_command_does_on_any_machine():
    folder = Path(__file__).parents[2] / "results"
    for row in [row for rows in TABLES.values() for row in rows]:
        assert {found.origin["task"] for found in records.read_records(row, SEEDS, folder)} <= {row.task}


def test_a_setting_that_is_switched_off_is_so_in_the_command_too():
    words = Row("x", "X", "kand_logic", settings={"views": False, "epochs": 2}).command(0)
    assert words == ["train", "kand_logic", "--seed", "0", "--no-views", "--epochs", "2"]


def test_a_row_of_another_precision_says_so_in_its_command():
    (row,) = chosen_rows(["evenodd-best-bf16"])
    assert row.command_line(0) == "softpnet train mnist_evenodd --seed 0 --precision bf16-mixed"
    assert records.choices(row)["precision"] == "bf16-mixed"


def test_rows_have_names_of_their_own_and_methods_that_exist():
    from softpnet import methods, tasks

    assert len({row.name for row in ROWS}) == len(ROWS) and {row.name for row in ROWS} >= SHORT_ROWS
    assert {row.method for row in ROWS} == set(methods.names()) and {row.task for row in ROWS} == set(tasks.names())


BEGIN, END = marks()


def test_a_page_keeps_what_is_outside_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_into(page, "new\n")
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    others = "\n".join(marks("made by another"))
    page.write_text(f"{others}\n{BEGIN}\nold\n{END}\n")
    write_into(page, "new\n")
    assert page.read_text() == f"{others}\n{BEGIN}\n\nnew\n\n{END}\n"
    for bad in ("no marks", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{END}\n"):
        page.write_text(bad)
        with pytest.raises(InputError, match="needs one line"):
            write_into(page, "new")
        assert page.read_text() == bad
    page.write_bytes(b"\xff")
    with pytest.raises(InputError, match="not a text page"):
        write_into(page, "new")
    with pytest.raises(InputError, match="there is no page"):
        write_into(tmp_path / "none.md", "new")


def test_a_page_that_cannot_take_the_tables_is_named_before_anything_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "run_missing", lambda *given: pytest.fail("it was run"))
    with pytest.raises(InputError, match="there is no page"):
        Reproduce(("kand-softg",), records=tmp_path, into=tmp_path / "none.md").run()


def test_a_page_is_left_as_it_is_where_there_is_nothing_to_show(filled):
    page = filled / "page.md"
    page.write_text(f"{BEGIN}\nold\n{END}\n")
    digits = Row("digits", "Digits", "mnist_evenodd")
    record(filled, digits, 0, 0.9, 0.8)
    with pytest.raises(InputError, match="nothing for the tables primitives"):
        show([digits], SEEDS, filled, "terminal", page, ("primitives",))
    assert page.read_text() == f"{BEGIN}\nold\n{END}\n"
