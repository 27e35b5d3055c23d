"""Random small tasks: what holds for every task, tried on many."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from torch import Generator

from softpnet import ConceptSpace, Settings, Task
from softpnet import targets as sources
from softpnet.methods import losses
from softpnet.rules import scoring
from softpnet.targets import weights as targets
from softpnet.targets.source import CandidateSource, Query
from softpnet.task.concepts import row_keys
from torture.subject import Result

STEPS = 6
EXAMPLES = 12


def tasks(count: int = 1000, first: int = 0) -> Result:
    promise = "rows satisfy the rule, walks stay feasible, weights sum to 1, no NaN at gamma = 0.01 with log p = -1e4"
    result = Result("random small tasks", promise)

    @seed(first)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        slots=st.integers(1, 4),
        values=st.integers(2, 4),
        labels=st.integers(1, 5),
        number=st.integers(0, 2**40),
        source=st.sampled_from(["cache", "kbest"]),
        working_set=st.integers(1, 30),
        draw_factor=st.integers(1, 3),
        gamma=st.sampled_from([1.0, 0.1, 0.01]),
        extreme=st.booleans(),
    )
    def one(slots, values, labels, number, source, working_set, draw_factor, gamma, extreme):  # type: ignore[no-untyped-def]
        generator = Generator().manual_seed(number)
        task = _random_task(slots, values, labels, generator)
        chosen = Settings(targets=source, working_set=working_set, draw_factor=draw_factor)
        result.add([f"{slots=} {values=} {labels=} {number=} {source=}: {fault}"
                    for fault in _faults(task, chosen, gamma, extreme, generator)])  # fmt: skip

    one()
    return result


def _random_task(slots: int, values: int, labels: int, generator: Generator) -> Task:
    """A rule drawn from all rules: a table with a label for every assignment."""
    space = ConceptSpace(slots=slots, values=values)
    table = torch.randint(labels, (space.size,), generator=generator)
    return Task(space, lambda c: table[row_keys(c, space.sizes)], name="random")


def _faults(task: Task, chosen: Settings, gamma: float, extreme: bool, generator: Generator) -> list[str]:
    """Some encounters of some examples with a source, and what is wrong with them."""
    space = task.space
    true = space.all()[torch.randint(space.size, (EXAMPLES,), generator=generator)]
    labels = task.rule(true)
    source = sources.make(task, chosen, generator)
    assert isinstance(source, CandidateSource)
    state = source.start(labels)
    faults = []
    for step in range(STEPS):
        scale = 3e3 if extreme else 3.0
        log_p = (scale * torch.randn(EXAMPLES, space.k, space.h, generator=generator)).log_softmax(-1).clamp_min(-1e4)
        log_p.requires_grad_()
        query = Query(torch.arange(EXAMPLES), labels, log_p.detach(), step, gamma)
        candidates, _ = source.candidates(state, query, generator)
        fits = task.satisfies(candidates.rows, labels)
        weights = targets.weights(scoring.scores(query.log_p, candidates.rows), candidates.valid, gamma)
        target = targets.soft_target(candidates.rows, weights, space.h)
        losses.kl(target, log_p).backward()
        has = candidates.valid.any(1)
        checks = {
            "a candidate breaks the rule": (fits | ~candidates.valid).all(),
            "an example has no candidate": has.all(),
            "weights do not sum to 1": torch.allclose(weights.sum(1)[has], torch.ones(int(has.sum()))),
            "the target does not sum to 1": torch.allclose(target.sum(-1)[has], torch.ones(())),
            "weight lies on a candidate that is none": (weights.masked_select(~candidates.valid) == 0).all(),
            "NaN in weights or target": weights.isfinite().all() & target.isfinite().all(),
            "NaN in the gradient": log_p.grad.isfinite().all(),  # type: ignore[union-attr]
        }
        faults += [f"{name} in encounter {step}" for name, fine in checks.items() if not fine]
    return faults
