"""The rows of the result tables, as data: what to run, and what the paper reports."""

from __future__ import annotations

from dataclasses import dataclass, field

SEEDS = tuple(128 * i for i in range(10))

OURS, CEILING = "softpnet", "supervised"


@dataclass(frozen=True)
class Row:
    """One line of a table: a task, a method and arguments of `softpnet train`, and the paper's means in percent."""

    name: str
    title: str
    task: str
    method: str = OURS
    arguments: tuple[str, ...] = ()
    paper: dict[str, float] = field(default_factory=dict)

    def command(self, seed: int) -> list[str]:
        method = [] if self.method == OURS else ["--method", self.method]
        return ["train", self.task, *method, "--seed", str(seed), *self.arguments]


def _paper(concept: float, concept_f1: float, label: float, label_f1: float | None = None) -> dict[str, float]:
    stated = {"concept_accuracy": concept, "concept_f1": concept_f1, "label_accuracy": label}
    return stated if label_f1 is None else stated | {"label_f1": label_f1}


EVENODD = (
    Row("evenodd", "EvenOdd, Soft-PNet", "mnist_evenodd", paper=_paper(96.44, 95.86, 92.99)),
    Row("evenodd-views", "EvenOdd, Soft-PNet, views", "mnist_evenodd", OURS, ("--views",)),
    Row(
        "evenodd-support",
        "EvenOdd, Soft-PNet, cache of the 16 training pairs",
        "mnist_evenodd",
        OURS,
        ("--option", "support=train"),
    ),
    Row("evenodd-softg", "EvenOdd, SoftG", "mnist_evenodd", "softg", paper=_paper(27.33, 17.78, 5.11)),
    Row("evenodd-softg-k", "EvenOdd, SoftG-K", "mnist_evenodd", "softg_k", paper=_paper(26.61, 15.55, 3.96)),
    Row("evenodd-pnet-sl", "EvenOdd, PNet+SL", "mnist_evenodd", "pnet_sl", paper=_paper(85.40, 83.33, 73.76)),
    Row("evenodd-abduction", "EvenOdd, abduction", "mnist_evenodd", "abduction"),
    Row("evenodd-abduction-anchored", "EvenOdd, abduction, anchors first", "mnist_evenodd", "abduction_anchored"),
    Row("evenodd-supervised", "EvenOdd, supervised", "mnist_evenodd", CEILING),
)
SUDOKU = (
    Row("sudoku", "Sudoku, Soft-PNet", "visual_sudoku", paper=_paper(98.60, 98.60, 89.82, 88.48)),
    Row(
        "sudoku-auto-views",
        "Sudoku, Soft-PNet, listed or k-best, views",
        "visual_sudoku",
        OURS,
        ("--candidates", "auto", "--views"),
    ),
    Row("sudoku-auto", "Sudoku, Soft-PNet, listed or k-best", "visual_sudoku", OURS, ("--candidates", "auto")),
    Row("sudoku-valid", "Sudoku, Soft-PNet, valid boards only", "visual_sudoku", OURS, ("--option", "valid_only=true")),
    Row("sudoku-softg", "Sudoku, SoftG", "visual_sudoku", "softg", paper=_paper(31.78, 31.52, 75.76, 65.65)),
    Row(
        "sudoku-softg-tuned",
        "Sudoku, SoftG, tuned",
        "visual_sudoku",
        "softg",
        ("--walk-every", "1", "--walk-steps", "50", "--learning-rate", "0.003"),
        paper=_paper(31.78, 31.52, 75.76, 65.65),
    ),
    Row("sudoku-softg-k", "Sudoku, SoftG-K", "visual_sudoku", "softg_k", paper=_paper(27.05, 27.21, 74.50, 63.32)),
    Row("sudoku-pnet-sl", "Sudoku, PNet+SL", "visual_sudoku", "pnet_sl", paper=_paper(98.79, 98.79, 91.21, 90.31)),
    Row("sudoku-abduction", "Sudoku, abduction", "visual_sudoku", "abduction"),
    Row("sudoku-abduction-anchored", "Sudoku, abduction, anchors first", "visual_sudoku", "abduction_anchored"),
    Row("sudoku-supervised", "Sudoku, supervised", "visual_sudoku", CEILING),
)
KAND = (
    Row("kand-kbest", "Kand-Logic, Soft-PNet, k-best", "kand_logic", OURS, ("--candidates", "kbest")),
    Row(
        "kand-cache", "Kand-Logic, Soft-PNet, 200,000-row cache", "kand_logic", paper=_paper(90.26, 79.18, 81.60, 81.81)
    ),
    Row("kand-softg", "Kand-Logic, SoftG", "kand_logic", "softg"),
    Row("kand-softg-k", "Kand-Logic, SoftG-K", "kand_logic", "softg_k"),
    Row("kand-pnet-sl", "Kand-Logic, PNet+SL", "kand_logic", "pnet_sl", paper=_paper(91.45, 81.78, 83.84, 84.02)),
    Row("kand-abduction", "Kand-Logic, abduction", "kand_logic", "abduction"),
    Row("kand-abduction-anchored", "Kand-Logic, abduction, anchors first", "kand_logic", "abduction_anchored"),
    Row("kand-supervised", "Kand-Logic, supervised", "kand_logic", CEILING),
)
ABLATIONS = (
    Row(
        "sudoku-no-anchor",
        "Sudoku, ablation A: no anchor",
        "visual_sudoku",
        "softpnet_no_anchor",
        paper=_paper(89.97, 89.86, 59.88, 32.03),
    ),
    Row(
        "sudoku-no-scoring",
        "Sudoku, ablation A, second reading: no scoring",
        "visual_sudoku",
        "softpnet_no_scoring",
    ),
    Row(
        "sudoku-no-population",
        "Sudoku, ablation B: no population",
        "visual_sudoku",
        "softpnet_no_population",
        paper=_paper(72.99, 72.31, 50.64, 2.70),
    ),
    Row(
        "sudoku-no-projection",
        "Sudoku, ablation C: no projection",
        "visual_sudoku",
        "softpnet_no_projection",
        paper=_paper(98.46, 98.46, 88.87, 87.25),
    ),
)
TABLES = {"table1": EVENODD + SUDOKU + KAND, "table2": (SUDOKU[0], *ABLATIONS)}
ROWS = TABLES["table1"] + ABLATIONS
