"""`softpnet report RUN...`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from softpnet.errors import InputError
from softpnet.terminal import say


@dataclass(frozen=True)
class Report:
    """Make a page to look at, in one HTML file: a run, or several of one task side by side, with an explorer of test
    examples."""

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """The folder of a run, or of several to compare."""
    out: Path | None = None
    """The file; report.html in the run's folder unless given, or comparison.html here for several runs."""
    examples: int = 200
    """So many test examples of each run can be explored."""
    task: str | None = None
    """The task's file, if it is one of your own: no code is taken from a run folder."""
    method: str | None = None
    """The method's file, if it is one of your own."""
    other_data: bool = False
    """Show what the task makes now, although the run was made with other data."""

    def run(self) -> int:
        from softpnet.report.report import report
        from softpnet.storage import write_whole

        if not self.folders:
            raise InputError("no run is named; expected softpnet report RUN, the folder that `softpnet train` wrote")
        if self.examples < 1:
            raise InputError(f"--examples is {self.examples}, expected at least 1")
        default = self.folders[0] / "report.html" if len(self.folders) == 1 else Path("comparison.html")
        out = self.out or default
        if out.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--out is {out}, expected the name of an HTML file, such as report.html")
        page = report(self.folders, self.examples, self.task, self.method, self.other_data).encode()
        write_whole(out, page)
        say(f"report: {out} ({len(page) / 1e6:.1f} MB; open it in a browser)")
        return 0
