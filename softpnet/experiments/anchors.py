"""How many anchors it takes, and which: rows of two experiments.

`softpnet reproduce anchors` trains with 0, 1, 2, 5 and 10 anchors a value, and `softpnet table anchors
--anchors-picture FILE` draws them. `softpnet reproduce suggest` adds suggested or random training slots to one anchor a
value, and its table of differences has the interval.
"""

from __future__ import annotations

from typing import Any

from softpnet.experiments.rows import Row

NUMBERS = (0, 1, 2, 5, 10)
"""Anchors per value. None at all is in no row where the rule cannot tell the values apart: it is refused."""
FEWEST = {"evenodd": "one 0 and one 1"}
"""What 0 stands for: sums of two tell digits apart once one even and one odd digit are known."""
TASKS: dict[str, tuple[str, str, dict[str, str], dict[str, Any], tuple[int, ...]]] = {
    "evenodd": ("EvenOdd", "mnist_evenodd", {}, {}, NUMBERS),
    "sudoku": ("Sudoku", "visual_sudoku", {}, {}, NUMBERS[1:]),
    "window": ("Window crops", "kand_logic", {"crop": "window", "train": "1000"}, {"epochs": 8}, NUMBERS[1:]),
}
COUNTS = (5, 10, 20)
"""Slots that are labelled beside one anchor a value."""


def _numbered(name: str, number: int) -> Row:
    title, task, options, settings, _ = TASKS[name]
    return Row(
        f"anchors-{name}-{number}",
        f"{title}: {f'{number} a value' if number else FEWEST[name]}",
        task,
        options=options | {"anchors": str(number)},
        settings=settings,
        folder="anchors",
        league=f"anchors {title}",
    )


def _chosen(count: int, choice: str) -> Row:
    return Row(
        f"suggest-{count}-{choice}",
        f"XOR of parities: {count} more, {choice}",
        "softpnet/experiments/label_next.py",
        options={"choice": choice, "count": str(count)},
        folder="suggest",
        league=f"suggest {count}",
    )


ANCHORS = tuple(_numbered(name, number) for name, of in TASKS.items() for number in of[-1])
SUGGEST = tuple(_chosen(count, choice) for count in COUNTS for choice in ("suggested", "random"))
