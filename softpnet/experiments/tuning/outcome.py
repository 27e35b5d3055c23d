"""What is known of a trial, free of Optuna: what was tried, and how it came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COMPLETE, PRUNED, FAILED, UNDER_WAY = "complete", "pruned", "failed", "under way"
STATES = {"COMPLETE": COMPLETE, "PRUNED": PRUNED, "FAIL": FAILED, "RUNNING": UNDER_WAY}
"""In our words, by Optuna's."""


@dataclass(frozen=True)
class Outcome:
    """A trial as the journal has it."""

    number: int
    state: str
    values: Mapping[str, Any]
    """Of the settings that are searched."""
    value: float | None
    """What it is judged by; of a pruned one, after its last epoch."""
    epochs: Mapping[int, float]
    """The same after every epoch, from 0."""
    pruned_after: int | None
    """Epochs, where it was pruned."""
    error: str
    """Why it failed; empty where it did not."""
    hardware: Mapping[str, Any] | None = None
    """Where it was made, as options say it; None of studies that did not note it."""

    @property
    def is_finished(self) -> bool:
        return self.state != UNDER_WAY


def best_of(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The complete one with the highest value; of equals the first, so that the default is beaten only by more."""
    complete = [outcome for outcome in outcomes if outcome.state == COMPLETE]
    return max(complete, key=lambda outcome: (outcome.value or 0.0, -outcome.number), default=None)
