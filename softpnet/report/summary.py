"""Records of a row, summed up over seeds, and two rows compared on the seeds that both have."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from softpnet.experiments.records import Record, read_records
from softpnet.experiments.rows import Row


@dataclass(frozen=True)
class Summary:
    """The records of one row: values in percent by metric, in the order of the seeds."""

    row: Row
    seeds: list[int]
    values: dict[str, list[float]]
    records: list[Record]

    def mean(self, metric: str) -> float:
        return statistics.fmean(self.values[metric])

    def deviation(self, metric: str) -> float:
        return statistics.pstdev(self.values[metric])

    def lowest(self, metric: str) -> float:
        return min(self.values[metric])

    def farthest(self, metric: str) -> float:
        """How far the seed that is farthest from the mean is from it, up or down: no collapsed seed hides."""
        return max(abs(value - self.mean(metric)) for value in self.values[metric])


def summarise(rows: Sequence[Row], seeds: Sequence[int], records: Path) -> list[Summary]:
    """The rows that have records; the first test set of a record is the one that is reported."""
    found = [(row, read_records(row, seeds, records)) for row in rows]
    return [_summary(row, each, next(iter(each[0].tests))) for row, each in found if each]


def other_test_sets(summary: Summary) -> dict[str, Summary]:
    """The same runs on the test sets that are not the reported one, by name."""
    names = list(summary.records[0].tests)[1:]
    return {name: _summary(summary.row, summary.records, name) for name in names}


def _summary(row: Row, records: list[Record], test: str) -> Summary:
    tests = [record.tests[test] for record in records]
    shared = [metric for metric in tests[0] if all(metric in each for each in tests)]
    values = {metric: [100 * each[metric] for each in tests] for metric in shared}
    return Summary(row, [record.seed for record in records], values, records)


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


def differences(one: Summary, other: Summary, metric: str) -> list[float]:
    """How much higher `one` is than `other`, seed by seed, on the seeds that both have."""
    if metric not in one.values or metric not in other.values:
        return []
    theirs = dict(zip(other.seeds, other.values[metric], strict=True))
    ours = zip(one.seeds, one.values[metric], strict=True)
    return [value - theirs[seed] for seed, value in ours if seed in theirs]


def compare(one: Summary, other: Summary, metric: str) -> Comparison | None:
    """Paired by seed; None where fewer than two seeds are shared. The interval is Student's, of the differences."""
    from scipy.stats import t  # type: ignore[import-untyped]

    found = differences(one, other, metric)
    if len(found) < 2:
        return None
    mean = statistics.fmean(found)
    half = float(t.ppf(0.975, len(found) - 1)) * statistics.stdev(found) / math.sqrt(len(found))
    return Comparison(one, other, metric, len(found), mean, mean - half, mean + half)
