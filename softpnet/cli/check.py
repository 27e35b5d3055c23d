"""`softpnet check TASK`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from softpnet.cli.options import parse_options


@dataclass(frozen=True)
class Check:
    """Check a task before training on it: its rule, data, rows and moves."""

    task: tyro.conf.Positional[str]
    """A built-in task (see `softpnet tasks`) or a Python file that defines `task`."""
    seed: int = 0
    """Of the data, the rows and all draws."""
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE"), tyro.conf.UseAppendAction] = ()
    """An option of the task, as in `--option support=train`; may be given several times."""

    def run(self) -> int:
        """Print the report; 0 where no check failed, 1 where one did."""
        from softpnet import tasks
        from softpnet.checks.check_task import check_task

        report = check_task(tasks.load(self.task, parse_options(self.option)), seed=self.seed)
        print(report)
        return 0 if report.ok else 1
