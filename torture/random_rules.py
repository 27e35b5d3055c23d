"""Random rules: every question to a compiled rule, held against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from softpnet.rules.compile import compilation
from softpnet.rules.diagram import Diagram
from softpnet.rules.table import from_table
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.rows import Rows
from softpnet.task.task import Task
from torture.subject import Result

GAMMAS = (1.0, 0.3, 0.01)
MOST = 30
"""So many of the best assignments are asked for, at most."""
NOWHERE = 99
"""A label that no assignment has."""


def rules(count: int = 2000, first: int = 0) -> Result:
    promise = "counts, sums, marginals, best assignments and samples as brute force has them, to 1e-12 (single: 1e-6)"
    result = Result("random rules, up to 4,096 assignments", promise)

    @seed(first)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(problems(), st.sampled_from(GAMMAS), st.integers(1, MOST))
    def one(problem: Problem, gamma: float, best: int) -> None:
        result.add([f"{problem}: {fault}" for fault in problem.faults(gamma, best)])

    one()
    return result


class Problem:
    """A random rule over at most 4,096 assignments, its diagram in a random order, and a batch to ask about.

    The diagram comes from a table of all assignments, or from rows that are listed up to three times each.
    """

    def __init__(
        self, sizes: Sequence[int], labels: int, vector: tuple[int, ...], levels: int, listed: bool, number: int
    ) -> None:
        self.told = f"{sizes=} {labels=} {vector=} {levels=} {listed=} {number=}"
        self.generator = generator = Generator().manual_seed(number)
        self.space = space = ConceptSpace(*[Group((i,), h, name=str(i)) for i, h in enumerate(sizes)])
        self.every = space.all()  # [M, k]
        self.labels = torch.randint(labels, (space.size, *vector), generator=generator)
        self.order = torch.randperm(space.k, generator=generator).tolist()
        self.diagram = self.from_repeated_rows() if listed else from_table(space, self.rule, self.order)
        raw = torch.randint(levels, (4, space.k, space.h), generator=generator).double()
        beyond = torch.arange(space.h) >= torch.tensor(sizes)[:, None]
        self.log_p = raw.masked_fill(beyond, -torch.inf).log_softmax(-1)
        self.asked = self.labels[torch.randint(space.size, (4,), generator=generator)]
        self.asked[-1] = NOWHERE
        self.differs = (self.labels[:, None] != self.asked).reshape(space.size, 4, -1).any(-1).T  # [B, M]
        self.place = self.every.T.expand(4, -1, -1)  # [B, k, M]
        self.scores = self.log_p.gather(2, self.place).sum(1).masked_fill(self.differs, -torch.inf)  # [B, M]

    def __repr__(self) -> str:
        return self.told

    def rule(self, rows: Tensor) -> Tensor:
        return self.labels[self.space.keys(rows)]

    def from_repeated_rows(self) -> Diagram:
        """Compiled from a list that leaves out rows of the first assignment's label, which all others then have."""
        times = torch.randint(1, 4, (self.space.size,), generator=self.generator)
        left_out = (self.labels == self.labels[0]).reshape(self.space.size, -1).all(1)
        times *= ~left_out | (torch.rand(self.space.size, generator=self.generator) < 0.3)
        times[0] += 1
        rows = self.every.repeat_interleave(times, 0)
        rows = rows[torch.randperm(len(rows), generator=self.generator)]
        listed = Rows(rows, labels=self.rule(rows), other=self.labels[0].tolist())
        diagram = compilation(Task(self.space, listed, order=self.order)).rule
        assert isinstance(diagram, Diagram)
        return diagram

    def marginals(self, gamma: float) -> Tensor:
        weight = (self.scores / gamma).softmax(1).nan_to_num(0.0)  # [B, M]
        weights = weight[:, None].expand(self.place.shape)
        return torch.zeros_like(self.log_p).scatter_add_(2, self.place, weights)

    def faults(self, gamma: float, count: int) -> list[str]:
        """What a diagram says otherwise than brute force."""
        diagram, log_p, asked, space = self.diagram, self.log_p, self.asked, self.space
        counts = (~self.differs).sum(1)
        single = diagram.marginals(log_p.float(), asked, 1.0)
        rows, exists = diagram.best(log_p, asked, count)
        mine = log_p.gather(2, rows.transpose(1, 2)).sum(1).masked_fill(~exists, -torch.inf)
        best = self.scores.sort(dim=1, descending=True).values[:, :count]
        keys = torch.where(exists, space.keys(rows), -1 - torch.arange(rows.shape[1])).sort(1).values
        known = asked[:-1].repeat_interleave(5, 0)
        first = diagram.contains(self.every, asked[0].expand(self.labels.shape))
        wanted = asked[:, None].expand(*rows.shape[:2], *asked.shape[1:])
        checks: dict[str, Any] = {
            "count": diagram.count(asked) == counts.tolist(),
            "knows": torch.equal(diagram.knows(asked), counts > 0),
            "contains": torch.equal(first, ~self.differs[0]),
            "log P": torch.allclose(diagram.log_prob(log_p, asked), self.scores.logsumexp(1), rtol=0, atol=1e-12),
            "marginals": (diagram.marginals(log_p, asked, gamma) - self.marginals(gamma)).abs().max() <= 1e-12,
            "marginals in single": (single - self.marginals(1.0)).abs().max() <= 1e-6 and single.dtype == torch.float32,
            "best, how many": torch.equal(exists.sum(1), counts.clamp_max(count)),
            "best, scores": torch.allclose(mine, best, rtol=0, atol=1e-9),  # ties may come in any order
            "best, distinct": (keys[:, 1:] != keys[:, :-1]).all(),
            "best, feasible": diagram.contains(rows, wanted)[exists].all(),
            "samples": torch.equal(self.rule(diagram.sample(known, self.generator)), known),
        }
        return [name for name, fine in checks.items() if not fine]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    return Problem(
        sizes=draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)),
        labels=draw(st.integers(1, 4)),
        vector=draw(st.sampled_from([(), (1,), (2,)])),
        levels=draw(st.sampled_from([1, 2, 3, 1000])),  # few levels: many ties
        listed=draw(st.booleans()),
        number=draw(st.integers(0, 2**31)),
    )
