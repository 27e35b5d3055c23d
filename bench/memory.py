"""Peak memory of a whole training of each task, its data included."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from softpnet import tasks

MEASURE = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, capture_output=True)
print(json.dumps(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6))
"""


def measure() -> list[dict]:
    rows = []
    for name in tasks.names():
        with tempfile.TemporaryDirectory() as scratch:
            train = [sys.executable, "-m", "softpnet", "train", name, "--epochs", "1", "--threads", "1"]
            short = ["--warmup-steps", "2", "--no-pictures", "--out", f"{scratch}/run"]
            command = [sys.executable, "-c", MEASURE, *train, *short]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(
            {
                "name": f"peak memory, {name}, GB",
                "threads": 1,
                "ratio": json.loads(done.stdout.splitlines()[-1]),
                "target": 1.5,
                "better": "lower",
            }
        )
    return rows
