"""The training loop, top to bottom."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softpnet.errors import ShareWarning, TrainingError
from softpnet.methods.base import Batch, Clock, Method
from softpnet.methods.schedules import halving
from softpnet.networks.finite import not_finite
from softpnet.networks.frozen import Features
from softpnet.networks.reader import Reader
from softpnet.targets.source import UNTAUGHT
from softpnet.task.data import Inputs
from softpnet.task.lazy import LazyInputs, read_parts, readable
from softpnet.task.settings import Settings
from softpnet.training.features import Known, frozen_notes, known_anchors, known_features
from softpnet.training.order import own_order, warm_up_ids
from softpnet.training.processes import any_process, to_run, total, totals
from softpnet.training.streams import Streams

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Progress:
    """Where training stands after a step."""

    epoch: int
    epochs: int
    step: int
    steps: int
    means: dict[str, float]  # of this epoch's diagnostics so far
    seconds: float  # since the epoch began
    warming_up: bool = False  # before the first epoch, on anchors alone

    @property
    def epoch_done(self) -> bool:
        return not self.warming_up and self.step + 1 == self.steps

    def record(self) -> dict[str, float]:
        return {"epoch": self.epoch + 1, **self.means, "seconds": self.seconds}


@dataclass
class Position:
    """How far a run has come: steps made in the warm-up, whole epochs, steps and sums of the epoch under way."""

    warmup: int = 0
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    untaught: list[int] = field(default_factory=lambda: [0])  # examples without a candidate, by epoch

    def add(self, info: dict[str, float], untaught: float = 0) -> None:
        """A step's diagnostics, and how many examples of all processes it taught nothing."""
        self.untaught[-1] += int(untaught)
        for name, value in info.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + 1

    def __str__(self) -> str:
        if self.epoch or self.step:
            return f"epoch {self.epoch + 1}, step {self.step}" if self.step else f"epoch {self.epoch}"
        return f"warm-up step {self.warmup}"

    def means(self) -> dict[str, float]:
        return {name: self.sums[name] / self.counts[name] for name in self.sums}


class Training:
    """All that evolves while a module is trained in place on inputs `[N, n, *shape]` and labels.

    Labels that cannot be trained on raise at once. Between two steps of `steps()` everything that the next step
    depends on is in the attributes, from where `checkpoint.py` takes it.

    With several processes each owns the examples whose id is its rank modulo their number, and so their state; a step
    is on as many examples as with one, each process on its share.
    """

    def __init__(
        self,
        method: Method,
        module: Reader,
        inputs: Inputs,
        labels: Tensor,
        settings: Settings,
        streams: Streams,
        fabric: Fabric,
        concepts: Tensor | None = None,
        workers: int = 0,
    ) -> None:
        self.method, self.module, self.settings, self.streams, self.fabric = method, module, settings, streams, fabric
        self.inputs, self.labels, self.workers = inputs, labels, workers
        self.concepts = concepts  # [N, k], for a method that needs them
        self.adam = torch.optim.Adam(
            module.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, foreach=True
        )
        self.model, self.optimiser = fabric.setup(module, self.adam)
        self.state = method.start(labels, streams)
        self.state.keep_share(fabric.global_rank, fabric.world_size, len(labels))
        method.place(self.state, fabric.device)
        self.own = torch.arange(fabric.global_rank, len(labels), fabric.world_size)
        self.share = max(1, settings.batch_size // fabric.world_size)  # of a batch, this process's
        self.order = self.own[: self.taken]  # of the epoch under way
        self.at = Position()
        self.ended = False  # on purpose, before its last epoch
        self.best: dict[str, Tensor] = {}  # weights and statistics of the best epoch so far, where they are kept
        self.records: list[dict[str, float]] = []  # of the epochs that are done
        self.known = Known()  # what frozen encoders make of the inputs, once steps are made

    @property
    def taken(self) -> int:
        """Examples that this process takes in an epoch: every process as many."""
        return len(self.labels) // self.fabric.world_size

    def notes(self) -> list[str]:
        """What a person should know of how it will learn, a line each."""
        return [*self.method.notes(), *frozen_notes(self.method, self.module)]

    def steps(self) -> Iterator[Progress]:
        """Train, from wherever the run stands; one item per step."""
        self.model.train()
        if not self.settings.frozen_views:
            self.known = known_features(self.method.task, self.module, self.inputs, self.own, self.fabric, self.workers)
            if self.known.vectors:
                self.method.known_anchors = known_anchors(self.method, self.module, self.streams.seed)
        yield from self._warm_up()
        while self.at.epoch < self.settings.epochs and not self.ended:
            yield from self._epoch()
        if self.fabric.global_rank == 0:
            self._warn_of_untaught()

    def _warm_up(self) -> Iterator[Progress]:
        settings, at = self.settings, self.at
        began = time.perf_counter()
        while at.warmup < settings.warmup_steps and at.epoch == at.step == 0 and not self.ended:
            place = self.fabric.global_rank, self.fabric.world_size
            chosen = warm_up_ids(settings.warmup_examples, len(self.labels), *place, self.streams("warm-up"))
            loss = self.method.warm_up(self.model, self._shown(chosen), self.streams)
            if loss is None:
                break
            self._update(loss, f"warm-up step {at.warmup + 1}, on the anchors alone")
            at.warmup += 1
            seconds = time.perf_counter() - began
            yield Progress(0, settings.epochs, at.warmup - 1, settings.warmup_steps, {}, seconds, warming_up=True)

    def _epoch(self) -> Iterator[Progress]:
        settings, at = self.settings, self.at
        if at.step == 0:
            place = self.fabric.global_rank, self.fabric.world_size
            self.order = own_order(self.labels, *place, settings.balanced_labels, self.streams("batches"))
        batches = self.order.split(self.share)
        began = time.perf_counter() - at.seconds
        for ids, inputs in self._read(batches[at.step :]):
            self._set_learning_rate(at.epoch + at.step / len(batches))
            concepts = None if self.concepts is None else self.concepts[ids].to(self.fabric.device)
            asked = batches[at.step]
            # [B, 1] == [A]: where each of those that could be read stood
            places = None if len(ids) == len(asked) else (ids[:, None] == asked).int().argmax(1)
            labels = self.labels[ids].to(self.fabric.device)
            batch = Batch(inputs, labels, ids, concepts, places, len(asked))
            clock = Clock(at.epoch, at.step)
            loss, info = self.method.loss(self.model, self.state, batch, clock, self.streams)
            self._update(loss, f"epoch {at.epoch + 1}, step {at.step + 1}, on the batch of examples {ids.tolist()}")
            at.add(info, total(self.fabric, info.pop(UNTAUGHT, 0)))
            self._check_taught()
            at.step, at.seconds = at.step + 1, time.perf_counter() - began
            done = Progress(clock.epoch, settings.epochs, clock.step, len(batches), at.means(), at.seconds)
            if done.epoch_done:
                done = dataclasses.replace(done, means=self._means_of_all())
                self.records.append(done.record())
                self.at = Position(warmup=at.warmup, epoch=at.epoch + 1, untaught=[*at.untaught, 0])
            yield done
            if self.ended:
                return

    def _means_of_all(self) -> dict[str, float]:
        """This epoch's diagnostics over all processes."""
        at, fabric = self.at, self.fabric
        if fabric.world_size == 1:
            return at.means()
        names = fabric.broadcast([*at.sums])
        sums = totals(fabric, [at.sums.get(name, 0.0) for name in names])
        counts = totals(fabric, [at.counts.get(name, 0) for name in names])
        return {name: value / count for name, value, count in zip(names, sums, counts, strict=True)}

    def _set_learning_rate(self, epochs: float) -> None:
        settings = self.settings
        rate = halving(settings.learning_rate, settings.halve_every)(int(epochs))
        for group in self.adam.param_groups:
            group["lr"] = rate * (1 - epochs / settings.epochs) if settings.decay_to_zero else rate

    def _check_taught(self) -> None:
        """Raise once half of the examples of an epoch had no candidate: what is left to learn from is too little."""
        untaught, of = self.at.untaught[-1], len(self.labels)
        if 0 < of <= 2 * untaught:
            raise TrainingError(
                f"{untaught:,} of {of:,} examples had no candidate in epoch {self.at.epoch + 1}, so that their labels "
                f"taught nothing; {self.method.source.remedy()}"
            )

    def _warn_of_untaught(self) -> None:
        most, epochs = max(self.at.untaught), sum(count > 0 for count in self.at.untaught)
        if most:
            warnings.warn(
                f"up to {most:,} of {len(self.labels):,} examples had no candidate in {epochs} of {self.at.epoch} "
                f"epochs; their labels taught nothing there; {self.method.source.remedy()}",
                stacklevel=2,
            )

    def held(self) -> dict[str, Tensor]:
        """Weights and statistics: buffers that the module does not save are among them."""
        return dict(self.module.named_buffers()) | self.module.state_dict()

    def take_best(self) -> None:
        """Go back to the weights of the best epoch, where they are kept."""
        for name, value in self.held().items() if self.best else ():
            value.detach().copy_(self.best[name])

    def check_finite(self, read: Tensor | None = None) -> None:
        """Raise where weights, statistics, moments or what is read are not finite: nothing then is saved or used.

        The loss is looked at in every step, but before its update, and in training mode.
        """
        held: dict[str, Tensor] = dict(self.module.named_parameters())
        for name, parameter in list(held.items()):
            held |= {f"{moment} of {name}": value for moment, value in self.adam.state.get(parameter, {}).items()}
        held |= {} if read is None else {"what is read": read}
        lost = not_finite(held | dict(self.module.named_buffers()), self.module.constants)
        if any_process(self.fabric, bool(lost)):
            raise TrainingError(
                f"training diverged by {self.at}: {len(lost)} tensors of the network and its optimiser hold NaN or "
                f"infinite numbers, {lost[0] if lost else 'those of another process'} first; nothing of it is saved; "
                f"lower learning_rate, which is {self.settings.learning_rate:g}, or rule_weight"
            )

    def _shown(self, ids: Tensor) -> Tensor | Features:
        kept, inputs = (self.known.kept(ids), None) if self.known.complete else readable(self.inputs, ids)
        return self._seen(kept, inputs)

    def _read(self, batches: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor | Features]]:
        """The ids of every batch, without those whose input is to be skipped, and their inputs `[B, n, *shape]`."""
        found: Iterator[tuple[Tensor, Tensor | None]] = read_parts(self.inputs, batches, self.workers)
        if self.known.complete:
            found = ((self.known.kept(ids), None) for ids in batches)
        for ids, (kept, inputs) in zip(batches, found, strict=True):
            if not len(kept):
                raise TrainingError(f"no input of the batch of examples {ids.tolist()} can be read; mend or drop them")
            if len(kept) < len(ids):
                assert isinstance(self.inputs, LazyInputs), "of a tensor none is skipped"
                lost = self.inputs.lost(set(ids.tolist()) - set(kept.tolist()))
                warnings.warn(f"{lost}, and are skipped", ShareWarning, stacklevel=2)
            yield kept, self._seen(kept, inputs)

    def _seen(self, ids: Tensor, inputs: Tensor | None) -> Tensor | Features:
        return self.known.joined(ids, None if inputs is None else to_run(self.fabric, inputs), self.fabric.device)

    def _update(self, loss: Tensor, where: str) -> None:
        if not loss.requires_grad:
            raise TrainingError(
                f"the loss depends on no weight that may change, in {where}; the encoder is frozen, or it detaches "
                "what it returns: set requires_grad=True for some of its weights"
            )
        if any_process(self.fabric, not torch.isfinite(loss)):
            raise TrainingError(
                f"the loss is {loss.item()} in {where}; lower learning_rate or rule_weight, or look at these examples"
            )
        self.optimiser.zero_grad()
        self.fabric.backward(loss)
        self.optimiser.step()
