"""What processes that train together say to each other in a step of EvenOdd: messages, and bytes at the interface.

`python -m bench.communication [--into docs/performance.md]` trains with two and with four processes on this machine. In
a network namespace of its own nothing else is counted:
`unshare --net sh -c "ip link set lo up; python -m bench.communication"`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from bench.steps_together import BATCH, CASES
from bench.timing import load
from softpnet.report.pages import write_into
from softpnet.storage import to_json, write_whole
from softpnet.training.environment import versions

PART, MADE = "communication", "made by python -m bench.communication"
PROCESSES = 2, 4
PATIENCE_S = 900
GPUS, EXAMPLES, LINE, DELAY = 64, 10**8, 12.5e9, 1e-4
"""Of the arithmetic: bytes a second of 100 Gbit/s, and seconds that a message takes however short it is."""


def ring_bytes(weights: int, processes: int) -> float:
    """Bytes that each process sends where W share the sum of single-precision numbers: 2 (W - 1) / W of them all."""
    return 2 * (processes - 1) / processes * 4 * weights


def measure() -> list[dict[str, Any]]:
    """A row for each case and number of processes; messages and bytes are those of one process in one step."""
    return [_steps(case, processes) for case in CASES for processes in PROCESSES]


def _steps(case: str, processes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "found.json")
        launch = ["--nproc-per-node", str(processes), "--master-addr", "127.0.0.1", "--master-port", "29511"]
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *launch, "-m", "bench.steps_together", str(file), case],
            env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            timeout=PATIENCE_S,
            check=True,
        )
        found = json.loads(file.read_text())
    return {"case": case, "processes": processes, **found, "bytes": found["bytes"] / processes}


def tables(rows: list[dict[str, Any]]) -> str:
    kinds = sorted({kind for row in rows for kind in row["messages"]})
    head = ["training", "processes", "messages", *kinds, "kB sent by each", "of these gradients, expected"]
    lines = [
        [
            row["case"],
            str(row["processes"]),
            f"{sum(row['messages'].values()):g}",
            *(f"{row['messages'].get(kind, 0):g}" for kind in kinds),
            f"{row['bytes'] / 1e3:.0f}",
            f"{ring_bytes(row['weights'], row['processes']) / 1e3:.0f}",
        ]
        for row in rows
    ]
    row = next(each for each in rows if each["processes"] == max(PROCESSES))
    said = "What that means for 64 GPUs and 10^8 examples, with the messages of the first row of four processes:"
    return "\n".join([*_markdown(head, lines), "", said, "", *_markdown(["what", "arithmetic", "result"], _far(row))])


def _far(row: dict[str, Any]) -> list[list[str]]:
    """Arithmetic for many GPUs, of which none was used."""
    weights, messages = row["weights"], sum(row["messages"].values())
    batch, megabytes = GPUS * BATCH, ring_bytes(row["weights"], GPUS) / 1e6
    steps, sending, waiting = EXAMPLES / batch, megabytes * 1e6 / LINE, messages * DELAY
    return [
        ["steps of an epoch", f"10^8 / {batch:,}", f"{steps:,.0f}"],
        ["gradients sent by each in a step", f"2 x 63 / 64 x 4 x {weights:,} bytes", f"{megabytes:.2f} MB"],
        ["seconds of that at 100 Gbit/s", f"{megabytes:.2f} MB / 12.5 GB/s", f"{1000 * sending:.2f} ms"],
        ["seconds of messages at 0.1 ms each", f"{messages:g} x 0.1 ms", f"{1000 * waiting:.1f} ms"],
        ["communication of an epoch", "steps x both", f"{steps * (sending + waiting):.0f} s"],
        ["labels in every process", "8 bytes x 10^8", "0.8 GB"],
        ["working sets of a process, K = 20, two concepts", "(20 x 2 + 3) bytes x 10^8 / 64", "67 MB"],
    ]


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


@dataclass(frozen=True)
class Communication:
    """Count what processes that train together say to each other in a step."""

    record: Path = Path("results/bench.json")
    """Where the outcome is kept, and those of other parts stay."""
    measure: bool = True
    """Whether to measure, or only to show what was measured before."""
    into: Path | None = None
    """A Markdown page to put the tables into, between its two marks."""

    def run(self) -> None:
        if self.measure:
            now: dict[str, Any] = {name: versions()[name] for name in ("commit", "torch")}
            now |= {"cores": len(os.sched_getaffinity(0)), "load": round(load(), 1), "rows": measure()}
            kept = json.loads(self.record.read_text()) if self.record.exists() else {}
            write_whole(self.record, to_json(kept | {PART: now}))
        text = tables(json.loads(self.record.read_text())[PART]["rows"])
        print(text)
        if self.into is not None:
            write_into(self.into, text, MADE)


if __name__ == "__main__":
    tyro.cli(Communication, prog="python -m bench.communication").run()
