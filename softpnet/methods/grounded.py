"""Part of the methods that pull the network towards feasible candidates."""

from __future__ import annotations

from torch import Generator, Tensor

from softpnet.methods import base, schedules
from softpnet.methods.base import Batch, Clock, Streams
from softpnet.rules import scoring
from softpnet.targets import weights as targets
from softpnet.targets.choose import choose_source
from softpnet.targets.source import CandidateSource, Query, State


class Grounded(base.Method):
    """Candidates of every example, scored by log p and weighted into a target."""

    source: CandidateSource

    def start(self, labels: Tensor, streams: Streams) -> State:
        self.source = choose_source(self.task, self.settings, streams("cache"))
        return self.source.start(labels)

    def gamma(self, clock: Clock) -> float:
        """The temperature of the walk and of the target."""
        settings = self.settings
        return schedules.exponential(settings.gamma, settings.gamma_decay, settings.gamma_floor)(clock.epoch)

    def target(
        self, state: State, batch: Batch, log_p: Tensor, clock: Clock, gamma: float, generator: Generator
    ) -> tuple[Tensor, State, dict[str, float]]:
        """The soft target `[B, k, h]` of a batch, from candidates scored by log p `[B, k, h]`."""
        query = Query(batch.ids.cpu(), batch.labels.cpu(), log_p.cpu(), clock.epoch, gamma)
        candidates, state, info = self.source.candidates(state, query, generator)
        scores = scoring.scores(query.log_p, candidates.rows)  # [B, K]
        weights = targets.weights(scores, candidates.valid, self.settings.target_gamma(gamma))
        return targets.soft_target(candidates.rows, weights, self.task.space.h).to(log_p.device), state, info
