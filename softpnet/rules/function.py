"""What a rule (f_K) must be: an integer-valued, vectorised, repeatable function of assignments. One function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError
from softpnet.task.concepts import ConceptSpace
from softpnet.task.integers import UNCOUNTED, is_integer

if TYPE_CHECKING:
    from softpnet.task.task import Task


def some_rows(space: ConceptSpace, count: int = 64) -> Tensor:
    """Random assignments to try a rule on, `[count, k]`, always the same."""
    generator = Generator().manual_seed(0)
    return (torch.rand(count, space.k, generator=generator) * torch.tensor(space.sizes)).long()


# A rule gets a copy each time, so that one that writes into its input fails the part about that and no other.


def check_runs(task: Task, rows: Tensor) -> None:
    try:
        task.rule(rows.clone())
    except TaskError:  # of a rule that says itself what is wrong
        raise
    except Exception as error:
        raise TaskError(
            f"the rule of task {task.name!r} failed on rows of shape {list(rows.shape)}: {error!r}; "
            "it must work on a whole batch, e.g. c[..., 0] + c[..., 1]"
        ) from error


def check_integers(task: Task, rows: Tensor) -> None:
    labels = task.rule(rows.clone())
    if not is_integer(labels) or labels.dtype in UNCOUNTED:
        found = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TaskError(
            f"the rule of task {task.name!r} returns {found}, expected an integer tensor, best int64; "
            "end it with .long() if the values are whole"
        )


def check_shape(task: Task, rows: Tensor) -> None:
    labels = task.rule(rows.clone())
    if labels.shape[:1] != rows.shape[:1] or labels.dim() > 2 or labels.numel() == 0:
        raise TaskError(
            f"the rule of task {task.name!r} maps rows of shape {list(rows.shape)} to {list(labels.shape)}, "
            f"expected [{len(rows)}] or [{len(rows)}, m] with m of 1 or more; index concepts with c[..., i]"
        )


def check_repeatable(task: Task, rows: Tensor) -> None:
    if not torch.equal(task.rule(rows.clone()), task.rule(rows.clone())):
        raise TaskError(
            f"the rule of task {task.name!r} differs between two calls on the same rows; "
            "it must be a fixed function of the concepts"
        )


def check_vectorised(task: Task, rows: Tensor) -> None:
    labels = task.rule(rows.clone())
    try:
        folded = task.rule(rows.clone().unflatten(0, (8, 8)))
        vectorised = folded.shape == (8, 8, *labels.shape[1:]) and torch.equal(folded.flatten(0, 1), labels)
    except Exception:
        vectorised = False
    if not vectorised:
        raise TaskError(
            f"the rule of task {task.name!r} fails or gives other labels when the same rows "
            "come as [8, 8, k]; use c[..., i], not c[:, i], and reduce over dim=-1"
        )


def check_rows_apart(task: Task, rows: Tensor) -> None:
    labels = task.rule(rows.clone())
    beginning = f"the rule of task {task.name!r}"
    ending = "it must look at each row by itself: reduce over dim=-1, as in c.amax(-1), not c.max()"
    try:
        backwards = task.rule(rows.flip(0)).flip(0)
        alone = torch.cat([task.rule(row[None].clone()) for row in rows])
        other = ((backwards != labels) | (alone != labels)).reshape(len(rows), -1).any(1)
    except Exception as error:
        raise TaskError(f"{beginning} fails when rows come alone or in another order: {error!r}; {ending}") from error
    if other.any():
        at = int(other.nonzero()[0])
        raise TaskError(
            f"{beginning} gives row {rows[at].tolist()} the label {labels[at].tolist()} among {len(rows)} rows, "
            f"{backwards[at].tolist()} in another order and {alone[at].tolist()} alone; {ending}"
        )


def check_input_kept(task: Task, rows: Tensor) -> None:
    given = rows.clone()
    task.rule(given)
    changed = (given != rows).any(1)
    if changed.any():
        at = int(changed.nonzero()[0])
        raise TaskError(
            f"the rule of task {task.name!r} writes into its input: row {rows[at].tolist()} is "
            f"{given[at].tolist()} afterwards; work on a copy, c.clone()"
        )


PARTS: dict[str, Callable[[Task, Tensor], None]] = {
    "rule runs": check_runs,
    "rule integers": check_integers,
    "rule shape": check_shape,
    "rule repeatable": check_repeatable,
    "rule vectorised": check_vectorised,
    "rule rows apart": check_rows_apart,
    "rule input": check_input_kept,
}
"""By name, each relying on those before it."""


def check_rule(task: Task) -> None:
    """Raise if f_K is not an integer-valued, vectorised, repeatable function of assignments."""
    rows = some_rows(task.space)
    for check in PARTS.values():
        check(task, rows)
