"""Probing: a diagram of a Python rule over a space that is too large for a table.

Two beginnings of an assignment are taken for the same node where they agree on every ending that is tried. The endings
come from random assignments and from known rows; what disagrees afterwards adds its own, and it begins again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from softpnet.rules.diagram import Diagram, NotCompiled
from softpnet.rules.labels import find_labels
from softpnet.rules.merge import check_budget, merged_diagram
from softpnet.task.concepts import ConceptSpace

ENDINGS = 256
"""Random assignments whose endings are tried at first."""
KNOWN = 1024
"""Known rows whose endings are tried too."""
CHECKS = 1_000_000
"""Fresh assignments that the diagram is checked on."""
ROUNDS = 6
"""So often it may begin again."""
QUESTIONS = 50_000_000
"""Assignments that the rule is asked about, at most, to grow one diagram."""
SEEN = 30
"""A label that fewer of the checks have, and no known row, is too rare to be sure of."""
AT_ONCE = 1_000_000

Rule = Callable[[Tensor], Tensor]


class Probed(NamedTuple):
    diagram: Diagram
    checks: int  # assignments on which it agrees with the rule, without one disagreement
    rare: int  # labels that were seen, but too rarely: their assignments count as of no known label


def probed(space: ConceptSpace, rule: Rule, order: Sequence[int], known: Tensor) -> Probed:
    """The diagram of a rule, as far as it can be told from outside; known rows `[M, k]` may be none."""
    generator = Generator().manual_seed(0)
    some = known[torch.randperm(len(known), generator=generator)[:KNOWN]]
    endings = torch.cat([_random_rows(space, ENDINGS, generator), some])
    for _ in range(ROUNDS):
        diagram = _grown(space, rule, order, endings)
        fresh = torch.cat([_random_rows(space, CHECKS, generator), known])
        labels = torch.cat([rule(part) for part in fresh.split(AT_ONCE)])
        wrong = ~diagram.contains(fresh, labels)
        if not wrong.any():
            return _without_rare(diagram, labels, known, len(fresh))
        endings = torch.cat([endings, fresh[wrong][:ENDINGS]])
    raise NotCompiled(
        f"probing found no diagram: after {ROUNDS} rounds {int(wrong.sum()):,} of {len(fresh):,} assignments still "
        "disagree; write the rule as a Machine, or give its rows"
    )


def _grown(space: ConceptSpace, rule: Rule, order: Sequence[int], endings: Tensor) -> Diagram:
    """Layer by layer: every node's one beginning is extended by every value, and equal ones are merged."""
    begun = endings[:1]  # [W, k], an assignment that leads to each node; only what has been read of it counts
    edges: list[Tensor] = []
    questions = 0
    for at, concept in enumerate(order):
        size = space.sizes[concept]
        longer = begun.repeat_interleave(size, 0)  # [W * h_i, k]
        longer[:, concept] = torch.arange(size).repeat(len(begun))
        tried = _distinct_endings(space, endings, order[at + 1 :])
        questions += len(longer) * len(tried)
        if questions > QUESTIONS:
            widths = " ".join(f"{len(layer):,}" for layer in edges)
            raise NotCompiled(
                f"probing would ask more than {QUESTIONS:,} questions (nodes per layer so far: {widths}): the rule has "
                "too many nodes to be found from outside; write it as a Machine, or use targets='kbest'"
            )
        node, one_of = _told_apart(rule, longer, tried, order[at + 1 :])
        edges.append(node.view(-1, size))
        begun = longer[one_of]
        check_budget([len(layer) for layer in edges])
    return merged_diagram(space, order, edges, rule(begun))


def _told_apart(rule: Rule, begun: Tensor, endings: Tensor, concepts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Which node each beginning `[M, k]` is `[M]`, by its labels with every ending of these concepts `[T, .]`; and one
    beginning of each node."""
    key = torch.zeros(len(begun), dtype=torch.int64)
    for part in endings.split(max(1, AT_ONCE // len(begun))):
        rows = begun[:, None].repeat(1, len(part), 1)  # [M, t, k]
        rows[..., list(concepts)] = part
        labels = rule(rows)
        labels = labels.reshape(len(begun), -1)  # [M, t] or [M, t * m]
        _, key = torch.cat([key[:, None], labels], 1).unique(dim=0, return_inverse=True)
    one_of = torch.zeros(int(key.max()) + 1, dtype=torch.int64).scatter(0, key, torch.arange(len(key)))
    return key, one_of


def _distinct_endings(space: ConceptSpace, endings: Tensor, concepts: Sequence[int]) -> Tensor:
    """What is tried behind a beginning `[T, .]`: all endings where they are few, so that nothing can be missed."""
    if not concepts:
        return endings[:1, []]
    if math.prod(space.sizes[concept] for concept in concepts) <= len(endings):
        axes = [torch.arange(space.sizes[concept]) for concept in concepts]
        return torch.cartesian_prod(*axes).reshape(-1, len(concepts))
    return endings[:, list(concepts)].unique(dim=0)


def _without_rare(diagram: Diagram, labels: Tensor, known: Tensor, checks: int) -> Probed:
    """Labels that hardly any check has are no longer told from each other."""
    found = find_labels(diagram.labels, labels)  # [N], all of them known
    often = found.bincount(minlength=len(diagram.labels)) >= SEEN
    if len(known):
        often[found[-len(known) :]] = True
    if often.all():
        return Probed(diagram, checks, 0)
    leaves = torch.where(often, often.cumsum(0) - 1, int(often.sum()))  # [L]
    edges = [*diagram.edges[:-1], leaves[diagram.edges[-1]]]
    return Probed(
        merged_diagram(diagram.space, diagram.order, edges, diagram.labels[often]), checks, int((~often).sum())
    )


def _random_rows(space: ConceptSpace, count: int, generator: Generator) -> Tensor:
    return (torch.rand(count, space.k, generator=generator) * torch.tensor(space.sizes)).long()
