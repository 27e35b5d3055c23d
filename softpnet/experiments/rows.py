"""The rows of the result table, as data: what to run, with which seeds, and what the paper reports."""

from __future__ import annotations

from dataclasses import dataclass, field

THREE_SEEDS = (0, 128, 256)


@dataclass(frozen=True)
class Row:
    """One line of the table: arguments of `softpnet train`, the seeds, and the figures to reach."""

    name: str
    title: str
    task: str
    arguments: tuple[str, ...] = ()
    seeds: tuple[int, ...] = THREE_SEEDS
    paper: dict[str, float] = field(default_factory=dict)  # mean over seeds, percent
    mean_at_least: dict[str, float] = field(default_factory=dict)
    each_at_least: dict[str, float] = field(default_factory=dict)

    def command(self, seed: int) -> list[str]:
        return ["train", self.task, "--seed", str(seed), *self.arguments]


ROWS = (
    Row(
        "evenodd",
        "EvenOdd, full cache",
        "mnist_evenodd",
        paper={"concept_accuracy": 96.44, "label_accuracy": 92.99},
        mean_at_least={"concept_accuracy": 98.0},
        each_at_least={"concept_accuracy": 97.5},
    ),
    Row(
        "evenodd-views",
        "EvenOdd, full cache, views",
        "mnist_evenodd",
        ("--views",),
        paper={"concept_accuracy": 96.44, "label_accuracy": 92.99},
        mean_at_least={"concept_accuracy": 98.7},
    ),
    Row(
        "sudoku",
        "Sudoku, cache, walk, phi",
        "visual_sudoku",
        paper={"concept_accuracy": 98.60, "label_accuracy": 89.82},
        mean_at_least={"concept_accuracy": 98.7, "label_accuracy": 91.0},
    ),
    Row(
        "sudoku-auto-views",
        "Sudoku, listed or k-best, views",
        "visual_sudoku",
        ("--candidates", "auto", "--views"),
        paper={"concept_accuracy": 98.60, "label_accuracy": 89.82},
        mean_at_least={"concept_accuracy": 99.2, "label_accuracy": 94.5},
    ),
    Row(
        "kand-cache",
        "Kand-Logic, 200,000-row cache",
        "kand_logic",
        seeds=(0,),
        paper={"concept_accuracy": 90.26, "label_accuracy": 81.60},
    ),
    Row(
        "kand-kbest",
        "Kand-Logic, k-best",
        "kand_logic",
        ("--candidates", "kbest"),
        paper={"concept_accuracy": 90.26, "label_accuracy": 81.60},
        each_at_least={"primitive_accuracy": 99.0, "label_accuracy": 98.0},
    ),
)
