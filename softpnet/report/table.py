"""Result tables as text: beside the paper's figures and the ceiling, seed by seed, and methods in pairs."""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from softpnet import tasks
from softpnet.experiments.paper import stated
from softpnet.experiments.rows import CEILING, OURS, Row, comparable
from softpnet.report.claims import About, claims, told
from softpnet.report.summary import Comparison, Summary, compare, differences, other_test_sets

CONCEPT, LABEL = "concept_accuracy", "label_accuracy"
METRICS = {CONCEPT: "concept", "concept_f1": "concept F1", LABEL: "label", "label_f1": "label F1"}
PRIMITIVES = {"primitive_accuracy": "primitive", "primitive_f1": "primitive F1"}
CALIBRATION = {"concept_ece": "concept ECE", "label_ece": "label ECE"}
WORDS = METRICS | PRIMITIVES | CALIBRATION
"""Metrics that are shown, and their words. Calibration errors are no one's where all records are older than they."""

AGAINST = "minus the ceiling: concept, label"


class Text(NamedTuple):
    """A table as text, ready for the terminal, Markdown or LaTeX."""

    title: str
    head: list[str]
    rows: list[list[str]]


def without_empty_columns(table: Text) -> Text:
    """A task of one's own has no figure in the paper, and may have no ceiling."""
    kept = [at for at in range(len(table.head)) if any(row[at] for row in table.rows)]
    return Text(table.title, [table.head[at] for at in kept], [[row[at] for at in kept] for row in table.rows])


def overview_table(summaries: Sequence[Summary]) -> Text:
    """A line per row with what a first look needs."""
    lines = []
    for summary in summaries:
        cells = [_cell(summary, metric) for metric in (CONCEPT, LABEL)]
        figures = stated(summary.row)
        paper = _both(figures[metric].mean if metric in figures else None for metric in (CONCEPT, LABEL))
        lines.append([summary.row.title, str(len(summary.seeds)), *cells, paper, _minus_ceiling(summary, summaries)])
    head = ["run", "seeds", METRICS[CONCEPT], METRICS[LABEL], "the paper's: concept, label", AGAINST]
    return Text("Overview, percent: mean ± deviation (lowest seed)", head, lines)


def left_table(summaries: Sequence[Summary], rows: Sequence[Row], seeds: int) -> Text:
    """A line per row that has not all of its seeds yet."""
    there = {summary.row.name: len(summary.seeds) for summary in summaries}
    lines = [[row.title, row.name, str(there.get(row.name, 0))] for row in rows if there.get(row.name, 0) < seeds]
    return Text(f"Rows with fewer than {seeds} seeds: still to be run", ["run", "row", "seeds"], lines)


def result_table(summaries: Sequence[Summary]) -> Text:
    """A line per row: mean ± population deviation and lowest seed, gap, collapse, cost, farthest seed, ceiling."""
    lines = []
    for summary in summaries:
        cells = [_cell(summary, metric) for metric in METRICS]
        more = [f"{summary.mean(metric):.2f}" if metric in summary.values else "" for metric in ("gap", "collapse")]
        seconds = statistics.fmean(record.seconds_per_epoch for record in summary.records)
        several = len(summary.seeds) > 1
        farthest = _both(summary.farthest(m) if several and m in summary.values else None for m in (CONCEPT, LABEL))
        line = [
            summary.row.title,
            str(len(summary.seeds)),
            *cells,
            *more,
            *_calibration(summary),
            f"{seconds:.1f}",
            farthest,
        ]
        lines.append([*line, _minus_ceiling(summary, summaries)])
    head = ["run", "seeds", *METRICS.values(), "gap", "collapse", *CALIBRATION.values(), "s / epoch"]
    ends = ["farthest seed from the mean: concept, label", AGAINST]
    return Text("Test split, last epoch, percent: mean ± deviation (lowest seed)", [*head, *ends], lines)


def paper_table(summaries: Sequence[Summary]) -> Text:
    """A line per row that the paper has: our mean, the paper's, and how much higher ours is."""
    of_the_paper = [summary for summary in summaries if summary.row.paper]
    shown = [metric for metric in METRICS if any(metric in stated(summary.row) for summary in of_the_paper)]
    lines = [
        [
            summary.row.title,
            str(len(summary.seeds)),
            *(_beside_paper(summary, metric) for metric in shown),
            _minus_ceiling(summary, summaries),
        ]
        for summary in of_the_paper
    ]
    head = ["run", "seeds", *(METRICS[metric] for metric in shown), AGAINST]
    return Text("Ours; the paper's (difference)", head, lines)


def primitive_table(summaries: Sequence[Summary]) -> Text:
    """A line per row whose concepts are attributes of primitives, so that there are two ways to count.

    Where the paper has a figure it stands beside both, because its figures fit neither way of counting alone.
    """
    lines = [
        [summary.row.title, *(_beside_paper(summary, metric) or _cell(summary, metric) for metric in PRIMITIVES)]
        for summary in summaries
        if any(len(group.values) > 1 for group in tasks.load(summary.row.task, summary.row.options).space.groups)
    ]
    return Text("By primitive, not by attribute; the paper's (difference)", ["run", *PRIMITIVES.values()], lines)


def group_table(summaries: Sequence[Summary]) -> Text:
    """A line per row and group, or attribute, of which there are several."""
    parts = f"{CONCEPT}/"
    lines = [
        [summary.row.title, name.removeprefix(parts), _cell(summary, name)]
        for summary in summaries
        for name in summary.values
        if name.startswith(parts)
    ]
    return Text("By group or attribute", ["run", "group", METRICS[CONCEPT]], lines)


def other_sets_table(summaries: Sequence[Summary]) -> Text:
    """A line per row and further test set."""
    lines = [
        [summary.row.title, name, _cell(other, CONCEPT), _cell(other, LABEL), *_calibration(other)]
        for summary in summaries
        for name, other in other_test_sets(summary).items()
    ]
    head = ["run", "test set", METRICS[CONCEPT], METRICS[LABEL], *CALIBRATION.values()]
    return Text("On further test sets", head, lines)


def seed_table(summaries: Sequence[Summary]) -> Text:
    """A line per record: no seed hides in a mean."""
    lines = []
    for summary in summaries:
        for seed, record in zip(summary.seeds, summary.records, strict=True):
            judged = next(iter(record.tests.values()))
            shown = [f"{100 * judged[m]:.2f}" if m in judged else "" for m in (*METRICS, *CALIBRATION)]
            seconds = f"{record.seconds_per_epoch:.1f}"
            lines.append([summary.row.title, str(seed), *shown, seconds, _short(record.versions.commit)])
    return Text("Every seed", ["run", "seed", *METRICS.values(), *CALIBRATION.values(), "s / epoch", "commit"], lines)


def command_table(summaries: Sequence[Summary]) -> Text:
    """How each row is run; every seed has the same command but for the seed."""
    lines = [[s.row.name, f"`{s.row.command_line(s.seeds[0])}`"] for s in summaries]
    return Text("The first seed of each row", ["row", "command"], lines)


def comparison_table(summaries: Sequence[Summary]) -> Text:
    """Each of our rows against the later rows of its task, on the same seeds."""
    lines = []
    for at, ours in enumerate(summaries):
        if ours.row.method != OURS:
            continue
        for other in (s for s in summaries[at + 1 :] if comparable(s.row, ours.row)):
            found = [compare(ours, other, metric) for metric in (CONCEPT, LABEL)]
            shared = next((str(each.seeds) for each in found if each is not None), None)
            if shared is not None:
                lines.append([ours.row.title, other.row.title, shared, *map(_difference, found)])
    head = ["run", "over", "seeds", METRICS[CONCEPT], METRICS[LABEL]]
    return Text("Difference on the same seeds, in points (95 % interval)", head, lines)


def claim_table(summaries: Sequence[Summary], about: About) -> Text:
    """A line per claim that the records are there for."""
    lines = []
    for claim in claims(about):
        if (found := told(claim, summaries)) is not None:
            summary, difference = found
            rows = f"`{claim.row}`" + (f", `{claim.over}`" if claim.over else "")
            lines.append([claim.says, WORDS[claim.metric], _cell(summary, claim.metric), _difference(difference), rows])
    head = ["claim", "of", "percent (lowest seed)", "difference (95 % interval)", "rows"]
    return Text("Claims", head, lines)


TABLES: dict[str, Callable[[Sequence[Summary]], Text]] = {
    "claims": functools.partial(claim_table, about="recipe"),
    "paper-claims": functools.partial(claim_table, about="paper"),
    "overview": overview_table,
    "results": result_table,
    "paper": paper_table,
    "primitives": primitive_table,
    "groups": group_table,
    "sets": other_sets_table,
    "pairs": comparison_table,
    "commands": command_table,
    "seeds": seed_table,
}
"""The tables by name, in the order in which they are shown."""


def markdown(table: Text) -> str:
    rows = [table.head, ["---"] * len(table.head), *table.rows]
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in rows]
    return "\n".join([f"**{table.title}**", "", *(f"| {line} |" for line in lines), ""])


def latex(table: Text) -> str:
    """A tabular for the booktabs package."""

    def line(row: list[str]) -> str:
        return " & ".join(_escaped(cell) for cell in row) + r" \\"

    body = [line(row) for row in table.rows]
    columns = "l" + "r" * (len(table.head) - 1)
    lines = [rf"% {table.title}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(table.head), r"\midrule"]
    return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    """As LaTeX writes it: signs of numbers, and commands, whose two hyphens must not become a dash."""
    names = {"\\": "backslash", "^": "asciicircum", "~": "asciitilde", "|": "bar", "<": "less", ">": "greater"}
    words = {sign: rf"\text{name}{{}}" for sign, name in names.items()}
    text = re.sub(r"[&%_#${}^~|<>\\]", lambda found: words.get(found[0], "\\" + found[0]), text).replace("±", r"$\pm$")
    text = re.sub(r"`(.*)`", lambda found: rf"\texttt{{{found[1].replace('--', '-{}-')}}}", text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)


def _short(commit: str) -> str:
    """Enough of a commit to find it, and the "+" of code that was changed after it."""
    return commit[:10] + "+" * commit.endswith("+")


def _cell(summary: Summary, metric: str) -> str:
    if metric not in summary.values:
        return ""
    if len(summary.seeds) == 1:
        return f"{summary.mean(metric):.2f}"
    return f"{_spread(summary.mean(metric), summary.deviation(metric))} ({summary.lowest(metric):.2f})"


def _calibration(summary: Summary) -> list[str]:
    """Mean ± deviation of the errors, whose lowest seed is no warning; blank where not every seed has them."""
    return [_cell(summary, metric).partition(" (")[0] for metric in CALIBRATION]


def _spread(mean: float, deviation: float) -> str:
    return f"{mean:.2f} ± {deviation:.2f}"


def _beside_paper(summary: Summary, metric: str) -> str:
    figures = stated(summary.row)
    if metric not in figures or metric not in summary.values:
        return ""
    mean, paper = summary.mean(metric), figures[metric]
    ours = f"{mean:.2f}" if len(summary.seeds) == 1 else _spread(mean, summary.deviation(metric))
    return f"{ours}; {_spread(*paper)} ({mean - paper.mean:+.2f})"


def _difference(found: Comparison | None) -> str:
    return "" if found is None else f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _minus_ceiling(summary: Summary, summaries: Sequence[Summary]) -> str:
    """On the seeds that both have, because every seed has a test set of its own."""
    ceilings = (s for s in summaries if s.row.method == CEILING and comparable(s.row, summary.row))
    ceiling = next(ceilings, summary)
    if ceiling is summary:
        return ""
    found = [differences(summary, ceiling, metric) for metric in (CONCEPT, LABEL)]
    return _both((statistics.fmean(each) if each else None for each in found), "+.2f")


def _both(figures: Iterable[float | None], form: str = ".2f") -> str:
    """Those of concept and label, the one that there is not as a dash; nothing where there is neither."""
    shown = ["–" if figure is None else f"{round(figure, 2) + 0.0:{form}}" for figure in figures]
    return ", ".join(shown) if set(shown) != {"–"} else ""
