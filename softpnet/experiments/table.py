"""Result tables: mean, deviation and lowest seed, beside the paper's figures, and methods compared in pairs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from softpnet.experiments.records import read_records
from softpnet.experiments.rows import CEILING, OURS, Row

METRICS = {
    "concept_accuracy": "concept",
    "concept_f1": "concept F1",
    "primitive_accuracy": "primitive",
    "label_accuracy": "label",
    "label_f1": "label F1",
}
"""Metrics that are shown, and their words."""


@dataclass(frozen=True)
class Summary:
    """The records of one row: values in percent by metric, in the order of the seeds."""

    row: Row
    seeds: list[int]
    values: dict[str, list[float]]
    records: list[dict[str, Any]]

    def mean(self, metric: str) -> float:
        return statistics.fmean(self.values[metric])

    def deviation(self, metric: str) -> float:
        return statistics.pstdev(self.values[metric])

    def lowest(self, metric: str) -> float:
        return min(self.values[metric])


def summarise(rows: Sequence[Row], seeds: Sequence[int], records: Path) -> list[Summary]:
    """The rows that have records; the first test set of a record is the one that is reported."""
    summaries = []
    for row in rows:
        found = read_records(row, seeds, records)
        if found:
            tests = [next(iter(record["tests"].values())) for record in found]
            values = {metric: [100 * test[metric] for test in tests] for metric in METRICS if metric in tests[0]}
            summaries.append(Summary(row, [record["seed"] for record in found], values, found))
    return summaries


@dataclass(frozen=True)
class Comparison:
    """How much higher `one` is than `other` on the same seeds, in points: mean and its 95 % confidence interval."""

    one: Summary
    other: Summary
    metric: str
    seeds: int
    mean: float
    low: float
    high: float


def compare(one: Summary, other: Summary, metric: str) -> Comparison | None:
    """Paired by seed; None where fewer than two seeds are shared. The interval is Student's, of the differences."""
    from scipy.stats import t  # type: ignore[import-untyped]

    shared = [seed for seed in one.seeds if seed in other.seeds]
    if len(shared) < 2 or metric not in one.values or metric not in other.values:
        return None
    differences = [
        one.values[metric][one.seeds.index(seed)] - other.values[metric][other.seeds.index(seed)] for seed in shared
    ]
    mean = statistics.fmean(differences)
    half = float(t.ppf(0.975, len(shared) - 1)) * statistics.stdev(differences) / math.sqrt(len(shared))
    return Comparison(one, other, metric, len(shared), mean, mean - half, mean + half)


class Text(NamedTuple):
    """A table as text, ready for the terminal, Markdown or LaTeX."""

    title: str
    head: list[str]
    rows: list[list[str]]


def result_table(summaries: Sequence[Summary]) -> Text:
    """A line per row: mean ± population deviation and lowest seed, the paper's mean and the difference, the ceiling."""
    lines = []
    for summary in summaries:
        ceiling = next((s for s in summaries if s.row.method == CEILING and s.row.task == summary.row.task), None)
        line = [summary.row.title, str(len(summary.seeds))]
        for metric in METRICS:
            line.append(_cell(summary, metric))
        line.append(_paper(summary))
        line.append(_below(summary, ceiling))
        lines.append(line)
    head = [
        "run",
        "seeds",
        *METRICS.values(),
        "paper: concept, label (difference)",
        "below the ceiling: concept, label",
    ]
    return Text("Test split, last epoch, percent: mean ± deviation (lowest seed)", head, lines)


def seed_table(summaries: Sequence[Summary]) -> Text:
    """A line per record: no seed hides in a mean."""
    lines = []
    for summary in summaries:
        for at, (seed, record) in enumerate(zip(summary.seeds, summary.records, strict=True)):
            shown = [f"{summary.values[m][at]:.2f}" if m in summary.values else "" for m in METRICS]
            seconds = f"{record['seconds_per_epoch']:.1f}"
            lines.append([summary.row.title, str(seed), *shown, seconds, record["versions"]["commit"][:10]])
    return Text("Every seed", ["run", "seed", *METRICS.values(), "s / epoch", "commit"], lines)


def command_table(summaries: Sequence[Summary]) -> Text:
    """How each row is run; every seed has the same command but for the seed."""
    lines = [[s.row.name, f"`softpnet {' '.join(s.row.command(s.seeds[0]))}`"] for s in summaries]
    return Text("The first seed of each row", ["row", "command"], lines)


def comparison_table(summaries: Sequence[Summary]) -> Text:
    """Our method on each task against every other row of the task, on the same seeds."""
    lines = []
    for ours in (summary for summary in summaries if summary.row.method == OURS):
        others = (s for s in summaries if s.row.task == ours.row.task and s is not ours)
        for found in (
            compare(ours, other, metric) for other in others for metric in ("concept_accuracy", "label_accuracy")
        ):
            if found is not None:
                interval = f"{found.low:+.2f} to {found.high:+.2f}"
                titles = [found.one.row.title, found.other.row.title]
                lines.append([*titles, METRICS[found.metric], str(found.seeds), f"{found.mean:+.2f}", interval])
    head = ["run", "over", "metric", "seeds", "difference", "95 % interval"]
    return Text("Differences on the same seeds, in points", head, lines)


def markdown(table: Text) -> str:
    rows = [table.head, ["---"] * len(table.head), *table.rows]
    return "\n".join([f"**{table.title}**", "", *(f"| {' | '.join(row)} |" for row in rows), ""])


def latex(table: Text) -> str:
    """A tabular for the booktabs package."""

    def line(row: list[str]) -> str:
        return " & ".join(_escaped(cell) for cell in row) + r" \\"

    body = [line(row) for row in table.rows]
    columns = "l" + "r" * (len(table.head) - 1)
    lines = [rf"% {table.title}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(table.head), r"\midrule"]
    return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    for character in "&%_#":
        text = text.replace(character, rf"\{character}")
    return text.replace("±", r"$\pm$").replace("−", "$-$")


def _cell(summary: Summary, metric: str) -> str:
    if metric not in summary.values:
        return ""
    return f"{summary.mean(metric):.2f} ± {summary.deviation(metric):.2f} ({summary.lowest(metric):.2f})"


def _paper(summary: Summary) -> str:
    parts = []
    for metric in ("concept_accuracy", "label_accuracy"):
        if metric in summary.row.paper:
            stated = summary.row.paper[metric]
            parts.append(f"{stated:.2f} ({summary.mean(metric) - stated:+.2f})")
    return ", ".join(parts)


def _below(summary: Summary, ceiling: Summary | None) -> str:
    if ceiling is None or ceiling is summary:
        return ""
    return ", ".join(f"{ceiling.mean(m) - summary.mean(m):.2f}" for m in ("concept_accuracy", "label_accuracy"))
