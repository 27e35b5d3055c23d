"""The rows of the result tables, as data: what to run. What the paper reports is in paper.toml."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from softpnet.task.hardware import SINGLE, Precision
from softpnet.task.settings import Preset

SEEDS = tuple(128 * i for i in range(10))

OURS, CEILING = "softpnet", "supervised"


@dataclass(frozen=True)
class Row:
    """One line of a table: a task with options, a method with settings in place of the task's."""

    name: str
    title: str
    task: str
    method: str = OURS
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: Preset = "best"
    encoder: str = ""
    """By its name; the task's or the method's unless given."""
    precision: Precision = SINGLE
    paper: str = ""
    """The method of this task in paper.toml whose figures stand beside it."""
    folder: str = ""
    """Of its records, inside that of all records; the task's name unless given."""
    league: str = ""
    """Rows are compared with those of the same task and league."""

    def command(self, seed: int) -> list[str]:
        """Arguments of `softpnet`."""
        words = ["train", self.task, *([] if self.method == OURS else ["--method", self.method])]
        words += [*([] if self.preset == "best" else ["--preset", self.preset]), "--seed", str(seed)]
        words += ["--encoder", self.encoder] if self.encoder else []
        words += [] if self.precision == SINGLE else ["--precision", self.precision]
        for name, value in self.options.items():
            words += ["--option", f"{name}={value}"]
        for name, value in self.settings.items():
            word = name.replace("_", "-")
            words += [f"--no-{word}"] if value is False else [f"--{word}", *([] if value is True else [str(value)])]
        return words

    def command_line(self, seed: int) -> str:
        """To be pasted into a shell."""
        return shlex.join(["softpnet", *self.command(seed)])


BEGAN: Mapping[str, Any] = {"gamma_decay": 1.0}
"""What the search for the recipe began with, where the recipe is another one since."""


def comparable(one: Row, other: Row) -> bool:
    """Whether two rows learn from and are judged on the same data."""
    return (one.task, one.league) == (other.task, other.league)


def _paper(*rows: Row) -> tuple[Row, ...]:
    """Rows with the paper's settings."""
    return tuple(replace(row, preset="paper") for row in rows)


SUPPORT, PAIRS = {"support": "train"}, "cache of the 16 training pairs"
VALID_ONLY, VALID = {"valid_only": "true"}, "valid boards only"
VIEWS: dict[str, Any] = {"views": True}
KBEST: dict[str, Any] = {"targets": "kbest"}
TUNED = {"walk_every": 1, "walk_steps": 50, "learning_rate": 0.003}
TUNED_K = {"walk_steps": 10, "learning_rate": 0.003}
EVENODD = _paper(
    Row("evenodd", "EvenOdd, Soft-PNet", "mnist_evenodd", paper=OURS),
    Row("evenodd-views", "EvenOdd, Soft-PNet, views", "mnist_evenodd", settings=VIEWS),
    Row("evenodd-support", f"EvenOdd, Soft-PNet, {PAIRS}", "mnist_evenodd", options=SUPPORT, paper=OURS),
    Row("evenodd-softg", "EvenOdd, SoftG", "mnist_evenodd", "softg", paper="softg"),
    Row("evenodd-softg-support", f"EvenOdd, SoftG, {PAIRS}", "mnist_evenodd", "softg", SUPPORT, paper="softg"),
    Row("evenodd-softg-k", "EvenOdd, SoftG-K", "mnist_evenodd", "softg_k", paper="softg_k"),
    Row("evenodd-softg-k-support", f"EvenOdd, SoftG-K, {PAIRS}", "mnist_evenodd", "softg_k", SUPPORT, paper="softg_k"),
    Row("evenodd-pnet-sl", "EvenOdd, PNet+SL", "mnist_evenodd", "pnet_sl", paper="pnet_sl"),
    Row("evenodd-abduction", "EvenOdd, abduction", "mnist_evenodd", "abduction"),
    Row("evenodd-abduction-anchored", "EvenOdd, abduction, anchors first", "mnist_evenodd", "abduction_anchored"),
    Row("evenodd-supervised-prototypes", "EvenOdd, supervised, prototypes", "mnist_evenodd", "supervised_prototypes"),
    Row("evenodd-supervised", "EvenOdd, supervised", "mnist_evenodd", CEILING),
)
SUDOKU = _paper(
    Row("sudoku", "Sudoku, Soft-PNet", "visual_sudoku", paper=OURS),
    Row("sudoku-auto", "Sudoku, Soft-PNet, k-best", "visual_sudoku", settings=KBEST),
    Row("sudoku-auto-views", "Sudoku, Soft-PNet, k-best, views", "visual_sudoku", settings=KBEST | VIEWS),
    Row("sudoku-valid", f"Sudoku, Soft-PNet, {VALID}", "visual_sudoku", options=VALID_ONLY, paper=OURS),
    Row("sudoku-softg", "Sudoku, SoftG", "visual_sudoku", "softg", paper="softg"),
    Row("sudoku-softg-tuned", "Sudoku, SoftG, tuned", "visual_sudoku", "softg", settings=TUNED, paper="softg"),
    Row("sudoku-softg-k", "Sudoku, SoftG-K", "visual_sudoku", "softg_k", paper="softg_k"),
    Row(
        "sudoku-softg-k-tuned", "Sudoku, SoftG-K, tuned", "visual_sudoku", "softg_k", settings=TUNED_K, paper="softg_k"
    ),
    Row("sudoku-pnet-sl", "Sudoku, PNet+SL", "visual_sudoku", "pnet_sl", paper="pnet_sl"),
    Row("sudoku-pnet-sl-valid", f"Sudoku, PNet+SL, {VALID}", "visual_sudoku", "pnet_sl", VALID_ONLY, paper="pnet_sl"),
    Row("sudoku-abduction", "Sudoku, abduction", "visual_sudoku", "abduction"),
    Row("sudoku-abduction-anchored", "Sudoku, abduction, anchors first", "visual_sudoku", "abduction_anchored"),
    Row("sudoku-supervised-prototypes", "Sudoku, supervised, prototypes", "visual_sudoku", "supervised_prototypes"),
    Row("sudoku-supervised", "Sudoku, supervised", "visual_sudoku", CEILING),
)
KAND = _paper(
    Row("kand-kbest", "Kand-Logic, Soft-PNet, k-best", "kand_logic", settings=KBEST),
    Row("kand-cache", "Kand-Logic, Soft-PNet, 200,000-row cache", "kand_logic", paper=OURS),
    Row("kand-softg", "Kand-Logic, SoftG", "kand_logic", "softg"),
    Row("kand-softg-k", "Kand-Logic, SoftG-K", "kand_logic", "softg_k"),
    Row("kand-pnet-sl", "Kand-Logic, PNet+SL", "kand_logic", "pnet_sl", paper="pnet_sl"),
    Row("kand-abduction", "Kand-Logic, abduction", "kand_logic", "abduction"),
    Row("kand-abduction-anchored", "Kand-Logic, abduction, anchors first", "kand_logic", "abduction_anchored"),
    Row("kand-supervised", "Kand-Logic, supervised", "kand_logic", CEILING),
)


def _ablation(name: str, title: str, paper: str | None = None) -> Row:
    """A row of Visual Sudoku; the paper's words for the first ablation can be read in three ways."""
    method = f"softpnet_{name.replace('-', '_')}"
    return Row(f"sudoku-{name}", f"Sudoku, ablation {title}", "visual_sudoku", method, paper=paper or method)


ABLATIONS = _paper(
    _ablation("no-anchor", "A: no anchor"),
    _ablation("no-scoring", "A, second reading: no scoring", paper="softpnet_no_anchor"),
    _ablation("head-scoring", "A, third reading: a head scores", paper="softpnet_no_anchor"),
    _ablation("no-population", "B: no population"),
    _ablation("no-projection", "C: no projection"),
)


BEST = (
    Row("evenodd-best", "EvenOdd, best", "mnist_evenodd"),
    Row("sudoku-best", "Sudoku, best", "visual_sudoku"),
    Row("kand-best", "Kand-Logic, best", "kand_logic"),
)


def _example(name: str, title: str, file: str = "", settings: Mapping[str, Any] | None = None, **options: str) -> Row:
    """A row of a file in examples/, run from the repository's folder; most settings are in that file."""
    task = f"examples/{file or name}.py"
    return Row(name, title, task, options=options, settings=settings or {}, folder="examples", league=name)


EXAMPLES = (
    _example("addition-2", "Addition, 2 digits", "addition", digits="2"),
    _example("addition-4", "Addition, 4 digits", "addition", digits="4"),
    _example("addition-15", "Addition, 15 digits", "addition", {"epochs": 5}, digits="15"),
    _example("addition-100", "Addition, 100 digits", "addition", {"epochs": 2}, digits="100"),
    _example("non_decreasing", "Non-decreasing sequence of six digits"),
    _example("product", "Product of two digits"),
    _example("parity_xor", "XOR of two parities"),
    _example("formula", "Handwritten formula"),
    _example("sudoku9", "9x9 Sudoku, solver targets"),
    _example("latin_square", "Latin square, answer-set rule"),
    _example("traffic_scene", "Traffic scene"),
)
_EXAMPLE = {row.name: row for row in EXAMPLES}


def _harder(name: str, title: str, task: str, options: Mapping[str, str], **settings: Any) -> Row:
    """A harder task with our recipe."""
    return Row(f"{name}-best", f"{title}, best", task, OURS, options, settings, folder="league", league=name)


def _league(title: str, ours: Row, *more: str) -> tuple[Row, ...]:
    """Our recipe; on the same data the paper's settings, abduction after the anchors with either, the ceiling, `more`.

    A rival is not held to settings that were searched for us: it has those that the search began with, and the better
    of its two rows counts.
    """
    name, abduction = ours.league, "abduction, anchors first"

    def rival(word: str, says: str, method: str = OURS, preset: Preset = "best") -> Row:
        shown, settings = f"{title}, {says}", {**ours.settings, **(BEGAN if preset == "best" else {})}
        row = replace(ours, name=f"{name}-{word}", title=shown, method=method, preset=preset, folder="league")
        return replace(row, settings=settings)

    return (
        ours,
        rival("paper", "paper", preset="paper"),
        rival("abduction-anchored", abduction, "abduction_anchored"),
        rival("abduction-anchored-paper", f"{abduction}, paper", "abduction_anchored", "paper"),
        rival("supervised", "supervised", CEILING),
        *(rival(method.replace("_", "-"), "PNet+SL", method) for method in more),
    )


def _wrong(share: str, told: bool = True) -> Row:
    """EvenOdd with a share of wrong sums, known or not."""
    title = f"EvenOdd, best, {float(share):.0%} wrong sums".replace("%", " %")
    row = Row(
        f"evenodd-wrong-{float(share) * 100:.0f}", title, "mnist_evenodd", options={"wrong": share}, folder="noise"
    )
    if told:
        return replace(row, settings={"label_noise": float(share)})
    return replace(row, name=f"{row.name}-untold", title=f"{title}, not told")


NOISE = (_wrong("0.05"), _wrong("0.2"), _wrong("0.05", told=False), _wrong("0.2", told=False))
PRECISION = tuple(
    replace(row, name=f"{row.name}-bf16", title=f"{row.title}, bf16", precision="bf16-mixed", folder="precision")
    for row in BEST[:2]
)
WINDOW = {"crop": "window", "train": "1000"}
LEAGUE = (
    *_league("Window crops", _harder("window", "Window crops", "kand_logic", WINDOW, epochs=8)),
    *_league("300 scenes", _harder("kand-300", "300 scenes", "kand_logic", {"train": "300"}, epochs=20, batch_size=16)),
    *_league(
        "1,600 pairs", _harder("evenodd-1600", "1,600 pairs", "mnist_evenodd", {"train": "1600"}, epochs=10), "pnet_sl"
    ),
    *_league(
        "100 boards", _harder("sudoku-100", "100 boards", "visual_sudoku", {"train": "100"}, epochs=20, batch_size=8)
    ),
    *_league("Traffic signs", _harder("signs", "Traffic signs", "examples/traffic_signs.py", {}, epochs=10)),
    *_league("XOR of two parities", _EXAMPLE["parity_xor"], "pnet_sl"),
    *_league("Non-decreasing sequence of six digits", _EXAMPLE["non_decreasing"], "pnet_sl"),
    *_league("Addition, 4 digits", _EXAMPLE["addition-4"]),
)
ROWS = BEST + EVENODD + SUDOKU + KAND + ABLATIONS
SHORT = set(
    """
    evenodd-best evenodd evenodd-abduction evenodd-supervised
    sudoku-best sudoku-abduction sudoku-supervised kand-best
    """.split()
)
TABLES = {
    "table1": EVENODD + SUDOKU + KAND,
    "best": BEST,
    "league": LEAGUE,
    "noise": NOISE,
    "precision": PRECISION,
    "table2": (SUDOKU[0], SUDOKU[-1], *ABLATIONS),
    "short": tuple(row for row in ROWS if row.name in SHORT),
    "examples": EXAMPLES,
}
"""The paper's two tables, the rows that a first look needs, and the examples, by name."""
