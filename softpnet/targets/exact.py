"""Exact: the marginals of all feasible assignments, by one sweep over the compiled rule; nothing is left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from softpnet.errors import TaskError
from softpnet.rules.compile import check_known, compilation, is_total, known_labels
from softpnet.rules.diagram import CompiledRule
from softpnet.rules.labels import check_entries_known, unique_labels
from softpnet.rules.noise import label_count, noisy_marginals
from softpnet.targets.source import Info, Query, State, TargetSource
from softpnet.task.concepts import ConceptSpace
from softpnet.task.settings import Settings
from softpnet.task.task import Task

ASKED = 1000
"""Labels from which it is estimated how often each value occurs."""
FASTEST, ENOUGH = 0.1, 64
"""How often values are read is a running mean: of ten steps, or of so many readings per value if those are more."""
SLACK = 1.5
"""No value gains or loses that is read up to so many times more or less often than expected: pushed without need,
Kand-Logic's shapes were not learned at all."""
UNREAD = 0.01
"""A value that is never read counts as read this often, times its even share."""


@dataclass
class Usage(State):
    """How often every value was read of late, each concept's together with those of its kind."""

    usage: Tensor  # [k, h]

    def check(self) -> None:
        if not ((self.usage >= 0) & (self.usage <= 1 + 1e-6)).all():
            raise ValueError("its shares of values are outside what they can be")


class Source(TargetSource):
    """The tempered marginal over all of S(y).

    A rule may leave it open which of two values an image shows, and a network then likes to call them all one. With
    `balance`, a value that is read far less often than the labels let expect gains in every score, and a value that is
    read far more often loses: p(v) counts times expected(v) / read(v), brought nearer to 1 by the slack.

    With `label_noise` the rest of the space takes part, by how likely it is that the label is wrong. One that no
    assignment has is wrong for certain: the rest is all of the space.
    """

    anywhere = True
    balances = doubts_labels = True
    rule: CompiledRule
    impossible = 0  # examples whose label no assignment has
    expected: Tensor  # [k, h], how often values occur where all assignments of S(y) are equally likely

    def __init__(self, task: Task, settings: Settings, generator: Generator) -> None:
        super().__init__(task, settings, generator)
        found = compilation(task)
        if found.rule is None:
            raise TaskError(
                f"targets='exact' needs a compiled rule, but that of task {task.name!r} is {found}; "
                "targets='auto' takes what there is"
            )
        self.rule = found.rule
        self.sizes = torch.tensor(task.space.sizes, dtype=torch.float64)[:, None]  # [k, 1]
        kinds = torch.tensor(concept_kinds(task.space))
        self.alike = (kinds[:, None] == kinds).double()  # [k, k], concepts that are read from one prototype table

    def start(self, labels: Tensor) -> State:
        if self.settings.label_noise:
            label_count(self.rule)
            check_entries_known(self.task, labels, "label_noise", "set label_noise to 0")
        labels = self._possible(labels)
        if not self.settings.balance:
            return State()
        asked = self._typical(labels.cpu())
        possible = torch.arange(self.task.space.h) < self.sizes  # [k, h]
        even = torch.where(possible, -self.sizes.log(), -torch.inf).expand(len(asked), -1, -1)
        self.expected = self._pooled(self.rule.marginals(even, asked, 1.0))
        return Usage(self.expected.clone())

    def _possible(self, labels: Tensor) -> Tensor:
        """Those that some assignment has; the others are refused, unless labels may be wrong: then they surely are."""
        known = known_labels(self.task, labels)
        if not (self.settings.label_noise and known.any() and is_total(self.task)):
            check_known(self.task, labels)
        self.impossible = int((~known).sum())
        return labels[known]

    def _typical(self, labels: Tensor) -> Tensor:
        """About `ASKED` labels, each as often as batches have it, in whatever order the examples stand."""
        distinct, own = unique_labels(labels)
        if self.settings.balanced_labels:
            return distinct[:: max(1, len(distinct) // ASKED)]
        by_label = own.argsort(stable=True)
        return labels[by_label[:: max(1, len(labels) // ASKED)].sort().values]

    def target(self, state: State, query: Query, generator: Generator) -> tuple[Tensor, Info]:
        if isinstance(state, Usage):
            shares, examples = self._read(query.log_p)
            readings = examples * self.alike.sum(1, keepdim=True)
            pace = (readings / (ENOUGH * self.sizes)).clamp_max(FASTEST)  # [k, 1]
            state.usage.lerp_(shares, pace)
            unread = UNREAD / self.sizes
            gain = functional.softshrink(((self.expected + unread) / (state.usage + unread)).log(), math.log(SLACK))
            query = query._replace(log_p=query.log_p + self.settings.balance * gain.to(query.log_p))
        return self.marginals(query), {}

    def marginals(self, query: Query) -> Tensor:
        """The target `[B, k, h]` of what is read, once balanced."""
        if self.settings.label_noise:
            return noisy_marginals(self.rule, query.log_p, query.labels, self.settings.label_noise, query.gamma)
        return self.rule.marginals(query.log_p, query.labels, self.settings.target_gamma(query.gamma))

    def notes(self) -> list[str]:
        return [f"targets: exact; the rule is {compilation(self.task)}", *self.wrong_notes()]

    def wrong_notes(self) -> list[str]:
        """What is to be said of labels that no assignment has."""
        some = f"{self.impossible:,} examples have a label that no assignment has: it counts as wrong for certain"
        return [some] if self.impossible else []

    def _read(self, log_p: Tensor) -> tuple[Tensor, int]:
        """Shares of the values in a batch `[B, k, h]`, pooled, and of how many examples; of all processes'."""
        if self.together is None:
            return self._pooled(log_p.exp()), len(log_p)
        sums = log_p.exp().double().sum(0).flatten()
        total = self.together.sum(torch.cat([sums, sums.new_tensor([len(log_p)])]))
        return self._pooled((total[:-1] / total[-1]).view(1, *log_p.shape[1:])), int(total[-1])

    def _pooled(self, shares: Tensor) -> Tensor:
        """Shares of the values in every example `[B, k, h]`, on average over the concepts of a kind, `[k, h]`."""
        return (self.alike / self.alike.sum(1, keepdim=True)) @ shares.double().mean(0)


def concept_kinds(space: ConceptSpace) -> list[int]:
    """A number for every concept `[k]`: the same where they are the same attribute of the same group."""
    kinds: list[int] = []
    for group in space.groups:
        first = 1 + max(kinds, default=-1)
        kinds += [*range(first, first + len(group.values))] * len(group.slots)
    return kinds
