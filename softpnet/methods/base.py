"""What the loop asks of a method, and what every method may use."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from softpnet.methods import losses, schedules
from softpnet.networks.encoders import conv4
from softpnet.networks.frozen import Embedded, Features
from softpnet.networks.reader import Reader
from softpnet.networks.views import augmentation, random_views
from softpnet.targets.source import UNTAUGHT, Info, Query, State, TargetSource
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import Group
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.together import Together

Streams = Callable[[str], Generator]


class Batch(NamedTuple):
    """The examples of one step."""

    inputs: Tensor | Features  # [B, n, *shape]; for the network, which knows what frozen encoders made of them
    labels: Tensor  # [B] or [B, m]
    ids: Tensor  # [B]
    concepts: Tensor | None = None  # [B, k], the truth, for methods that need it only
    places: Tensor | None = None  # [B], among as many as were asked for, where some could not be read
    asked: int | None = None


class Clock(NamedTuple):
    epoch: int  # 0, 1, ...
    step: int  # inside the epoch


class Method(ABC):
    """Makes the module and turns a batch into a loss; the loop alone calls backward and steps the optimiser.

    What evolves beside the weights is the state, which `start` makes and `loss` changes in place: a checkpoint between
    two steps holds all of it.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    """Names of the numbers in `loss`'s info that a progress display shows."""

    fixed: ClassVar[dict[str, Any]] = {}
    """Settings that belong to what the method is, whatever the task and the preset say; those handed in have them."""

    needs_concepts: ClassVar[bool] = False
    """Whether it trains on the true concepts. No other method ever gets them."""

    source: TargetSource
    """Where targets come from, in methods that have them: made by `start`."""

    idle_parts: ClassVar[bool] = False
    """Whether some of its steps leave parts of the network without a gradient."""

    together: Together | None = None
    """While several processes train one network, each on its share of every batch."""

    def __init__(self, task: Task, settings: Settings, anchors: list[AnchorSet]) -> None:
        """Anchors: per group, in the order of the group's primitives."""
        self.task, self.settings, self.anchors = task, settings, anchors
        self.known_anchors: dict[int, Tensor] = {}
        """By group, where its encoder is frozen: vectors of the originals and of views of them, `[views, M, D]`."""

    @property
    def like(self) -> Tensor:
        """One input `[*shape]`, to know what inputs are like."""
        return self.anchors[0].inputs[0]

    @staticmethod
    def encoder(channels: int) -> nn.Module:
        """The encoder where neither the user nor the task brings one."""
        return conv4(channels)

    @abstractmethod
    def module(self, encoders: Mapping[str, nn.Module]) -> Reader:
        """The network to train; may draw its first weights from torch's global generator."""

    def start(self, labels: Tensor, streams: Streams) -> State:
        """State before the first step; raises if the labels cannot be trained on."""
        return State()

    def place(self, state: State, device: torch.device) -> None:
        """Once started: move state and targets to where the network computes, if they can be there."""
        source = getattr(self, "source", None)
        if source is not None and source.anywhere:
            source.to(device)
            state.to(device)

    def share(self, together: Together | None) -> None:
        """Once started: from now on these processes train together; this one alone for None."""
        self.together = together
        source = getattr(self, "source", None)
        if source is not None:
            source.share(together)

    def warm_up(self, module: nn.Module, inputs: Tensor | Features, streams: Streams) -> Tensor | None:
        """Loss of one step before the first epoch, without labels; None for methods that have no such phase.

        Images `[B, n, *shape]` of some training examples (B may be 0) may only be looked at.
        """
        return None

    @abstractmethod
    def loss(
        self, module: nn.Module, state: State, batch: Batch, clock: Clock, streams: Streams
    ) -> tuple[Tensor, Info]:
        """Loss of one step, and diagnostics; the state is changed in place."""

    def finish(self, module: Reader) -> None:
        """Make the module, in evaluation mode, ready for inference."""
        return None

    def ready(self, module: Reader) -> Reader:
        """The module as inference has it."""
        self.finish(module.eval())
        return module.float()

    def remarks(self) -> list[str]:
        """Once started: settings that take each other's effect away, a sentence each. `check_task` warns of them."""
        settings, source = self.settings, getattr(self, "source", None)
        late = f"of {settings.epochs} epochs"
        weighs, still = self.weighs_rule(), not self.augments()
        idle = {
            f"views_delay is {settings.views_delay} {late}: views never begin": (
                settings.views and settings.views_delay >= settings.epochs
            ),
            f"rule_delay is {settings.rule_delay} {late}: only the anchors are learned from": (
                weighs and settings.rule_delay >= settings.epochs
            ),
            "rule_weight is 0: only the anchors are learned from": weighs and settings.rule_weight == 0,
            "there is no augmentation: views are the inputs themselves": (
                still and (settings.views or settings.augment_inputs)
            ),
            "there is no augmentation: all copies of an anchor are alike, unless the encoder has dropout": (
                still and type(self).warm_up is not Method.warm_up
            ),
        }
        return [said for said, true in idle.items() if true] + (source.remarks() if source is not None else [])

    def notes(self) -> list[str]:
        """Once started: what a person should know of how it will learn, a line each."""
        source = getattr(self, "source", None)
        anchored, views = type(self).warm_up is not Method.warm_up, self.settings.views or self.settings.augment_inputs
        alike = "every copy of an anchor is the same, and " if anchored else ""
        still = (anchored or views) and not self.augments()
        said = [f"no augmentation: {alike}inputs are trained on as they are"] if still else []
        return said + ([] if source is None else source.notes())

    def training_inputs(self, batch: Batch, clock: Clock, streams: Streams) -> Tensor | Features:
        """What the network is trained on: the batch's inputs, or an augmented view where the settings ask for it."""
        if self.settings.augment_inputs or self.scores_clean(clock):
            generator, inputs = streams("views"), batch.inputs
            with self._drawing(batch):
                if isinstance(inputs, Features):
                    return inputs.changed(lambda each: self.augment(each, generator))
                return self.augment(inputs, generator)
        return batch.inputs

    def _drawing(self, batch: Batch) -> contextlib.AbstractContextManager[Any]:
        """While inside, what is drawn for the rows of the batch is what one process would draw for them."""
        if self.together is None:
            return contextlib.nullcontext()
        return self.together.drawing(batch.asked or len(batch.ids), batch.places)

    def scores_clean(self, clock: Clock) -> bool:
        """Whether targets come from the clean inputs, while the network is trained on other views of them."""
        settings = self.settings
        return settings.views and clock.epoch >= settings.views_delay and self.augments()

    def augments(self) -> bool:
        """Whether there is an augmentation, for inputs like the anchors where these are known."""
        found = augmentation(self.task, self.like) if self.anchors else self.task.augment
        return found is not None

    def augment(self, inputs: Tensor, generator: Generator) -> Tensor:
        """A random view of every input `[B, n, *shape]`; the inputs themselves where there is no augmentation."""
        return random_views(self.task, inputs, generator)

    def gamma(self, clock: Clock) -> float:
        """The temperature of the walk and of the target."""
        settings = self.settings
        return schedules.exponential(settings.gamma, settings.gamma_decay, settings.gamma_floor)(clock.epoch)

    @classmethod
    def weighs_rule(cls) -> bool:
        """A method that weighs what the rule teaches shows the weight."""
        return "rule_weight" in cls.columns

    def rule_weight(self, clock: Clock) -> float:
        """lambda, the weight of the loss that the rule teaches by, beside that of the anchors."""
        settings = self.settings
        return schedules.ramp(settings.rule_weight, settings.rule_delay, settings.rule_ramp)(clock.epoch)

    def target(
        self, state: State, batch: Batch, log_p: Tensor, clock: Clock, gamma: float, generator: Generator
    ) -> tuple[Tensor, Info]:
        """The soft target `[B, k, h]` of a batch that the network reads as log p `[B, k, h]`."""
        device = log_p.device if self.source.anywhere else torch.device("cpu")
        # A process has the state of the ids that are its rank modulo the number of processes.
        rows = batch.ids if self.together is None else batch.ids // self.together.count
        query = Query(rows.to(device), batch.labels.to(device), log_p.to(device), clock.epoch, gamma)
        with contextlib.nullcontext() if self.source.draws_together else self._drawing(batch):
            target, info = self.source.target(state, query, generator)
        untaught = int((~target.flatten(1).any(1)).sum()) if self._rule_teaches(clock) else 0
        return target.to(log_p.device), info | ({UNTAUGHT: untaught} if untaught else {})

    def _rule_teaches(self, clock: Clock) -> bool:
        return not self.weighs_rule() or self.rule_weight(clock) > 0

    def shown_anchors_loss(self, log_q: Sequence[Tensor]) -> Tensor:
        """Cross-entropy on augmented anchors that are read as log q, per group `[A, V, P]`."""
        pairs = zip(log_q, self.anchors, strict=True)
        return losses.mean_over_groups(losses.anchor_cross_entropy(each, own.anchored()[0]) for each, own in pairs)

    def without_blanks(self, log_q: Sequence[Tensor]) -> list[Tensor]:
        """Anchors' readings `[A, V, P]`, of groups with several attributes among the anchored primitives only.

        Targets are per attribute. A blank primitive that the warm-up had pushed away from everything would stay there:
        for "red square", half "red circle" and half "blue square" give both attributes their half and no gradient.
        """
        return [self._among_anchored(*each) for each in zip(log_q, self.anchors, self.task.space.groups, strict=True)]

    def _among_anchored(self, log_q: Tensor, own: AnchorSet, group: Group) -> Tensor:
        shown = own.anchored()[0]
        if len(group.values) == 1 or len(shown) == len(group.primitives):
            return log_q
        blank = torch.ones(log_q.shape[-1], dtype=torch.bool).index_fill(0, shown, False)
        return log_q.masked_fill(blank.to(log_q.device), -torch.inf).log_softmax(-1)

    def augmented_anchors(self, generator: Generator) -> list[Tensor | Embedded]:
        """Originals and fresh copies of every primitive that has anchors, per group `[A, V, *shape]`; of a frozen
        encoder, their vectors.

        Of several anchors of a primitive, any one is taken each time.
        """
        return [
            self._known_copies(anchors, self.known_anchors[g], generator)
            if g in self.known_anchors
            else self._copies(anchors, generator)
            for g, anchors in enumerate(self.anchors)
        ]

    def anchor_inputs(self, generator: Generator, rounds: int = 1) -> list[Tensor]:
        """Originals, so many times, and as many fresh copies of each, `[A, V, *shape]`, whatever is known of them."""
        return [self._copies(anchors, generator, rounds) for anchors in self.anchors]

    def _copies(self, anchors: AnchorSet, generator: Generator, rounds: int = 1) -> Tensor:
        rows = rounds * (self.settings.copies + 1)
        places = _places(anchors, rows, generator)
        if places is None:
            shown = anchors.inputs.expand(rows, *anchors.inputs.shape)
        else:
            shown = anchors.inputs[places.to(anchors.inputs.device)]
        return torch.cat([shown[:rounds], self.augment(shown[rounds:].contiguous(), generator)])

    def _known_copies(self, anchors: AnchorSet, known: Tensor, generator: Generator) -> Embedded:
        """Each copy is one of the views that were embedded before training: known `[views, M, D]` -> `[A, V, D]`."""
        rows = self.settings.copies + 1
        places = _places(anchors, rows, generator)
        if places is None:
            places = torch.arange(known.shape[1]).expand(rows, -1)
        views = torch.randint(1, len(known), places.shape, generator=generator)
        views[0] = 0  # the original
        return Embedded(known[views.to(known.device), places.to(known.device)])


def _places(anchors: AnchorSet, rows: int, generator: Generator) -> Tensor | None:
    """Which anchor shows each primitive, `[A, V]`; None where each has one."""
    _, counts = anchors.anchored()  # [V]
    if len(counts) == len(anchors.inputs):
        return None
    drawn = torch.rand(rows, len(counts), generator=generator)
    return counts.cumsum(0) - counts + (drawn * counts).long()
