"""`check_task` fails exactly where `fit` refuses, for the same task, method and settings."""

import dataclasses
import re

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet.checks import moves, rows, shortcuts
from softpnet.rules import compile as compiling
from softpnet.rules import labels, probe
from softpnet.training import prepare
from softpnet.training.processes import launched
from softpnet.training.streams import Streams

QUICK = dict(epochs=2, warmup_steps=0, episodes=1, copies=1, batch_size=16, working_set=4, cache_rows=100)
SMALL, LARGE = sp.ConceptSpace(slots=2, values=3), sp.ConceptSpace(slots=13, values=3)
FEW = torch.cat([torch.zeros(1, 13, dtype=torch.int64), torch.eye(13, dtype=torch.int64)])  # sums 0 and 1


def tiny(channels):
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, 4))


def add(c):
    return c.sum(-1)


def at_most_two(c):
    return c.sum(-1).clamp_max(2)


def picture(values):
    """Values `[...]` -> images `[..., 1, 16, 16]`: four bright rows at a place that depends on the value."""
    bright = torch.arange(16)[:, None] // 4 == values[..., None, None, None]  # [..., 1, 16, 1]
    return bright.float().expand(*bright.shape[:-1], 16).clone()


def data(space, rule, concepts=True, highest=3, anchors=3, change=lambda labels: labels):
    """Data with every value below `highest`, 12 examples; a part of it may be missing or wrong."""

    def some(generator):
        true = torch.randint(highest, (12, space.k), generator=generator)
        return sp.Examples(picture(true), change(rule(true)), true if concepts else None)

    def make(streams):
        shown = sp.Anchors(picture(torch.arange(anchors) % 3), torch.arange(anchors))
        return sp.Data(some(streams("train")), shown, {"test": some(streams("test"))})

    return make


def task(space=SMALL, rule=add, encoder=tiny, rows=None, complete=(), corrupt=None, **given):
    made = None if rows is None else lambda generator: sp.Rows(rows, torch.tensor(complete, dtype=torch.int64))
    return sp.Task(
        space,
        rule,
        rows=made,
        data=data(space, rule, **given),
        encoder=encoder,
        settings=QUICK,
        corrupt=corrupt,
    )


def at_most_two_of(states):
    return states.clamp_max(2)


def scattered(c):
    """No two beginnings agree on all endings: too many nodes for any diagram."""
    key = (c * 3 ** torch.arange(13)).sum(-1)
    return key * 2_654_435_761 // 2**16 % 2


def vector(c):
    return torch.stack([c.sum(-1), c[..., 0]], dim=-1)


TASKS = {
    "small": task(),
    "small, labels without rows": task(rows=SMALL.all()[:5]),
    "small, no true concepts": task(concepts=False),
    "small, label vectors": task(rule=vector),
    "small, corruption of label vectors": task(
        rule=vector, corrupt=sp.Corruption(0, 1, lambda rows, generator: rows * 0)
    ),
    "small, an impossible label": task(concepts=False, change=lambda labels: labels + 9),
    "small, an anchor too few": task(anchors=2),
    "small, an anchor of no value": task(anchors=4),
    "small, the method's own encoder": task(encoder=None),
    "large": task(LARGE),
    "large, a machine": task(LARGE, sp.Machine(0, lambda states, concept, values: states + values, at_most_two_of)),
    "large, not compiled": task(LARGE, scattered),
    "large, not compiled, an impossible label": task(
        LARGE, scattered, concepts=False, change=lambda labels: labels + 9
    ),
    "large, few rows": task(LARGE, rows=FEW, highest=1),
    "large, few rows, labels without": task(LARGE, rows=FEW),
    "large, complete rows": task(LARGE, at_most_two, rows=FEW, complete=(0, 1), highest=1),
    "large, complete rows but for the rest": task(LARGE, at_most_two, rows=FEW, complete=(0, 1)),
    "large, rows outside": task(LARGE, rows=FEW + 3),
}
METHODS = ("softpnet", "softpnet_no_projection", "pnet_sl", "softg_k", "abduction", "supervised")
"""Between them: prototypes and heads, every way to start, settings that are fixed, encoders and moves of their own."""


@pytest.fixture(autouse=True)
def little_work(monkeypatch):
    """What is looked at by many draws is not what this is about."""
    for module, name, value in [
        (moves, "PROPOSALS", 2_000), (moves, "LINKING", 2_000), (moves, "ROWS", 20), (rows, "TRIED", 200),
        (shortcuts, "ROWS", 20), (shortcuts, "PAIRS", 3), (labels, "SAMPLED", 1_000),
        (compiling, "TABLE", 1_000), (rows, "TABLE", 1_000), (probe, "CHECKS", 10_000), (probe, "QUESTIONS", 100_000),
    ]:  # fmt: skip
        monkeypatch.setattr(module, name, value)


class Started(Exception):
    """Training has made its first step."""


def refused(given, method, settings):
    """What `fit` says before its first step, None where it makes that."""

    def stop(step):
        raise Started

    made = given.data(Streams(0))
    try:
        model = sp.Learner(given, method=method, **settings)
        model.fit(made.train.inputs, made.train.labels, made.anchors, concepts=made.train.concepts, progress=stop)
    except (Started, sp.TrainingError):  # the latter may end the first step, where that is an epoch
        return None
    except sp.SoftPNetError as error:
        return str(error)


def assert_agreement(given, method, settings):
    expected = refused(given, method, settings)
    report = sp.check_task(given, method=method, **settings)
    assert report.ok == (expected is None), (settings, expected, report)
    if expected is not None:
        # The rows are looked at before it is known which label lacks them.
        said = [re.sub(r"of label \d+ cannot", "of a label cannot", each) for each in (expected, *messages(report))]
        assert said[0] in said[1:], (settings, report)


def messages(report):
    return [result.message for result in report.failures()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("which", TASKS)
def test_check_fails_exactly_where_training_is_refused(which, method):
    for settings in ({}, {"targets": "kbest"}, {"targets": "cache"}, {"targets": "exact"}):
        assert_agreement(TASKS[which], method, settings)


@pytest.mark.parametrize(
    "method, settings",
    [
        ("softpnet", {"epochs": 0}),
        ("softpnet", {"learning_rate": float("nan")}),
        ("softpnet", {"no_such": 1}),
        ("softpnet", {"device": "cuda"}),
        ("softg", {"working_set": 3}),
        ("abduction", {"gamma": 2.0}),
        ("abduction", {"working_set": 3}),
    ],
)
def test_check_refuses_the_settings_that_training_refuses(method, settings):
    assert_agreement(TASKS["small"], method, settings)


def test_both_outcomes_are_met_by_every_method():
    """Or the agreement would say little."""
    for method in METHODS:
        found = {refused(TASKS[which], method, {}) is None for which in ("small", "small, an anchor of no value")}
        assert found == {True, False}, method


def test_an_unknown_method_is_no_fault_of_the_task():
    with pytest.raises(sp.InputError, match="unknown method 'no_such'; the methods are"):
        sp.check_task(TASKS["small"], method="no_such")


def test_what_the_method_does_not_use_is_not_looked_at():
    def broken(*_):
        raise AssertionError("nobody needs this")

    given = dataclasses.replace(TASKS["small"], rows=broken, move=broken, corrupt=sp.Corruption(0, 1, broken))
    report = sp.check_task(given, targets="kbest")
    unused = {"rows", "complete", "move", "move label", "move symmetric", "move connected", "corruption"}
    assert report.ok and unused <= {result.name for result in report if result.outcome == "not applicable"}, report
    for name in ("move", "move label", "move symmetric", "move connected", "corruption"):
        assert report[name].message == "method 'softpnet' does not walk with these settings"
    assert report["rows"].message == report["complete"].message == "method 'softpnet' uses no rows with these settings"
    assert messages(sp.check_task(given, targets="cache")) and sp.check_task(given, method="supervised").ok
    own = sp.check_task(TASKS["small"], method="softpnet_no_projection")
    assert own["move"].message == "method 'softpnet_no_projection' walks by a move of its own"


def test_processes_are_not_started_to_check(monkeypatch):
    monkeypatch.setattr(prepare, "launched", lambda hardware, idle: launched(check_one(hardware), idle))

    def check_one(hardware):
        assert hardware.processes == 1
        return hardware

    assert sp.check_task(TASKS["small"], processes=2).ok
