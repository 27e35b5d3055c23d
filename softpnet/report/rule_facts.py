"""What a report says of a rule: how it was compiled, how large it is, and the diagram itself, for the page to sweep."""

from __future__ import annotations

from typing import Any, NamedTuple

from softpnet.errors import TaskError
from softpnet.report.samples import label_text
from softpnet.rules.compile import compilation
from softpnet.rules.diagram import CompiledRule, Diagram
from softpnet.rules.solvers import Listed
from softpnet.task.task import Task

SHOWN = 30
"""So many labels have a line of their own."""
MOST_EDGES, MOST_LABELS = 150_000, 20_000
"""A larger diagram is not put into a page."""


class RuleFacts(NamedTuple):
    rule: CompiledRule | None
    """Whatever answers for the rule in Python."""
    diagram: dict[str, Any] | None
    """What the page sweeps: order, sizes, edges per layer in one list each, labels."""
    facts: dict[str, Any]


def rule_facts(task: Task, was_compiled: bool) -> RuleFacts:
    """Of a task whose training compiled the rule, or not: a solver that it did not ask may take minutes."""
    facts: dict[str, Any] = {"assignments": f"{task.space.size:,}", "concepts": task.space.k}
    if isinstance(task.rule, Listed) and not was_compiled:
        said = "not compiled: training did not list the solver's solutions, and a report does not either"
        return RuleFacts(None, None, facts | {"said": said, "missing": said})
    try:
        found = compilation(task)
    except TaskError as error:
        return RuleFacts(None, None, facts | {"said": f"not compiled: {error}", "missing": str(error)})
    facts["said"] = str(found)
    if not isinstance(found.rule, Diagram):
        missing = found.said if found.rule is None else "it is a machine that sees the label, unrolled for each example"
        return RuleFacts(found.rule, None, facts | {"missing": missing})
    diagram = found.rule
    edges = sum(layer.numel() for layer in diagram.edges)
    counts = diagram.count(diagram.labels[:SHOWN])
    texts = [label_text(label) for label in diagram.labels[:SHOWN]]
    shares = [count / task.space.size for count in counts]
    facts |= {"order": list(diagram.order), "widths": diagram.widths, "labels": len(diagram.labels)}
    facts["counts"] = [list(each) for each in zip(texts, map("{:,}".format, counts), shares, strict=True)]
    if edges > MOST_EDGES or len(diagram.labels) > MOST_LABELS:
        large = f"its diagram has {edges:,} edges and {len(diagram.labels):,} labels, too many for a page"
        return RuleFacts(diagram, None, facts | {"missing": large})
    return RuleFacts(diagram, as_plain(diagram), facts)


def as_plain(diagram: Diagram) -> dict[str, Any]:
    """A diagram as JSON: the edge of node w by value v of layer i is `edges[i][w * sizes[order[i]] + v]`."""
    return {
        "order": list(diagram.order),
        "sizes": list(diagram.space.sizes),
        "edges": [layer.flatten().tolist() for layer in diagram.edges],
        "labels": [label_text(label) for label in diagram.labels],
    }
