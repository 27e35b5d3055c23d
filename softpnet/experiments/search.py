"""The search for the recipe, as rows: changes of what it began with, on the validation split, by seeds no table has.

`softpnet reproduce search --first-seed 1 --seeds 2` runs it, `softpnet table search ...` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softpnet.experiments.rows import BEGAN, Row

TASKS: dict[str, tuple[str, str, dict[str, str]]] = {
    "xor": ("XOR of parities", "examples/parity_xor.py", {}),
    "order": ("Non-decreasing", "examples/non_decreasing.py", {}),
    "pairs": ("1,600 pairs", "mnist_evenodd", {"train": "1600"}),
}
"""Where methods differ: two rules that let values run together, and few examples."""

TRIED = "softpnet/experiments/tried"
CHANGES: dict[str, dict[str, Any]] = {
    "where the search began": {},
    "scores not balanced": {"balance": 0.0},
    "prototypes are the anchors' means": {"prototypes": "mean"},
    "distances not scaled": {"scaled": False},
    "inputs not augmented": {"augment_inputs": False},
    "views scored on clean inputs": {"augment_inputs": False, "views": True},
    "warm-up of 100 steps": {"warmup_steps": 100},
    "16 examples beside the anchors in the warm-up": {"warmup_examples": 16},
    "nine copies of each anchor": {"copies": 9},
    "learning rate stays": {"decay_to_zero": False},
    "temperature falls by 5 % an epoch (today's recipe)": {"gamma_decay": 0.95},
    "best assignment as target": {"target": "best"},
    "each concept's own attention": {"targets": f"{TRIED}/concept_attention.py"},
    "rule's weight rises over 3 epochs": {"rule_ramp": 3},
    "rule weighs five times as much as the anchors": {"rule_weight": 5.0},
    "anchors weigh five times as much as the rule": {"rule_weight": 0.2},
    "weight decay 1e-4": {"weight_decay": 1e-4},
    "all labels equally frequent": {"balanced_labels": True},
    "one copy of each anchor": {"copies": 1},
    "one copy of each anchor, warm-up of 150 steps": {"copies": 1, "warmup_steps": 150},
    "one copy, 150 steps, temperature falls by 5 %": {"copies": 1, "warmup_steps": 150, "gamma_decay": 0.95},
    "one copy, 100 steps, temperature falls by 5 %": {"copies": 1, "warmup_steps": 100, "gamma_decay": 0.95},
    "one copy, 100 steps, temperature falls by 10 %": {"copies": 1, "warmup_steps": 100, "gamma_decay": 0.9},
    "one copy, 100 steps, best assignment as target": {"copies": 1, "warmup_steps": 100, "target": "best"},
    "warm-up of 100 steps, temperature falls by 5 %": {"warmup_steps": 100, "gamma_decay": 0.95},
    "one copy, temperature falls by 5 %": {"copies": 1, "gamma_decay": 0.95},
    "one copy, 200 steps, temperature falls by 5 %": {"copies": 1, "warmup_steps": 200, "gamma_decay": 0.95},
}
"""Of settings."""
METHODS: dict[str, str] = {
    "anchors weigh what the rule leaves open": f"{TRIED}/fading_anchors.py",
    "weights averaged over 100 steps": f"{TRIED}/averaged_weights.py",
    "learned scale of the distances": f"{TRIED}/learned_scale.py",
}
"""Changes that are methods of their own."""


FURTHER: dict[str, tuple[str, str, dict[str, str]]] = {
    "window": ("Window crops", "kand_logic", {"crop": "window", "train": "1000"}),
    "boards": ("100 boards", "visual_sudoku", {"train": "100"}),
    "photos": ("Traffic signs", "examples/traffic_signs.py", {}),
}
"""Where changes that won are held against the beginning once more."""
EPOCHS = {"window": {"epochs": 8}}
"""Other than the task's."""
WON = (
    "where the search began",
    "temperature falls by 5 % an epoch (today's recipe)",
    "one copy of each anchor",
    "one copy, temperature falls by 5 %",
    "one copy, 200 steps, temperature falls by 5 %",
    "one copy, 150 steps, temperature falls by 5 %",
    "warm-up of 100 steps",
    "one copy, 100 steps, temperature falls by 5 %",
    "warm-up of 100 steps, temperature falls by 5 %",
)


def _row(task: str, change: str, settings: Mapping[str, Any], **parts: Any) -> Row:
    title, name, options = (TASKS | FURTHER)[task]
    number = [*CHANGES, *METHODS].index(change)
    return Row(
        f"search-{task}-{number}",
        f"{title}: {change}",
        name,
        options=options | {"split": "validation"},
        folder="search",
        league=f"search {task}",
        settings={**BEGAN, **EPOCHS.get(task, {}), **settings},
        **parts,
    )


SEARCH = (
    *(_row(task, change, settings) for task in TASKS for change, settings in CHANGES.items()),
    *(_row(task, change, CHANGES[change]) for task in FURTHER for change in WON),
    *(_row(task, change, {}, method=method) for task in TASKS for change, method in METHODS.items()),
    Row(
        "search-photos-affine",
        "Traffic signs: today's recipe, affine augmentation alone",
        f"{TRIED}/affine_signs.py",
        options={"split": "validation"},
        folder="search",
    ),
)
