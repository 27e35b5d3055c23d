"""The search for the recipe, as rows: one change at a time, on the validation split, by seeds that no table has.

`softpnet reproduce search --first-seed 1 --seeds 2` runs it, `softpnet table search ...` prints it.
"""

from __future__ import annotations

from typing import Any

from softpnet.experiments.rows import Row

TASKS: dict[str, tuple[str, str, dict[str, str]]] = {
    "xor": ("XOR of parities", "examples/parity_xor.py", {}),
    "order": ("Non-decreasing", "examples/non_decreasing.py", {}),
    "pairs": ("1,600 pairs", "mnist_evenodd", {"train": "1600"}),
}
"""Where methods differ: two rules that let values run together, and few examples."""

CHANGES: dict[str, dict[str, Any]] = {
    "recipe": {},
    "scores not balanced": {"balance": 0.0},
    "prototypes are the anchors' means": {"prototypes": "mean"},
    "distances not scaled": {"scaled": False},
    "inputs not augmented": {"augment_inputs": False},
    "views scored on clean inputs": {"augment_inputs": False, "views": True},
    "warm-up of 100 steps": {"warmup_steps": 100},
    "16 examples beside the anchors in the warm-up": {"warmup_examples": 16},
    "nine copies of each anchor": {"copies": 9},
    "learning rate stays": {"decay_to_zero": False},
    "temperature falls by 5 % an epoch": {"gamma_decay": 0.95},
    "best assignment as target": {"target": "best"},
    "each concept's own attention": {"targets": "softpnet/experiments/concept_attention.py"},
    "rule's weight rises over 3 epochs": {"rule_ramp": 3},
    "weight decay 1e-4": {"weight_decay": 1e-4},
}


def _row(task: str, number: int, change: str) -> Row:
    title, name, options = TASKS[task]
    return Row(
        f"search-{task}-{number}",
        f"{title}: {change}",
        name,
        options=options | {"split": "validation"},
        settings=CHANGES[change],
        folder="search",
        league=f"search {task}",
    )


SEARCH = tuple(_row(task, number, change) for task in TASKS for number, change in enumerate(CHANGES))
