"""A race is timed, cut off and reported as it says; no peer is needed for that."""

import json
import subprocess
import sys

import pytest
import torch

from bench import curves, learning, race, tables

SCRIPT = """
case $1 in
    fails) echo 'no file /some/where/peer.so' >&2; exit 1;;
esac
echo '{"curve": [[1.0, 0.5, 0.4]]}'
echo "{\\"curve\\": [[1.0, 0.5, 0.4], [2.0, 0.9, 0.8]], \\"error\\": \\"given: $*\\"}"
"""


class Clock:
    """Seconds pass when it is told so."""

    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def contend(monkeypatch):
    """Run a contender that updates once a second and reads one more of 50 pairs each time; judging takes 100 s."""
    clock = Clock()
    monkeypatch.setattr(race, "time", clock)
    monkeypatch.setitem(race.CONTESTS, "short", race.Contest("Short", "mnist_evenodd", {}, {}, 10, 2.5))

    def contender(run, updates=100):
        truth = run.given[1].tests["test"].concepts
        seen = torch.zeros(len(truth), 1, dtype=torch.bool)

        def read():
            clock.now += 100
            return torch.where(seen, truth, 9 - truth)

        run.begin(read)
        for update in range(updates):
            clock.now += 1
            seen[: (update + 1) * len(truth) // 50] = True
            run.saw()
        raise RuntimeError("lost in /some/where/deep.py\nand more")

    def contend(updates=100, **options):
        monkeypatch.setitem(learning.CONTENDERS, "stranger", lambda run: contender(run, updates))
        return learning.contend(race.Race("stranger", "short", **options))

    return contend


def test_a_contender_is_judged_at_regular_times_and_judging_is_not_timed(contend):
    row = contend()
    assert row["error"] is None
    assert [[at, round(seen, 2)] for at, seen, _ in row["curve"]] == [[3, 0.06], [6, 0.12], [9, 0.18]]  # ends at 10 s


def test_a_race_is_over_when_the_contender_reads_well_enough(contend):
    assert [point[0] for point in contend(enough=0.1)["curve"]] == [3, 6]


def test_an_error_in_training_keeps_what_was_reached(contend):
    row = contend(updates=4)
    assert row["error"] == "RuntimeError: lost in deep.py" and len(row["curve"]) == 1


def test_the_time_to_a_level_is_that_of_the_first_point_there():
    curve = [[1.0, 0.5, 0.1], [2.0, 0.9, 0.5], [3.0, 0.8, 0.5], [4.0, 0.95, 0.6]]
    assert [race.time_to(curve, level) for level in (0.5, 0.6, 0.93, 0.99)] == [1.0, 2.0, 4.0, None]


@pytest.mark.parametrize("name, module", [("ABLkit", "ablkit"), ("LTNtorch", "ltn"), ("DeepProbLog", "deepproblog")])
def test_a_missing_module_is_named_in_the_row(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    names = [known for known in learning.CONTENDERS if known.startswith(name)]
    assert names
    for known in names:
        row = learning.contend(race.Race(known))
        assert row["error"].startswith("ModuleNotFoundError: ") and module in row["error"] and row["curve"] == []


def test_an_unknown_contender_is_named():
    with pytest.raises(ValueError, match="unknown contender 'nobody'; the contenders are: supervised; softpnet;"):
        learning.contend(race.Race("nobody"))


def test_our_own_methods_race_with_the_contest_s_settings(monkeypatch):
    tiny = race.Contest("Tiny", "mnist_evenodd", {"train": "16"}, {"epochs": 2, "warmup_steps": 2}, 1e6, 1e6)
    monkeypatch.setitem(race.CONTESTS, "tiny", tiny)
    for name in learning.HOUSE:
        row = learning.contend(race.Race(name, "tiny"))
        assert row["error"] is None and len(row["curve"]) == 1  # judged once more when training ends


def test_our_time_is_held_against_the_fastest_peer_s_and_the_bar_of_seven_tenths():
    def row(name, seconds):
        return {"contest": "EvenOdd", "name": name, "seconds_to": {"98%": seconds}, "ceiling": 1.0, "error": None}

    ours, supervised = row(learning.OURS, 6.0), row(learning.CEILING, 1.0)
    peers = [row("LTNtorch, anchors first", 20.0), row("ABLkit A3BL, anchors first", 8.0), row("LTNtorch", None)]
    (found,) = learning.against_peers([ours, supervised, *peers])
    assert found["ratio"] == 0.75 and found["target"] == 0.7 and "ours / ABLkit A3BL" in found["name"]
    text = tables.markdown(
        {"learning-evenodd": {"commit": "", "torch": "", "cores": 2, "load": 0.0, "rows": [ours, *peers]}}
    )
    assert "| 1 | 0.75 | at most 0.7 | no | 6.0000 |" in text
    assert learning.against_peers([ours]) == learning.against_peers([row(learning.OURS, None), *peers]) == []


def test_a_race_without_a_ceiling_says_what_ended_it(monkeypatch):
    monkeypatch.setattr(learning, "PROGRAM", ["sh", "-c", "echo lost >&2; exit 1", "sh"])
    with pytest.raises(RuntimeError, match="the ceiling of sudoku was not reached: exit code 1: lost"):
        learning.measure("sudoku")


def hanging(run):
    """`subprocess.run` with one process that says a line and never ends; the others have all the time they need."""

    def patient(command, *, timeout, **options):
        if "hangs" in command:
            raise subprocess.TimeoutExpired(command, timeout, b'{"curve": [[1.0, 0.25, 0.1]]}\n')
        return run(command, **options)

    return patient


def test_neither_failing_nor_hanging_stops_the_others(monkeypatch, tmp_path):
    monkeypatch.setattr(learning, "PROGRAM", ["sh", "-c", SCRIPT, "sh"])
    house = dict.fromkeys([learning.CEILING, "fails"])
    monkeypatch.setattr(learning, "HOUSE", house)
    monkeypatch.setattr(learning, "CONTENDERS", house | dict.fromkeys(["hangs", "last"]))
    monkeypatch.setattr(learning, "SEEDS", (7,))
    monkeypatch.setattr(learning.subprocess, "run", hanging(subprocess.run))
    rows = top, fails, hangs, last = learning.measure("evenodd")
    assert [row["name"] for row in rows] == [learning.CEILING, "fails", "hangs", "last"]
    assert [row["name"] for row in learning.measure("sudoku")] == [learning.CEILING, "fails"]
    assert top["seconds_to"] == {"95%": 2.0, "98%": 2.0, "99%": 2.0} and top["ceiling"] == 0.9
    assert fails["error"] == "exit code 1: no file peer.so" and fails["seconds_to"]["95%"] is None
    assert hangs["error"].startswith("cut off at 180 s") and hangs["curves"] == [[[1.0, 0.25, 0.1]]]
    assert last["error"] == "given: last --contest=evenodd --seed=7 --enough=0.891"  # 99 % of the ceiling
    text = tables.markdown({"learning-evenodd": {"commit": "", "torch": "", "cores": 2, "load": 0.0, "rows": rows}})
    assert "| EvenOdd, 1,600 pairs | 90.00 | last | 2.0 | 2.0 | 2.0 | given: last" in text
    curves.draw(tmp_path / "learning.png", json.loads(json.dumps(rows)))
    assert (tmp_path / "learning.png").stat().st_size > 10_000
