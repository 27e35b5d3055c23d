"""From a task's rule, however it is written, to what answers every question about it; worked out once per task."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from softpnet.errors import InputError, TaskError, user_code
from softpnet.rules.diagram import CompiledRule, Diagram, NotCompiled
from softpnet.rules.labels import find_labels, name_labels, sampled_rows, unique_labels
from softpnet.rules.machine import check_order
from softpnet.rules.probe import probed
from softpnet.rules.rows import verified_rows
from softpnet.rules.sifting import sifted
from softpnet.rules.table import from_table
from softpnet.rules.trie import from_rows
from softpnet.task.rows import Rows
from softpnet.task.task import Task

How = Literal["exact", "listed", "probed", "not compiled"]
"""Listed: exact, if the rows that the task calls complete are, and no label is so rare that it was never seen."""

TABLE = 10_000_000
"""A rule over so many assignments is asked about each of them."""


@dataclass(frozen=True)
class Compilation:
    """What became of a rule."""

    rule: CompiledRule | None
    """Answers every question, if there is one."""
    how: How
    said: str
    """Where it comes from, or why there is none."""
    seconds: float

    def __str__(self) -> str:
        found = self.rule
        if found is None:
            return f"not compiled: {self.said}"
        size = ""
        if isinstance(found, Diagram):
            size = f", {found.nodes:,} nodes, at most {max(found.widths):,} in a layer"
        return f"{self.how}, {self.said}{size}, compiled in {self.seconds:.1f} s"


def compilation(task: Task) -> Compilation:
    """The task's compiled rule, or why there is none."""
    if "compilation" not in task.memo:
        began = time.perf_counter()
        try:
            found: tuple[CompiledRule | None, How, str] = _compiled(task)
        except NotCompiled as error:
            found = None, "not compiled", str(error)
        task.memo["compilation"] = Compilation(*found, time.perf_counter() - began)
    return task.memo["compilation"]


def compiled_already(task: Task) -> Compilation | None:
    """The same, where it has been asked for."""
    return task.memo.get("compilation")


def _compiled(task: Task) -> tuple[CompiledRule, How, str]:
    space, rule = task.space, task.rule
    check_order(task.order, space)
    order = tuple(range(space.k)) if task.order is None else tuple(task.order)
    if hasattr(rule, "compiled"):  # it knows best itself
        if task.order is not None:
            kind = type(rule).__name__
            raise TaskError(f"task {task.name!r} has an order, but its rule is a {kind}; give the {kind} that order")
        found = rule.compiled(space)
        return found, "exact", getattr(rule, "said", "from a state machine")
    if isinstance(rule, Rows):
        return _from_rows(task, rule, order), "exact", f"from {len(rule.rows):,} listed rows"
    if space.size <= TABLE:
        with user_code(f"the rule of task {task.name!r} cannot be tabled"):
            diagram = from_table(space, task.rule, order)
        return _in_order(task, diagram), "exact", f"from a table of all {space.size:,} assignments"
    given = _own_rows(task)
    if given is not None:
        listed = _listed(task, given, order)
        if listed is not None:
            return listed, "listed", f"from {len(given.rows):,} rows that are called complete"
    known = torch.zeros(0, space.k, dtype=torch.int64) if given is None else verified_rows(task, given)
    with user_code(f"the rule of task {task.name!r} cannot be probed"):
        result = probed(space, task.rule, order, known)
    rare = f"; {result.rare:,} labels are too rare to be sure of" if result.rare else ""
    size = f"{space.size:,}" if space.size < 10**12 else f"about 10^{len(str(space.size)) - 1}"
    said = f"no disagreement in {result.checks:,} checks of {size} assignments{rare}"
    return _in_order(task, result.diagram), "probed", said


def _in_order(task: Task, diagram: Diagram) -> Diagram:
    """In the order that was given, or in a better one."""
    return diagram if task.order is not None else sifted(diagram)


def _own_rows(task: Task) -> Rows | None:
    if task.rows is None:
        return None
    with user_code(f"the rows of task {task.name!r} cannot be made"):
        return task.rows(Generator().manual_seed(0))


def _from_rows(task: Task, given: Rows, order: tuple[int, ...]) -> Diagram:
    """The diagram of rows that are a rule by themselves. An assignment that is not listed has the other label; where
    rows are complete for some labels only, it may have any of the remaining ones."""
    rows = verified_rows(task, given)
    labels = task.rule(rows)
    if given.complete is None:
        return _in_order(task, from_rows(task.space, rows, labels, order, given.other_label))
    kept = find_labels(given.complete.long(), labels) >= 0
    return _in_order(task, from_rows(task.space, rows[kept], labels[kept], order, None))


def _listed(task: Task, given: Rows, order: tuple[int, ...]) -> Diagram | None:
    """The diagram of the rows that are called complete, where the rule has at most one label beside theirs."""
    if given.complete is None or len(given.complete) == 0:
        return None
    rows, complete = verified_rows(task, given), given.complete.long()
    labels = task.rule(rows)
    tried = sampled_rows(task)
    seen = task.rule(tried)
    known = unique_labels(torch.cat([labels, seen]))[0]
    others = known[find_labels(complete, known) < 0]
    kept: Tensor = find_labels(complete, labels) >= 0
    if len(others) > 1 or not kept.any():
        return None
    diagram = from_rows(task.space, rows[kept], labels[kept], order, others[0] if len(others) else None)
    # Rows that are not complete after all are no foundation.
    return _in_order(task, diagram) if diagram.contains(tried, seen).all() else None


def known_labels(task: Task, labels: Tensor) -> Tensor:
    """Which labels `[N]` or `[N, m]` the compiled rule can be asked about, `[N]`."""
    rule = compilation(task).rule
    if rule is None:
        return torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    return rule.knows(labels)


def is_total(task: Task) -> bool:
    """Whether the compiled rule knows the label of every assignment."""
    found = compilation(task)
    return found.rule is not None and found.rule.is_total and found.how == "exact"


def check_known(task: Task, labels: Tensor) -> None:
    """Raise where the compiled rule cannot be asked about one of the labels `[N]` or `[N, m]`."""
    known = known_labels(task, labels)
    if known.all():
        return
    who, which = name_labels(labels, ~known)
    if is_total(task):
        raise InputError(
            f"{who} that no values of the concepts give in task {task.name!r}: {which}; correct the labels or the rule"
        )
    raise InputError(
        f"{who} that the compiled rule of task {task.name!r} does not know: {which}, rare or impossible, since it is "
        f"{compilation(task)}; write the rule as a Machine, give its rows, or use targets='kbest'"
    )
