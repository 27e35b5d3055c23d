"""`softpnet check TASK`"""

from __future__ import annotations

from dataclasses import dataclass, field

import tyro

from softpnet.cli.options import GivenSettings, Options, parse_options
from softpnet.task.settings import Preset
from softpnet.terminal import say


@dataclass(frozen=True)
class Check:
    """Check a task before training on it: its rule, data, rows and moves, and whether training can start."""

    task: tyro.conf.Positional[str]
    """A built-in task (see `softpnet tasks`) or a Python file that defines `task`."""
    seed: int = 0
    """Of the data, the rows and all draws."""
    method: str = "softpnet"
    """How it is to be trained (see `softpnet methods`)."""
    preset: Preset = "best"
    """Our recipe, or the settings of the paper; a task's own settings replace theirs."""
    encoder: str | None = None
    """conv4, lenet, mlp, efficientnet_lite0, or a model of timm; with :frozen behind it, one that is not trained. The
    task's own, or else the method's, unless given."""
    option: Options = ()
    """An option of the task, as in `--option support=train`; may be given several times."""
    settings: tyro.conf.OmitArgPrefixes[GivenSettings] = field(default_factory=dict)

    def run(self) -> int:
        """Print the report; 0 where no check failed, 1 where one did."""
        from softpnet import tasks
        from softpnet.checks.check_task import check_task
        from softpnet.cli.display import waiting

        task = tasks.load(self.task, parse_options(self.option))
        chosen = {"preset": self.preset, "encoder": self.encoder, **self.settings}
        with waiting("checking the task"):
            report = check_task(task, method=self.method, seed=self.seed, **chosen)
        say(report)
        return 0 if report.ok else 1
