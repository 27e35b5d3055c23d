"""What the page's explorer shows of some test examples: inputs, distributions, nearest anchors, feasible readings."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softpnet.learner import Learner
from softpnet.networks.reader import Prediction
from softpnet.report.rule_facts import RuleFacts
from softpnet.report.samples import label_text
from softpnet.report.thumbnails import thumbnails
from softpnet.rules.confidence import asked
from softpnet.rules.diagram import Diagram
from softpnet.rules.labels import satisfied, unknown_in
from softpnet.rules.solvers import Listed
from softpnet.targets.kbest import most_probable
from softpnet.task.data import Examples
from softpnet.task.integers import any_entry
from softpnet.task.task import Task

NEAREST, BEST, POOL = 3, 6, 512
LOWEST = -60.0
"""No log p is written as less."""
NUMBERS = 150_000
"""So many log p are in a page: more would fill it."""
AT_ONCE = 16
MOST_ANCHORS = 300
"""Of a group: so many have a picture."""


def explored(
    model: Learner, examples: Examples, found: Prediction, rule: RuleFacts, count: int, budget: int
) -> tuple[dict[str, Any], Tensor]:
    """All that the explorer needs, pictures within a budget of bytes; and which examples these are, `[M]`."""
    space, log_p = model.task.space, found.probabilities.log()  # [N, k, h]
    loss, sure = _loss(examples, log_p, rule), found.probabilities.amax(-1).amin(1)  # [N]
    right = ~any_entry((found.labels != examples.labels) & ~unknown_in(model.task, examples.labels))  # [N]
    if examples.concepts is None:
        loss = torch.where(right, loss, loss + 1e6)  # a wrong label first
    chosen, how = _chosen(loss, sure, min(count, max(10, NUMBERS // (space.k * space.h))))
    inputs, labels = examples.inputs[chosen], examples.labels[chosen]
    anchors = [own.inputs[:MOST_ANCHORS] for own in model.anchors]
    pictures = thumbnails(torch.cat([inputs.flatten(0, 1).to(anchors[0].dtype), *anchors]), budget)
    shown: dict[str, Any] = {
        "how": how,
        "id": chosen.tolist(),
        "label": list(map(label_text, labels)),
        "said": list(map(label_text, found.labels[chosen])),
        "right": right[chosen].tolist(),
        "read": found.concepts[chosen].tolist(),
        "truth": None if examples.concepts is None else examples.concepts[chosen].tolist(),
        "loss": [round(value, 4) for value in loss[chosen].tolist()],
        "sure": [round(value, 4) for value in sure[chosen].tolist()],
        "log_p": _plain(log_p[chosen], space.sizes),
        "inputs": [pictures[at : at + space.slots] for at in range(0, len(chosen) * space.slots, space.slots)],
        "near": nearest(model, inputs, anchors),
    }
    at = len(chosen) * space.slots
    shown["anchors"] = []
    for own, group in zip(anchors, model.anchors, strict=True):
        values = group.primitives[:MOST_ANCHORS].tolist()
        shown["anchors"].append([{**pictures[at + i], "primitive": value} for i, value in enumerate(values)])
        at += len(own)
    return shown | _without_diagram(model.task, log_p[chosen], labels, found.concepts[chosen], rule), chosen


def _loss(examples: Examples, log_p: Tensor, rule: RuleFacts) -> Tensor:
    """How badly each example is read, `[N]`: -log p of its true concepts, or else -log P(y|x)."""
    if examples.concepts is not None:
        return -log_p.gather(2, examples.concepts[..., None]).clamp_min(LOWEST).sum((1, 2))
    found = None if rule.rule is None else asked(rule.rule.log_prob, log_p, examples.labels)
    return torch.zeros(len(log_p)) if found is None else -found.clamp_min(LOWEST)


def _chosen(loss: Tensor, sure: Tensor, count: int) -> tuple[Tensor, str]:
    """Some examples: half of them the worst, a quarter the least certain others, the rest spread over all."""
    total = len(loss)
    if total <= count:
        return torch.arange(total), f"all {total:,} test examples"
    worst = loss.argsort(descending=True, stable=True)[: count // 2]
    rest = torch.ones(total, dtype=torch.bool)
    rest[worst] = False
    others = rest.nonzero().flatten()
    unsure = others[sure[others].argsort(stable=True)[: count // 4]]
    rest[unsure] = False
    others = rest.nonzero().flatten()
    spread = others[torch.linspace(0, len(others) - 1, count - len(worst) - len(unsure)).long()]
    said = (
        f"{count:,} of {total:,} test examples: the {len(worst)} worst, the {len(unsure)} least certain of the others, "
    )
    return torch.cat([worst, unsure, spread]).sort().values, said + f"and {len(spread)} spread evenly over the rest"


@torch.inference_mode()
def nearest(model: Learner, inputs: Tensor, anchors: list[Tensor]) -> list[list[list[list[float]]]]:
    """Per example and concept group's slot, one after the other: the nearest anchors, as [number, distance]."""
    embedded = anchor_embeddings(model, anchors)
    rows: list[list[list[list[float]]]] = [[] for _ in range(len(inputs))]
    for slots, own in zip(model.embed(inputs), embedded, strict=True):
        far = torch.cdist(slots.double(), own.double())  # [B, n_g, M]
        least, which = far.topk(min(NEAREST, far.shape[2]), largest=False)
        for row, numbers, distances in zip(rows, which.tolist(), least.tolist(), strict=True):
            row += [
                [[number, round(distance, 3)] for number, distance in zip(*slot, strict=True)]
                for slot in zip(numbers, distances, strict=True)
            ]
    return rows


@torch.inference_mode()
def anchor_embeddings(model: Learner, anchors: list[Tensor]) -> list[Tensor]:
    """Anchors `[M, *shape]` of each group as its encoder sees them, `[M, D]`."""
    assert model.module is not None
    empty = anchors[0].new_zeros(0, model.task.space.slots, *anchors[0].shape[1:])
    _, embedded = model.module.embed_with_anchors(empty, [own[None] for own in anchors])
    return [own[0] for own in embedded]


def _without_diagram(task: Task, log_p: Tensor, labels: Tensor, read: Tensor, rule: RuleFacts) -> dict[str, Any]:
    """Which leaves have an example's label; without a diagram in the page, what Python answers in its place."""
    if rule.diagram is not None:
        assert isinstance(rule.rule, Diagram)
        matches = rule.rule.index.matches(labels)  # [L, M]
        return {"leaves": [column.nonzero().flatten().tolist() for column in matches.T]}
    rows, valid, weights, said = _best(task, log_p, labels, rule)
    best = [
        [[row, round(weight, 4)] for row, there, weight in zip(*each, strict=True) if there]
        for each in zip(rows.tolist(), valid.tolist(), weights.tolist(), strict=True)
    ]
    asks_solver = isinstance(task.rule, Listed) and rule.rule is None
    return {"best": best, "best_said": said, "changed": None if asks_solver else _changed(task, read)}


def _best(task: Task, log_p: Tensor, labels: Tensor, rule: RuleFacts) -> tuple[Tensor, Tensor, Tensor, str]:
    """The best rows `[M, K, k]` with the label, which exist `[M, K]`, their weights, and among what."""
    if rule.rule is not None:
        total = asked(rule.rule.log_prob, log_p, labels)
        if total is not None:
            parts = zip(log_p.split(AT_ONCE), labels.split(AT_ONCE), strict=True)
            found = [rule.rule.best(*part, BEST) for part in parts]
            rows, valid = (torch.cat(each) for each in zip(*found, strict=True))
            return rows, valid, (_score(log_p, rows) - total[:, None]).exp(), "exact"
    pool = most_probable(log_p, task.space.sizes, POOL)  # [M, T, k]
    solver = isinstance(task.rule, Listed) and rule.rule is None  # asking it of so many rows could take minutes
    fits = torch.zeros(pool.shape[:2], dtype=torch.bool) if solver else satisfied(task, pool, labels)  # [M, T]
    place = (~fits).int().argsort(dim=1, stable=True)[:, :BEST]  # the first that fit, in order
    rows, valid = pool.gather(1, place[..., None].expand(-1, -1, pool.shape[2])), fits.gather(1, place)
    weights = _score(log_p, rows).masked_fill(~valid, -math.inf).softmax(1).nan_to_num()
    return rows, valid, weights, f"found among the {pool.shape[1]:,} most probable assignments"


def _score(log_p: Tensor, rows: Tensor) -> Tensor:
    """log p(c|x) of rows `[M, K, k]`: `[M, K]`."""
    return log_p[:, None].expand(-1, rows.shape[1], -1, -1).gather(3, rows[..., None]).sum((2, 3))


def _changed(task: Task, read: Tensor) -> list[list[list[str]]]:
    """The label if one concept of the reading `[M, k]` had another value: per example, concept and value."""
    found = []
    for i, size in enumerate(task.space.sizes):
        rows = read[:, None].repeat(1, size, 1)  # [M, h_i, k]
        rows[..., i] = torch.arange(size)
        found.append([[label_text(label) for label in each] for each in task.rule(rows)])
    return [list(each) for each in zip(*found, strict=True)]


def _plain(log_p: Tensor, sizes: tuple[int, ...]) -> list[list[list[float]]]:
    lists = log_p.clamp_min(LOWEST).tolist()
    return [[[round(v, 3) for v in row[:h]] for row, h in zip(each, sizes, strict=True)] for each in lists]
