"""The model card: what a person should know who gets the file and nothing else, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from softpnet.runtime.notes import Notes
from softpnet.task.task import Task

SHOWN = 20
"""So many values of a group are named."""


def card(task: Task, notes: Notes, path: Path, sha256: str, facts: Mapping[str, str], limits: Sequence[str]) -> str:
    """The card of the file at `path`; `facts` are how it was trained and how well it reads."""
    shape = ", ".join(map(str, ("N", notes.slots, *notes.input_shape)))
    rule = notes.rule
    labels = "none of its own" if rule is None else f"{len(rule.labels):,}, in a diagram of {_nodes(notes):,} nodes"
    lines = [
        f"# {_cell(task.name)}",
        "",
        f"`{path.name}` reads {task.space.k} concepts from {notes.slots} inputs per example, and the label by a rule.",
        "",
        "## Use",
        "",
        "```python",
        "from softpnet import runtime",
        "",
        f"model = runtime.load({path.name!r})",
        f"found = model.predict(inputs)  # {notes.input_type} [{shape}], scaled as in training",
        *([] if rule is None else ["known = model.feasible(inputs, labels)  # the best reading with these labels"]),
        "```",
        "",
        "## Concepts",
        "",
        "| group | slots | values |",
        "| --- | --- | --- |",
        *(
            f"| {_cell(group.name)} | {' '.join(map(str, group.slots))} | {_values(names)} |"
            for group in task.space.groups
            for names in group.value_names
        ),
        "",
        "## Facts",
        "",
        "| what | value |",
        "| --- | --- |",
        f"| rule | {_cell(notes.rule_said)} |",
        f"| labels of the rule | {labels} |",
        *(f"| {_cell(name)} | {_cell(value)} |" for name, value in facts.items()),
        f"| sha256 | {sha256} |",
        "",
        "## Limits",
        "",
        *(f"- {_cell(limit[0].upper() + limit[1:])}." for limit in limits),
        "- It was taught by labels and few labelled inputs: check concepts on labelled examples of your own.",
        "- Probabilities are calibrated for inputs like those of training, and for no others.",
        "",
    ]
    return "\n".join(lines)


def _nodes(notes: Notes) -> int:
    return 0 if notes.rule is None else sum(map(len, notes.rule.edges))


def _values(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return _cell(", ".join(names[:SHOWN]) + more)


def _cell(text: str) -> str:
    """As it may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")
