"""`softpnet rule TASK`"""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from softpnet.cli.options import Options, parse_options
from softpnet.terminal import say, say_table

SHOWN = 20
"""So many labels have a line of their own."""


@dataclass(frozen=True)
class Rule:
    """Show how a task's rule is compiled: what it became, how large it is, how many assignments each label has."""

    task: tyro.conf.Positional[str]
    """A built-in task (see `softpnet tasks`) or a Python file that defines `task`."""
    option: Options = ()
    """An option of the task, as in `--option support=train`; may be given several times."""

    def run(self) -> int:
        """0 where the rule is compiled, 1 where it is not."""
        from softpnet import tasks
        from softpnet.cli.display import waiting
        from softpnet.rules.compile import compilation
        from softpnet.rules.diagram import Diagram
        from softpnet.rules.function import check_rule

        task = tasks.load(self.task, parse_options(self.option))
        check_rule(task)
        with waiting("compiling the rule"):
            found = compilation(task)
        say(f"{task.name}: {task.space.k} concepts, {task.space.size:,} assignments")
        say(f"rule: {found}")
        if not isinstance(found.rule, Diagram):
            return int(found.rule is None)
        say(f"reads the concepts in the order {' '.join(map(str, found.rule.order))}")
        say(f"nodes per layer: {' '.join(map(str, found.rule.widths))}")
        counts = found.rule.count(found.rule.labels)
        lines = [
            [str(label), f"{count:,}", f"{count / task.space.size:.4%}"]
            for label, count in zip(found.rule.labels.tolist(), counts, strict=True)
        ]
        about = "" if found.how == "exact" else f", if what is {found.how} is right"
        say_table(
            f"assignments of {len(lines):,} labels{about}", ["label", "assignments", "share"], lines[:SHOWN], right=True
        )
        if len(lines) > SHOWN:
            say(f"and {len(lines) - SHOWN:,} more labels")
        if not found.rule.is_total:
            say(f"of no known label: {task.space.size - sum(counts):,} assignments")
        return 0
