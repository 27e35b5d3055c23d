"""The result of a bench as tables: rows of text, for the terminal and for Markdown."""

from __future__ import annotations

from typing import NamedTuple

from bench.learning import against_peers


class Text(NamedTuple):
    title: str
    head: list[str]
    rows: list[list[str]]


def tables(found: dict[str, dict]) -> list[Text]:
    """Of the outcomes by part."""
    parts = {part: outcome["rows"] for part, outcome in found.items()}
    makers = {"growth": _growth, "options": _options}
    raced = races(found)
    ratios = [
        row
        for part in ("encoder", "step", "plain", "memory", "reading", "state", "rules", "cluster")
        for row in parts.get(part, [])
    ]
    ratios += against_peers(raced)
    made = [_ratios(ratios)] if ratios else []
    made += [make(parts[part]) for part, make in makers.items() if part in parts]
    return made + ([_learning(raced)] if raced else [])


def races(found: dict[str, dict]) -> list[dict]:
    """The rows of all races."""
    return [row for part, outcome in found.items() if part.startswith("learning") for row in outcome["rows"]]


def markdown(found: dict[str, dict]) -> str:
    made = [
        [part, each["commit"][:10], each["torch"], str(each["cores"]), f"{each['load']:.1f}"]
        for part, each in found.items()
    ]
    when = Text("When", ["part", "commit", "torch", "cores", "load of the machine when it began"], made)
    lines = []
    for table in [*tables(found), when]:
        lines += [f"**{table.title}**", "", f"| {' | '.join(table.head)} |", "|---" * len(table.head) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in table.rows] + [""]
    return "\n".join(lines)


def _ratios(rows: list[dict]) -> Text:
    lines = []
    for row in rows:
        higher = row["better"] == "higher"
        reached = row["ratio"] >= row["target"] if higher else row["ratio"] <= row["target"]
        seconds = f"{row['seconds']:.4f}" if "seconds" in row else ""
        target = f"{'at least' if higher else 'at most'} {row['target']:,g}"
        measured = f"{row['ratio']:,.3g}" if row["ratio"] < 1000 else f"{row['ratio']:,.0f}"
        lines.append([row["name"], str(row["threads"]), measured, target, "yes" if reached else "no", seconds])
    return Text("Ratios", ["what", "threads", "measured", "target", "reached", "seconds"], lines)


def _growth(rows: list[dict]) -> Text:
    lines = [
        [
            row["name"],
            " ".join(f"{size:,}" for size in row["sizes"]),
            " ".join(f"{1000 * s:.3g}" for s in row["seconds"]),
            " ".join(f"{size:.3g}" for size in row["megabytes"]),
            f"{row['exponent']:.2f}",
        ]
        for row in rows
    ]
    head = ["grows with", "sizes", "milliseconds", "megabytes", "exponent"]
    return Text("Growth of scoring, selection and sweeps, 64 examples", head, lines)


def _options(rows: list[dict]) -> Text:
    def cell(value: float | str) -> str:
        return value if isinstance(value, str) else f"{value:.2f}"

    names = list(rows[0]["over_chosen"])
    lines = [[row["name"], *(cell(row["over_chosen"][name]) for name in names)] for row in rows]
    return Text("Encoder step over the chosen one, one thread", ["option", *names], lines)


def _learning(rows: list[dict]) -> Text:
    def cell(seconds: float | None) -> str:
        return "-" if seconds is None else f"{seconds:.1f}"

    shares = list(rows[0]["seconds_to"])
    lines = []
    for row in rows:
        times = [cell(row["seconds_to"][share]) for share in shares]
        lines.append([row["contest"], f"{100 * row['ceiling']:.2f}", row["name"], *times, row["error"] or ""])
    head = ["task", "ceiling", "contender", *(f"s to {share}" for share in shares), "note"]
    return Text("Seconds of training to a share of the supervised concept accuracy", head, lines)
