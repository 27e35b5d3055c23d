"""check_task: all named checks of a task, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from softpnet import methods
from softpnet.checks import basics, data, moves, relabelings, rows, shortcuts
from softpnet.checks.report import Report, Result
from softpnet.checks.subject import NotApplicable, Subject
from softpnet.errors import SoftPNetError, describe
from softpnet.methods.base import Method
from softpnet.rules import function as rule
from softpnet.task.settings import checked_seed
from softpnet.task.task import Task, checked_task
from softpnet.training.streams import borrowed_global_generator


class Check(NamedTuple):
    """Returns a sentence on what it saw; raises where the task is not as it must be, and warns where it is odd."""

    run: Callable[[Subject], str]
    needs: tuple[str, ...] = ()  # checks that must not have failed before


def check_task(task: Task, *, method: str | type[Method] = "softpnet", seed: int = 0, **settings: Any) -> Report:
    """Check a task of your own before training on it: `print(sp.check_task(task))`.

    Every check that can run does; an exception in one of the task's functions is that check's failure. How much is
    looked at is limited, so that it takes seconds, and the messages say how much it was. What `fit` would refuse fails,
    because the same code is run; what the method does not use is not looked at.

    Args:
        method: how it is to be trained.
        seed: of the data, the rows and all draws.
        settings: any field of `Settings`, in place of the task's value.

    Returns:
        a Report: `report.ok`, `report["rows"]`, `report.raise_if_failed()`.
    """
    checked_task(task, "check_task")
    methods.find(method)  # an unknown one is no fault of the task
    subject = Subject(task, checked_seed(seed), method, **settings)
    results: dict[str, Result] = {}
    for name, check in CHECKS.items():
        results[name] = _judge(name, check, subject, results)
    return Report(task.name, tuple(results.values()))


def _judge(name: str, check: Check, subject: Subject, before: dict[str, Result]) -> Result:
    for needed in check.needs:
        if before[needed].outcome in ("failed", "not run"):
            return Result(name, "not run", f"it builds on {needed!r}, which {_past(before[needed])}")
    # A task's function may draw from the global generator although it should not: the report is the same all the same.
    with warnings.catch_warnings(record=True) as caught, borrowed_global_generator(subject.generator(name)):
        warnings.simplefilter("always")
        try:
            message = check.run(subject)
        except NotApplicable as reason:
            return Result(name, "not applicable", str(reason))
        except SoftPNetError as error:
            return Result(name, "failed", str(error))
        except (Exception, SystemExit) as error:
            return Result(name, "failed", describe(error))
    told = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    return Result(name, "warning", "; ".join(told)) if told else Result(name, "passed", message)


def _past(result: Result) -> str:
    return "failed" if result.outcome == "failed" else "was not run"


def _rule_part(part: Callable[[Task, Tensor], None], subject: Subject) -> str:
    tried = rule.some_rows(subject.task.space)
    part(subject.task, tried)
    return f"tried on {len(tried)} random assignments"


RULE = tuple(rule.PARTS)

CHECKS: dict[str, Check] = {
    "space": Check(basics.space_is_sound),
    "settings": Check(basics.settings_are_accepted),
    **{
        name: Check(partial(_rule_part, part), ("space", *RULE[:at]) if name != "rule input" else RULE[:1])
        for at, (name, part) in enumerate(rule.PARTS.items())
    },
    "data": Check(data.data_is_there),
    "data repeatable": Check(data.data_is_repeatable, ("data",)),
    "inputs": Check(data.inputs_are_inputs, ("space", "data")),
    "labels": Check(data.labels_are_labels, (*RULE, "inputs")),
    "concepts": Check(data.concepts_agree, ("settings", "labels")),
    "anchors": Check(data.anchors_are_complete, ("inputs",)),
    "encoder": Check(data.encoder_gives_vectors, ("settings", "anchors")),
    "rows": Check(rows.rows_are_feasible, (*RULE, "settings")),
    "idle settings": Check(basics.settings_have_effect, ("rows",)),
    "shortcuts": Check(shortcuts.values_are_told_apart, ("rows",)),
    "needed anchors": Check(shortcuts.needed_anchors_are_there, ("rows",)),
    "relabelings": Check(relabelings.no_relabeling_fits, ("concepts",)),
    "complete": Check(rows.complete_is_true, ("rows",)),
    "training": Check(data.training_starts, ("concepts", "anchors", "encoder", "rows", "needed anchors")),
    "move": Check(moves.move_is_a_move, ("rows",)),
    "move label": Check(moves.move_keeps_the_label, ("move",)),
    "move symmetric": Check(moves.move_is_symmetric, ("move label",)),
    "move connected": Check(moves.move_connects, ("move label",)),
    "corruption": Check(moves.corruption_gives_its_label, ("rows",)),
}
"""By name, in the order in which they run."""
