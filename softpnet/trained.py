"""What a trained model answers: concepts, labels, embeddings, prototypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from softpnet.errors import InputError
from softpnet.metrics import all_metrics
from softpnet.networks.calibration import Calibration, check_reject, decided
from softpnet.networks.finite import check_read
from softpnet.networks.reader import Prediction, Reader, in_parts, module_key, read
from softpnet.networks.reanchor import find_primitive, reanchored
from softpnet.rules.confidence import label_probabilities
from softpnet.rules.labels import unknown_in
from softpnet.runtime.inputs import are_unit_pixels, as_array, warn_of_scale
from softpnet.task.anchors import AnchorSet
from softpnet.task.data import Inputs
from softpnet.task.inputs import check_concepts, check_inputs, check_kind, check_labels, some_inputs
from softpnet.task.integers import tensor_as_array
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.training.processes import checked_device
from softpnet.training.suggest import suggest_slots


class Trained:
    """A reader of concepts and the task whose rule they obey."""

    task: Task
    module: Reader | None = None
    anchors: list[AnchorSet]
    calibration: Calibration | None = None
    input_shape: torch.Size | None = None
    settings: Settings

    def to(self, device: str) -> Self:
        """Answer on this device from now on, such as "cuda:1".

        A model is where it was trained, and one that was loaded is on the CPU.
        """
        self._fitted().to(checked_device(device))
        return self

    @torch.inference_mode()
    def predict(self, inputs: Any, reject: float | None = None) -> Prediction:
        """Concepts by arg-max, the label by the rule, and every concept's calibrated probabilities.

        With `reject`, such as 0.05, concepts that are not sure enough are -1, so that the model expects an error of at
        most that in all others together: 5 wrong of 100 that are told. A single one may be less sure than 0.95. The
        label, or every entry of a label vector, is -1 where a concept is.

        It is computed where the model is, and the answer is on the CPU.
        """
        inputs = self._checked(inputs)
        log_p = read(self._fitted(), inputs)
        check_read(log_p.amax(-1), inputs)  # NaN, or no value that is possible
        return decided(self.task, log_p, self.calibration, reject)

    def stream(self, inputs: Any, reject: float | None = None) -> Iterator[Prediction]:
        """What `predict` gives, bit for bit, but part by part: `for part in model.stream(source): ...`.

        A source is read as far as answers are asked for, and nothing of it is kept.
        """
        inputs = self._checked(inputs)
        check_reject(reject, self.calibration)
        return self._streamed(self._fitted(), inputs, reject)

    @torch.inference_mode()
    def _streamed(self, module: Reader, inputs: Inputs, reject: float | None) -> Iterator[Prediction]:
        before = 0
        for part in in_parts(module, inputs):
            log_p = module.log_p(part)
            check_read(log_p.amax(-1), part, before)
            yield decided(self.task, log_p, self.calibration, reject)
            before += len(part)

    def score(self, inputs: Any, labels: Tensor, concepts: Tensor | None = None) -> dict[str, float]:
        """Accuracy, F1 and calibration error of labels and, where the true concepts `[N, k]` are given, of concepts.

        Several groups or attributes, and several entries of a label vector, also have their own accuracies:
        "concept_accuracy/speed", "label_accuracy/entry 0". "label_ece" needs P(y|x), and so a compiled rule.
        """
        inputs = check_inputs(inputs, self.task.space, self.input_shape)
        whole = check_labels(labels, len(inputs), self.task)
        truth = None if concepts is None else check_concepts(concepts, len(inputs), self.task.space)
        found = self.predict(inputs)
        where = self._fitted().device
        sure = label_probabilities(self.task, found.labels.to(where), found.probabilities.to(where))
        sure, unknown = None if sure is None else sure.cpu(), unknown_in(self.task, whole)
        return all_metrics(self.task.space, *found, truth, whole, sure, unknown)

    @torch.inference_mode()
    def embed(self, inputs: Any) -> list[Tensor]:
        """Embeddings of the slots of each group, `[N, n_g, D]`."""
        inputs = self._checked(inputs)
        module = self._fitted()
        parts = map(module.embed, in_parts(module, inputs))
        return [check_read(torch.cat(group).cpu(), inputs) for group in zip(*parts, strict=True)]

    def prototypes(self) -> list[Tensor]:
        """The prototypes of each group, `[P, D]`; none where the method has no prototypes."""
        return [p.detach().cpu() for p in self._fitted().settled()]

    def reanchor(self, value: Any, inputs: Tensor, *, add: bool = False, group: str | None = None) -> Self:
        """Show a value by other inputs `[A, *shape]`, or one `[*shape]`, without training; itself.

        The value's prototype becomes the mean embedding of these inputs and of augmented copies of them. All other
        prototypes, the encoder and the calibration stay.

        Args:
            value: its name or number, or the attribute values of a primitive as a tuple.
            add: keep the anchors that it has; the prototype, learned or not, then counts as the mean of those.
            group: the value's group, where several have such a value.
        """
        module = self._fitted()
        at = find_primitive(self.task.space, value, group)
        chosen = self.task, module, self.anchors, at, inputs, self.settings.copies, add
        centres, self.anchors[at[0]] = reanchored(*chosen)
        own = module.get_parameter(f"prototypes.{module_key(self.task.space.groups[at[0]].name)}")
        with torch.no_grad():
            own.copy_(centres)
        return self

    def suggest_anchors(self, inputs: Any, labels: Tensor, count: int) -> Tensor:
        """Training slots to label next, uncertain and typical ones first: rows of (example, slot), `[count, 2]`.

        They are uncertain given their labels, typical, and unlike each other and the anchors there are.
        `Anchors.at` makes anchors of them. Of many examples some are looked at, evenly spread.
        """
        inputs = self._checked(inputs)
        whole = check_labels(labels, len(inputs), self.task)
        noise = self.settings.label_noise
        return suggest_slots(self.task, self._fitted(), self.calibration, self.anchors, inputs, whole, count, noise)

    def encoder(self, name: str | None = None) -> nn.Module:
        """A copy of the trained encoder of this name, which may be left out where there is only one."""
        return self._fitted().encoder(name)

    def _checked(self, given: Any) -> Inputs:
        """Inputs of the size and kind of those in training; an array or a list of numbers becomes a tensor."""
        if type(given) is np.ndarray or _is_plain_list(given):
            given = torch.from_numpy(np.require(as_array(given), requirements=("C", "W")))
        inputs = check_inputs(given, self.task.space, self.input_shape)
        for own in self.anchors[:1]:
            check_kind("inputs", inputs.dtype, "those of training", own.inputs.dtype)
            unit = are_unit_pixels(tensor_as_array(own.inputs))
            warn_of_scale("inputs", some_inputs(inputs), "those of training", unit)
        return inputs

    def _fitted(self) -> Reader:
        if self.module is None:
            raise InputError("this Learner is not trained yet; call fit(inputs, labels, anchors) first")
        return self.module


def _is_plain_list(given: Any) -> bool:
    """Whether it is made of lists of numbers alone; a list of tensors or pictures is a source of inputs."""
    first = given
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return isinstance(given, (list, tuple)) and isinstance(first, (int, float, str, list, tuple, np.generic))
