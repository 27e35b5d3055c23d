"""Two processes that want the same run folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from torture.subject import SUBJECTS, Result, Subject, one_line, strays


def two(count: int = 20, subject: Subject = SUBJECTS[0]) -> Result:
    result = Result("two processes start in the same run folder", "exactly one wins, the other is told by whom")
    with tempfile.TemporaryDirectory() as scratch:
        for at in range(count):
            folder = Path(scratch, str(at))
            pair = [subject.start(folder) for _ in range(2)]
            said = [process.communicate()[1] for process in pair]
            result.add(_complaints(folder, [process.returncode for process in pair], said, [p.pid for p in pair]))
    return result


def _complaints(folder: Path, codes: list[int], said: list[str], ids: list[int]) -> list[str]:
    if sorted(codes) != [0, 2]:
        return [f"exit codes {codes}: {said}"]
    lost = codes.index(2)
    named = f"in use by process {ids[1 - lost]} on " in said[lost] or "already holds a run" in said[lost]
    complaints = [] if named and one_line(said[lost]) else [f"the loser said {said[lost]!r}"]
    return complaints + [f"{name} is left over" for name in strays(folder)]
