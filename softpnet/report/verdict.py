"""One sentence that says how a run, or a comparison of several, came out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from softpnet.report.remarks import SUSPICIOUS_GAP

GOOD = 0.9
"""Labels that are right at least so often are called learned."""


def verdict(metrics: Mapping[str, float], worst_gap: float, examples: int, unfinished: str = "") -> str:
    """Of one run, by the metrics of its first test set and the largest gap of a group."""
    labels = metrics["label_accuracy"]
    begin = f"{unfinished}Labels are right in {_percent(labels)} of {examples:,} test examples"
    if "concept_accuracy" not in metrics:
        return f"{begin}; the true concepts are not known, so nothing can be said about what it reads."
    concepts = metrics["concept_accuracy"]
    if worst_gap > SUSPICIOUS_GAP:
        unless = "a reasoning shortcut, unless labels are at chance"
        return f"{begin}, but concepts only in {_percent(concepts)}: {unless}."
    begin = f"{begin} and concepts in {_percent(concepts)}"
    if labels >= GOOD:
        return f"{begin}: the right labels for the right reasons."
    if concepts >= GOOD:
        return f"{begin}: it reads well, and a label needs all of its concepts right."
    return f"{begin}: hard inputs, or too little training; --method supervised shows how well they can be read."


def comparison(names: Sequence[str], metrics: Sequence[Mapping[str, float]], examples: int) -> str:
    """Of several runs of one task: which is best, and whether that many examples can tell."""
    known = all("concept_accuracy" in each for each in metrics)
    key, what = ("concept_accuracy", "concepts") if known else ("label_accuracy", "labels")
    order = sorted(range(len(names)), key=lambda i: -metrics[i][key])
    best, next_best = (metrics[i][key] for i in order[:2])
    ahead = f"{names[order[0]]} reads {what} best of {len(names)} runs, {_percent(best)}"
    # Twice the standard error of the difference of two shares of so many examples.
    noise = 2 * math.sqrt((best * (1 - best) + next_best * (1 - next_best)) / examples)
    behind = f"{100 * (best - next_best):.1f} points ahead of {names[order[1]]}"
    close = best - next_best <= noise
    told = f"too close to call on {examples:,} examples" if close else "one seed each; softpnet compare runs several"
    return f"{ahead}, {behind}: {told}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"
