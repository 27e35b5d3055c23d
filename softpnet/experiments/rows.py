"""The rows of the result tables, as data: what to run, and what the paper reports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SEEDS = tuple(128 * i for i in range(10))

OURS, CEILING = "softpnet", "supervised"


class Stated(NamedTuple):
    """A figure of the paper, in percent: over its seeds."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Row:
    """One line of a table: a task with options, a method with settings in place of the task's, the paper's figures."""

    name: str
    title: str
    task: str
    method: str = OURS
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Stated] = field(default_factory=dict)
    folder: str = ""
    """Of its records, inside that of all records; the task's name unless given."""

    def command(self, seed: int) -> list[str]:
        """Arguments of `softpnet`."""
        words = ["train", self.task, *([] if self.method == OURS else ["--method", self.method]), "--seed", str(seed)]
        for name, value in self.options.items():
            words += ["--option", f"{name}={value}"]
        for name, value in self.settings.items():
            word = name.replace("_", "-")
            words += [f"--no-{word}"] if value is False else [f"--{word}", *([] if value is True else [str(value)])]
        return words

    def command_line(self, seed: int) -> str:
        """To be pasted into a shell."""
        return shlex.join(["softpnet", *self.command(seed)])


def _paper(*columns: tuple[float, float]) -> dict[str, Stated]:
    """Concept accuracy and F1, label accuracy and, where it is reported, F1."""
    names = ("concept_accuracy", "concept_f1", "label_accuracy", "label_f1")
    return {name: Stated(*figure) for name, figure in zip(names, columns, strict=False)}


def _in_both_conventions(paper: dict[str, Stated]) -> dict[str, Stated]:
    """Kand-Logic: the paper's accuracy and F1 of concepts fit no single convention, so they stand beside both."""
    return paper | {"primitive_accuracy": paper["concept_accuracy"], "primitive_f1": paper["concept_f1"]}


EVENODD_OURS = _paper((96.44, 6.28), (95.86, 7.98), (92.99, 12.22))
EVENODD_SOFTG = _paper((27.33, 11.46), (17.78, 8.60), (5.11, 4.71))
EVENODD_SOFTG_K = _paper((26.61, 10.64), (15.55, 7.19), (3.96, 4.79))
EVENODD_PNET_SL = _paper((85.40, 17.18), (83.33, 19.72), (73.76, 29.83))
SUPPORT = {"support": "train"}
EVENODD = (
    Row("evenodd", "EvenOdd, Soft-PNet", "mnist_evenodd", paper=EVENODD_OURS),
    Row("evenodd-views", "EvenOdd, Soft-PNet, views", "mnist_evenodd", settings={"views": True}),
    Row(
        "evenodd-support",
        "EvenOdd, Soft-PNet, cache of the 16 training pairs",
        "mnist_evenodd",
        options=SUPPORT,
        paper=EVENODD_OURS,
    ),
    Row("evenodd-softg", "EvenOdd, SoftG", "mnist_evenodd", "softg", paper=EVENODD_SOFTG),
    Row(
        "evenodd-softg-support",
        "EvenOdd, SoftG, cache of the 16 training pairs",
        "mnist_evenodd",
        "softg",
        options=SUPPORT,
        paper=EVENODD_SOFTG,
    ),
    Row("evenodd-softg-k", "EvenOdd, SoftG-K", "mnist_evenodd", "softg_k", paper=EVENODD_SOFTG_K),
    Row(
        "evenodd-softg-k-support",
        "EvenOdd, SoftG-K, cache of the 16 training pairs",
        "mnist_evenodd",
        "softg_k",
        options=SUPPORT,
        paper=EVENODD_SOFTG_K,
    ),
    Row("evenodd-pnet-sl", "EvenOdd, PNet+SL", "mnist_evenodd", "pnet_sl", paper=EVENODD_PNET_SL),
    Row("evenodd-abduction", "EvenOdd, abduction", "mnist_evenodd", "abduction"),
    Row("evenodd-abduction-anchored", "EvenOdd, abduction, anchors first", "mnist_evenodd", "abduction_anchored"),
    Row("evenodd-supervised-prototypes", "EvenOdd, supervised, prototypes", "mnist_evenodd", "supervised_prototypes"),
    Row("evenodd-supervised", "EvenOdd, supervised", "mnist_evenodd", CEILING),
)

SUDOKU_SOFTG = _paper((31.78, 16.04), (31.52, 16.07), (75.76, 9.65), (65.65, 21.26))
SUDOKU_SOFTG_K = _paper((27.05, 20.31), (27.21, 20.23), (74.50, 9.48), (63.32, 21.70))
SUDOKU_PNET_SL = _paper((98.79, 0.33), (98.79, 0.33), (91.21, 2.30), (90.31, 2.78))
SUDOKU_OURS = _paper((98.60, 0.62), (98.60, 0.61), (89.82, 4.00), (88.48, 5.18))
VALID_ONLY = {"valid_only": "true"}
SUDOKU = (
    Row("sudoku", "Sudoku, Soft-PNet", "visual_sudoku", paper=SUDOKU_OURS),
    Row("sudoku-auto", "Sudoku, Soft-PNet, listed or k-best", "visual_sudoku", settings={"targets": "auto"}),
    Row(
        "sudoku-auto-views",
        "Sudoku, Soft-PNet, listed or k-best, views",
        "visual_sudoku",
        settings={"targets": "auto", "views": True},
    ),
    Row("sudoku-valid", "Sudoku, Soft-PNet, valid boards only", "visual_sudoku", options=VALID_ONLY, paper=SUDOKU_OURS),
    Row("sudoku-softg", "Sudoku, SoftG", "visual_sudoku", "softg", paper=SUDOKU_SOFTG),
    Row(
        "sudoku-softg-tuned",
        "Sudoku, SoftG, tuned",
        "visual_sudoku",
        "softg",
        settings={"walk_every": 1, "walk_steps": 50, "learning_rate": 0.003},
        paper=SUDOKU_SOFTG,
    ),
    Row("sudoku-softg-k", "Sudoku, SoftG-K", "visual_sudoku", "softg_k", paper=SUDOKU_SOFTG_K),
    Row(
        "sudoku-softg-k-tuned",
        "Sudoku, SoftG-K, tuned",
        "visual_sudoku",
        "softg_k",
        settings={"walk_steps": 10, "learning_rate": 0.003},
        paper=SUDOKU_SOFTG_K,
    ),
    Row("sudoku-pnet-sl", "Sudoku, PNet+SL", "visual_sudoku", "pnet_sl", paper=SUDOKU_PNET_SL),
    Row(
        "sudoku-pnet-sl-valid",
        "Sudoku, PNet+SL, valid boards only",
        "visual_sudoku",
        "pnet_sl",
        options=VALID_ONLY,
        paper=SUDOKU_PNET_SL,
    ),
    Row("sudoku-abduction", "Sudoku, abduction", "visual_sudoku", "abduction"),
    Row("sudoku-abduction-anchored", "Sudoku, abduction, anchors first", "visual_sudoku", "abduction_anchored"),
    Row("sudoku-supervised-prototypes", "Sudoku, supervised, prototypes", "visual_sudoku", "supervised_prototypes"),
    Row("sudoku-supervised", "Sudoku, supervised", "visual_sudoku", CEILING),
)

KAND = (
    Row("kand-kbest", "Kand-Logic, Soft-PNet, k-best", "kand_logic", settings={"targets": "kbest"}),
    Row(
        "kand-cache",
        "Kand-Logic, Soft-PNet, 200,000-row cache",
        "kand_logic",
        paper=_in_both_conventions(_paper((90.26, 2.16), (79.18, 3.49), (81.60, 7.38), (81.81, 7.65))),
    ),
    Row("kand-softg", "Kand-Logic, SoftG", "kand_logic", "softg"),
    Row("kand-softg-k", "Kand-Logic, SoftG-K", "kand_logic", "softg_k"),
    Row(
        "kand-pnet-sl",
        "Kand-Logic, PNet+SL",
        "kand_logic",
        "pnet_sl",
        paper=_in_both_conventions(_paper((91.45, 2.28), (81.78, 5.42), (83.84, 3.70), (84.02, 3.64))),
    ),
    Row("kand-abduction", "Kand-Logic, abduction", "kand_logic", "abduction"),
    Row("kand-abduction-anchored", "Kand-Logic, abduction, anchors first", "kand_logic", "abduction_anchored"),
    Row("kand-supervised", "Kand-Logic, supervised", "kand_logic", CEILING),
)

NO_ANCHOR = _paper((89.97, 3.72), (89.86, 3.78), (59.88, 5.89), (32.03, 16.34))
ABLATIONS = (
    Row(
        "sudoku-no-anchor",
        "Sudoku, ablation A: no anchor",
        "visual_sudoku",
        "softpnet_no_anchor",
        paper=NO_ANCHOR,
    ),
    Row(
        "sudoku-no-scoring",
        "Sudoku, ablation A, second reading: no scoring",
        "visual_sudoku",
        "softpnet_no_scoring",
        paper=NO_ANCHOR,
    ),
    Row(
        "sudoku-head-scoring",
        "Sudoku, ablation A, third reading: a head scores",
        "visual_sudoku",
        "softpnet_head_scoring",
        paper=NO_ANCHOR,
    ),
    Row(
        "sudoku-no-population",
        "Sudoku, ablation B: no population",
        "visual_sudoku",
        "softpnet_no_population",
        paper=_paper((72.99, 10.92), (72.31, 10.73), (50.64, 0.51), (2.70, 2.10)),
    ),
    Row(
        "sudoku-no-projection",
        "Sudoku, ablation C: no projection",
        "visual_sudoku",
        "softpnet_no_projection",
        paper=_paper((98.46, 0.66), (98.46, 0.66), (88.87, 4.49), (87.25, 5.87)),
    ),
)
ROWS = EVENODD + SUDOKU + KAND + ABLATIONS
SHORT = {
    "evenodd",
    "evenodd-softg",
    "evenodd-pnet-sl",
    "evenodd-abduction",
    "evenodd-abduction-anchored",
    "evenodd-supervised-prototypes",
    "evenodd-supervised",
    "sudoku",
    "sudoku-auto",
    "sudoku-softg-k",
    "sudoku-pnet-sl",
    "sudoku-abduction",
    "sudoku-abduction-anchored",
    "sudoku-supervised-prototypes",
    "sudoku-supervised",
    "kand-kbest",
    "kand-cache",
    "kand-pnet-sl",
    "kand-abduction",
    "kand-abduction-anchored",
    "kand-supervised",
}
TABLES = {
    "table1": EVENODD + SUDOKU + KAND,
    "table2": (SUDOKU[0], SUDOKU[-1], *ABLATIONS),
    "short": tuple(row for row in ROWS if row.name in SHORT),
}
"""The paper's two tables, and the rows that a first look needs, by name."""
