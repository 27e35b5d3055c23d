"""The rule that is shipped: its diagram in numpy, where there is one, or why there is none."""

from __future__ import annotations

from softpnet.errors import TaskError
from softpnet.rules.compile import compilation
from softpnet.rules.diagram import Diagram
from softpnet.rules.table import from_table
from softpnet.runtime.diagram import Diagram as ShippedDiagram
from softpnet.task.task import Task

TABLE = 1_000_000
"""A machine that sees the label is asked about every assignment, if there are so many at most."""


def shipped_rule(task: Task) -> tuple[ShippedDiagram | None, str]:
    """The rule's diagram, and how it was compiled; or None, and why."""
    try:
        found = compilation(task)
        diagram, said = found.rule, f"{found.how}, {found.said}"
        if diagram is not None and not isinstance(diagram, Diagram):
            if task.space.size > TABLE:
                return None, f"its Machine sees the label, and {task.space.size:,} assignments are too many to list"
            diagram = from_table(task.space, task.rule, diagram.order)
            said = f"exact, from a table of all {task.space.size:,} assignments"
    except TaskError as error:  # a method that needs no compiled rule trained all the same
        return None, str(error)
    if diagram is None:
        return None, said
    assert isinstance(diagram, Diagram)
    return ShippedDiagram(diagram.order, [edges.numpy() for edges in diagram.edges], diagram.labels.numpy()), said
