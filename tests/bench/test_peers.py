"""The race between peers is timed, cut off and reported as it says; no peer is needed for that."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench import peers

SCRIPT = """
case $1 in
    fails) echo 'no file /some/where/peer.so' >&2; exit 1;;
esac
echo '{"seconds": 1.5}'
echo "{\\"seconds\\": 2.0, \\"error\\": \\"given: $*\\"}"
"""


class Clock:
    """Seconds pass when it is told so."""

    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(peers, "time", clock)
    return clock


@pytest.fixture
def contend(monkeypatch, clock):
    """Run a contender that makes updates of 16 examples in 1 s each, after 4 s on the anchors; judging takes 100 s."""

    def contender(race, updates=100):
        def judge():
            clock.now += 100
            return {"concept_accuracy": race.seen / 1000, "label_accuracy": 0.5}

        race.judge, race.since, race.before_epochs = judge, clock.now, 4.0
        clock.now += 4
        for _ in range(updates):
            clock.now += 1
            race.saw(16)
        raise RuntimeError("lost in /some/where/deep.py\nand more")

    def contend(**options):
        monkeypatch.setitem(peers.CONTENDERS, "stranger", contender)
        return SimpleNamespace(**peers.contend(peers.Race("stranger", train=32, **options)))

    return contend


@pytest.mark.parametrize("name, module", [("ABLkit", "ablkit"), ("LTNtorch", "ltn"), ("DeepProbLog", "deepproblog")])
def test_a_missing_module_is_named_in_the_row(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    names = [known for known in peers.CONTENDERS if known.startswith(name)]
    assert names
    for known in names:
        row = peers.contend(peers.Race(known))
        assert set(row) == set(peers.KEYS)
        assert row["error"].startswith("ModuleNotFoundError: ") and module in row["error"]
        assert row["concept_accuracy"] is None and row["seconds"] is None


def test_a_fast_contender_goes_on_until_the_seconds_are_used_up(contend):
    row = contend(epochs=2, seconds=14.5)
    assert row.error is None
    assert (row.epochs, row.concept_accuracy) == (2.0, 0.064)  # after 4 updates
    assert row.concept_accuracy_same_time == 0.176  # after the first update that ends later than 14.5 s, the eleventh


def test_a_slow_contender_is_judged_when_the_seconds_are_used_up_and_goes_on(contend):
    row = contend(epochs=10, seconds=6.0)
    assert row.error is None
    assert row.concept_accuracy_same_time == 0.032 and (row.epochs, row.concept_accuracy) == (10.0, 0.32)


def test_judging_is_not_timed_and_training_on_the_anchors_is_no_part_of_an_epoch(contend):
    row = contend(epochs=10, seconds=6.0)
    assert row.seconds == 24.0 and row.seconds_per_epoch == 2.0


def test_a_contender_is_cut_off_with_what_it_reached(contend):
    row = contend(epochs=10, seconds=6.0, limit=7.0)
    assert row.error == "cut off and judged at 7 s"
    assert (row.epochs, row.concept_accuracy, row.seconds) == (1.5, 0.048, 7.0)
    assert row.concept_accuracy_same_time == 0.032


def test_an_error_in_training_keeps_what_was_reached(contend):
    row = contend(epochs=1, seconds=1e6, limit=1e6)
    assert row.error == "RuntimeError: lost in deep.py"
    assert row.concept_accuracy == 0.032 and row.concept_accuracy_same_time is None


def test_an_unknown_contender_is_named():
    with pytest.raises(ValueError, match="unknown contender 'nobody'; the contenders are: softpnet; ABLkit"):
        peers.Race("nobody")


def hanging(run):
    """`subprocess.run` with one process that says a line and never ends; the others have all the time they need."""

    def patient(command, *, timeout, **options):
        if "hangs" in command:
            raise subprocess.TimeoutExpired(command, timeout, b'{"concept_accuracy_same_time": 0.25}\n')
        return run(command, **options)

    return patient


def test_neither_failing_nor_hanging_stops_the_others(monkeypatch):
    monkeypatch.setattr(peers, "PROGRAM", ["sh", "-c", SCRIPT, "sh"])
    monkeypatch.setattr(peers, "CONTENDERS", dict.fromkeys(["ours", "fails", "hangs", "last"]))
    monkeypatch.setattr(peers, "GRACE", 7.0)
    monkeypatch.setattr(peers.subprocess, "run", hanging(subprocess.run))
    ours, fails, hangs, last = rows = peers.measure(train=16, epochs=3, seed=7, limit=3.0)
    assert [row["name"] for row in rows] == ["ours", "fails", "hangs", "last"]
    assert all(set(row) == set(peers.KEYS) for row in rows)
    assert ours["error"] == "given: ours --limit=3.0 --train=16 --epochs=3 --seed=7"
    assert fails["error"] == "exit code 1: no file peer.so" and fails["seconds"] is None
    assert hangs["error"].startswith("cut off at 10 s") and hangs["concept_accuracy_same_time"] == 0.25
    assert last["error"].endswith("--seed=7 --seconds=2.0")  # the seconds that ours took
