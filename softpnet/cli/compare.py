"""`softpnet compare TASK ...`"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from softpnet.cli.options import GivenSettings, Options, Several, flat, parse_options
from softpnet.cli.reproduce import run_and_show
from softpnet.cli.table import chosen_seeds
from softpnet.errors import InputError
from softpnet.task.settings import Preset
from softpnet.terminal import say

COMPARED = ("softpnet", "pnet_sl", "softg_k", "abduction_anchored", "supervised")


@dataclass(frozen=True)
class Compare:
    """Train a task with several methods and seeds, and print them beside each other. May be stopped, and goes on."""

    task: tyro.conf.Positional[str]
    """A built-in task (see `softpnet tasks`) or a Python file that defines `task`."""
    methods: Several = ()
    """Which (see `softpnet methods`); unless given, softpnet, pnet_sl, softg_k, abduction_anchored and supervised.
    The last one is the ceiling, and needs the true concepts."""
    seeds: int = 3
    """How many of the ten seeds 0, 128, ..., 1152."""
    jobs: int | None = None
    """Runs side by side, one thread each; unless given, 2 on this machine, and on a cluster as many as it has cores."""
    on: str = "local"
    """Where runs are made: local, on this machine; ray, on a Ray cluster of this machine, or the one that RAY_ADDRESS
    names; ray://HOST:PORT, on that one."""
    device: str = "cpu"
    """What each run computes on: cpu, or cuda, and then on a cluster each has a GPU of its own."""
    preset: Preset = "best"
    """Our recipe, or the settings of the paper; a task's own settings replace theirs."""
    encoder: str | None = None
    """conv4, lenet, mlp, efficientnet_lite0, or a model of timm; with :frozen behind it, one that is not trained. The
    task's own, or else each method's, unless given."""
    option: Options = ()
    """An option of the task, as in `--option support=train`; may be given several times."""
    records: Path = Path("comparisons")
    """Folder of the records: in it a folder per task, in that a file per method, with a line of JSON per seed."""
    into: Path | None = None
    """A Markdown page to put the tables into, between its two marks."""
    settings: tyro.conf.OmitArgPrefixes[GivenSettings] = field(default_factory=dict)

    def run(self) -> int:
        from softpnet import methods, tasks
        from softpnet.experiments.records import read_records
        from softpnet.experiments.rows import OURS, Row
        from softpnet.report.judge import check_same_data
        from softpnet.training.folder import plain_name

        wanted = flat(self.methods) if self.methods else COMPARED
        if not wanted:
            raise InputError(f"--methods names none; there are {', '.join(methods.names())}")
        for method in wanted:
            methods.find(method)
        options = parse_options(self.option)
        task = tasks.load(self.task, options)
        # Ours is compared with all that come after it.
        ordered = sorted(dict.fromkeys(wanted), key=lambda method: method != OURS)
        folder = plain_name(task.name)
        chosen = {"options": options, "settings": self.settings, "preset": self.preset, "encoder": self.encoder or ""}
        chosen["folder"] = folder
        rows = [Row(method, method, self.task, method, **chosen) for method in ordered]
        seeds = chosen_seeds(self.seeds)
        check_same_data(task, [record for row in rows for record in read_records(row, seeds, self.records)])
        picture = self.records / folder / "seeds.png"
        run_and_show(rows, seeds, self.records, self.jobs, self.into, picture, self.on, self.device)
        say(f"picture: {picture}")
        return 0
