"""Model: an exported file, ready to be asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softpnet.errors import InputError
from softpnet.runtime.engines import OUTPUTS, engine, one_line
from softpnet.runtime.inputs import as_array, check_ids, check_kind, check_size, check_values, unreadable, warn_of_scale
from softpnet.runtime.notes import Notes
from softpnet.storage import read_plain

AT_ONCE = 512
"""About so many inputs go through the network in one pass."""


class Prediction(NamedTuple):
    """What was read in every example."""

    concepts: np.ndarray
    """`[N, k]`; -1 where it abstains."""
    labels: np.ndarray | None
    """`[N]` or `[N, m]`; -1 where it abstains or does not know; None where there is no rule."""
    probabilities: np.ndarray
    """`[N, k, h]`, calibrated."""


class Feasible(NamedTuple):
    """The best reading of every example whose label is known."""

    concepts: np.ndarray
    """`[N, k]`, the most probable assignment that has the label."""
    probabilities: np.ndarray
    """`[N]`, its share among all assignments that have the label."""
    label_probabilities: np.ndarray
    """`[N]`, P(y|x)."""


def load(path: str | os.PathLike[str], threads: int | None = None) -> Model:
    """Open what `softpnet export` wrote: a .onnx file, or a .pt2 file where torch is installed."""
    file = Path(path)
    try:
        return Model(read_plain(file), file, threads)
    except FileNotFoundError as error:
        raise InputError(f"there is no file {file}; make one with softpnet export RUN") from error


class Model:
    """An exported model.

    Attributes:
        task: the task's name.
        slots, input_shape, input_type: an example is an array `[n, *shape]` of that type.
        value_names: of each concept.
        limits: what it cannot answer, a sentence each.
    """

    def __init__(self, data: bytes, path: Path, threads: int | None = None) -> None:
        self._path = path
        self._run, text = engine(data, path, threads)
        self._notes = notes = Notes.from_text(text, path)
        self.task, self.slots, self.input_shape = notes.task, notes.slots, notes.input_shape
        self.input_type, self.value_names = np.dtype(notes.input_type), notes.value_names

    @property
    def limits(self) -> list[str]:
        found = []
        if self._notes.rule is None:
            found.append(
                f"the best reading for a known label cannot be found: the rule of task {self.task!r} has no diagram "
                f"({self._notes.rule_said})"
            )
        if self._notes.rule is None and not self._notes.traced_rule:
            found.append(
                f"the label cannot be told: the rule of task {self.task!r} has no diagram and could not be traced; "
                "apply the rule to the concepts yourself"
            )
        return found

    def predict(self, inputs: Any, reject: float | None = None) -> Prediction:
        """Concepts, labels and calibrated probabilities of inputs `[N, n, *shape]`.

        With `reject`, such as 0.05, concepts that are not sure enough are -1, so that the model expects an error of at
        most that in all others together, though a single one may be less sure than 0.95. The label, or every entry of
        a label vector, is -1 where a concept is.
        """
        made = self._read(inputs)
        concepts, probabilities = made["concepts"], np.exp(made["log_probabilities"])
        labels = made.get("labels") if self._notes.rule is None else self._notes.rule.label_of(concepts)
        if reject is None:
            return Prediction(concepts, labels, probabilities)
        told = probabilities.max(-1) >= self._threshold(reject)  # [N, k]
        if labels is not None:
            whole = told.all(1).reshape(-1, *[1] * (labels.ndim - 1))
            labels = np.where(whole, labels, -1)
        return Prediction(np.where(told, concepts, -1), labels, probabilities)

    def feasible(self, inputs: Any, labels: Any) -> Feasible:
        """The most probable reading of inputs `[N, n, *shape]` that has the labels `[N]` or `[N, m]`.

        An entry of a label vector that is not known may be -1, unless -1 is one of its values.
        """
        rule = self._notes.rule
        if rule is None:
            raise InputError(self.limits[0])
        log_p = self._read(inputs)["log_probabilities"]
        asked = np.asarray(labels)
        if asked.dtype.kind not in "iu" or asked.shape != (len(log_p), *rule.labels.shape[1:]):
            raise InputError(
                f"labels are {asked.dtype} {list(asked.shape)}, expected whole numbers "
                f"{[len(log_p), *rule.labels.shape[1:]]}, one label per example"
            )
        rows, most, total = rule.best(log_p, asked.astype(np.int64))
        lost = np.isneginf(total)
        if lost.any():
            first = int(lost.argmax())
            raise InputError(
                f"no known assignment has label {asked[first].tolist()} of example {first}; correct the label: the "
                f"rule of task {self.task!r} has {len(rule.labels):,} labels, {rule.labels[0].tolist()} to "
                f"{rule.labels[-1].tolist()}"
            )
        return Feasible(rows, np.exp(most - total), np.minimum(np.exp(total), 1.0))

    def names(self, concepts: np.ndarray) -> list[list[str | None]]:
        """The values' names of concepts `[N, k]`; None where it abstains."""
        return [[self._name(i, value) for i, value in enumerate(row)] for row in concepts.tolist()]

    def _name(self, concept: int, value: int) -> str | None:
        return self.value_names[concept][value] if value >= 0 else None

    def _read(self, inputs: Any) -> dict[str, np.ndarray]:
        """What the network gives for inputs `[N, n, *shape]`, part by part."""
        whole = self._checked(inputs)
        size = max(1, AT_ONCE // self.slots)
        parts = [self._computed(whole[begin : begin + size]) for begin in range(0, len(whole), size)]
        made = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        lost = ~np.isfinite(made["log_probabilities"].max(-1)).all(1)  # [N]
        if lost.any():
            raise unreadable(lost, whole)
        return made

    def _computed(self, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """What the network gives for inputs `[B, n, *shape]`, as the notes have it."""
        scaled = inputs.astype(np.float32) / 255 if inputs.dtype == np.uint8 else inputs
        with np.errstate(over="ignore"):  # of which the network makes what is not finite
            numbers = np.ascontiguousarray(scaled, dtype=self.input_type)
        try:
            outputs = self._run(numbers)
        except Exception as error:  # each library has its own
            raise InputError(f"the network of {self._path} fails ({one_line(error)}); export the run again") from error
        made = {name: np.asarray(outputs.get(name)) for name in OUTPUTS[: 2 + self._notes.traced_rule]}
        concepts, log_p, *labels = made.values()
        sizes = np.array([len(names) for names in self.value_names])
        shapes = concepts.shape, log_p.shape, *(each.shape[:1] for each in labels)
        expected = (len(inputs), len(sizes)), (len(inputs), len(sizes), sizes.max()), *((len(inputs),) for _ in labels)
        types = concepts.dtype == np.int64, log_p.dtype == np.float32
        if shapes != expected or not all(types) or not ((concepts >= 0) & (concepts < sizes)).all():
            raise InputError(f"the network of {self._path} gives what its notes do not say; export the run again")
        return made

    def _checked(self, inputs: Any) -> np.ndarray:
        """Inputs of the size and kind of those in training."""
        array = as_array(inputs)
        check_values(array, "inputs", 2, "[N, n, ...]")
        check_size(array.shape, self.slots, self.input_shape)
        check_kind("inputs", array.dtype, "those of training", self.input_type)
        if self._notes.table_rows is not None:
            check_ids(array, self._notes.table_rows)
        warn_of_scale("inputs", array, "those of training", self._notes.unit_pixels)
        return array

    def _threshold(self, reject: Any) -> float:
        """The lowest confidence at which what is at least so sure has, together, the expected error `reject`."""
        if not isinstance(reject, (int, float)) or isinstance(reject, bool) or not 0 <= reject <= 1:
            raise InputError(f"reject is {reject!r:.100}, expected a share from 0 to 1, such as 0.05")
        if self._notes.confidences is None:
            raise InputError(
                f"reject is {reject!r}, but this model has no calibration; train it again, or leave it out"
            )
        return threshold(self._notes.confidences, reject)


def threshold(confidences: Sequence[float], reject: float) -> float:
    """As `Calibration.threshold` finds it from confidences `[Q]`, highest first."""
    sure = np.asarray(confidences, np.float32)
    errors = (1 - sure.astype(np.float64)).cumsum() / np.arange(1, len(sure) + 1)  # [Q], rising
    if errors[-1] <= reject:
        return 0.0
    last_of_equals = np.diff(sure) < 0  # what is equally sure is told together
    fine = sure[:-1][last_of_equals & (errors[:-1] <= reject)]
    return float(fine[-1]) if len(fine) else float("inf")
