"""`python -m bench [PART...]`: measure, print tables, write bench.json."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import encoder, growth, memory, peers, step, timing, versus_plain
from softpnet.training.allocator import keep_large_blocks
from softpnet.training.run import versions

PARTS = ("encoder", "step", "plain", "memory", "growth", "peers")


def main(wanted: list[str]) -> None:
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        sys.exit(f"unknown part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    cores = len(os.sched_getaffinity(0))
    counts = [1, 2] if cores >= 2 else [1]
    if cores < 2:
        print("one core: the figures with two threads are left out")
    keep_large_blocks()
    makers = {
        "encoder": lambda: encoder.measure(counts),
        "step": step.measure,
        "plain": versus_plain.measure,
        "memory": memory.measure,
        "growth": growth.measure,
        "peers": peers.measure,
    }
    result: dict = {"versions": versions(), "cores": cores, "load": {}, "parts": {}}
    for part in wanted or PARTS:
        began, before = time.perf_counter(), timing.load()
        result["parts"][part] = makers[part]()
        result["load"][part] = [before, timing.load()]
        print(f"{part}: {time.perf_counter() - began:.0f} s, load {before:.1f} before, {timing.load():.1f} after")
    show(result)
    Path("bench.json").write_text(json.dumps(result, indent=2) + "\n")
    print("written to bench.json")


def show(result: dict) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    ratios = Table("what", "threads", "measured", "target", "reached", "seconds", title="ratios")
    for part in ("encoder", "step", "plain", "memory"):
        for row in result["parts"].get(part, []):
            reached = row["ratio"] >= row["target"] if row["better"] == "higher" else row["ratio"] <= row["target"]
            sign = ">=" if row["better"] == "higher" else "<="
            seconds = f"{row['seconds']:.4f}" if "seconds" in row else ""
            measured, target = f"{row['ratio']:.3g}", f"{sign} {row['target']:g}"
            ratios.add_row(row["name"], str(row["threads"]), measured, target, "yes" if reached else "no", seconds)
    console.print(ratios)
    if "growth" in result["parts"]:
        table = Table(
            "grows with", "sizes", "milliseconds", "megabytes", "exponent", title="growth of scoring and selection"
        )
        for row in result["parts"]["growth"]:
            cells = [" ".join(f"{v:,.3g}" for v in values) for values in (row["sizes"], row["megabytes"])]
            times = " ".join(f"{1000 * s:.3g}" for s in row["seconds"])
            table.add_row(row["name"], cells[0], times, cells[1], f"{row['exponent']:.2f}")
        console.print(table)
    if "peers" in result["parts"]:
        table = Table(
            "peer", "s / epoch", "concept, label: same epochs", "same seconds", "error", title="EvenOdd, peers"
        )
        for row in result["parts"]["peers"]:
            pairs = [
                " ".join("-" if row.get(k) is None else f"{100 * row[k]:.1f}" for k in keys)
                for keys in (
                    ("concept_accuracy", "label_accuracy"),
                    ("concept_accuracy_same_time", "label_accuracy_same_time"),
                )
            ]
            each = "-" if row.get("seconds_per_epoch") is None else f"{row['seconds_per_epoch']:.1f}"
            table.add_row(row["name"], each, *pairs, row.get("error") or "")
        console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
