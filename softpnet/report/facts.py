"""All that a report shows of one run, as plain values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor

from softpnet.learner import Learner
from softpnet.metrics import BINS, parts
from softpnet.networks.reader import Prediction
from softpnet.report.explorer import anchor_embeddings, explored
from softpnet.report.judge import scores
from softpnet.report.plane import flattened, middles, placeable_prototypes
from softpnet.report.remarks import SUSPICIOUS_GAP, remarks, worst_gap
from softpnet.report.rule_facts import rule_facts
from softpnet.report.verdict import GOOD, verdict
from softpnet.report.watching import unwatched
from softpnet.rules.confidence import label_probabilities
from softpnet.rules.labels import unknown_in
from softpnet.task.data import Examples
from softpnet.task.integers import any_entry
from softpnet.training.config import Config

MAP_POINTS, MAP_ANCHORS = 500, 100
"""Of a group, in its map."""
LARGEST_MATRIX = 60
"""A larger confusion matrix is left out; its mistakes are still listed."""
MISTAKES = 12


class RunFacts(NamedTuple):
    facts: dict[str, Any]
    metrics: Mapping[str, float]  # of the first test set
    examples: int  # of it
    diagram: dict[str, Any] | None


def run_facts(
    model: Learner, tests: Mapping[str, Examples], config: Config, name: str, count: int, budget: int
) -> RunFacts:
    """Of a trained model, at most so many examples of the first test set, with pictures of so many bytes at most."""
    space = model.task.space
    metrics = scores(model, tests)
    split, examples = next(iter(tests.items()))
    found = model.predict(examples.inputs)
    rule = rule_facts(model.task, config.compiled is not None and config.compiled.how != "not compiled")
    shown, chosen = explored(model, examples, found, rule, count, budget)
    done, asked = len(model.history), model.settings.epochs
    unfinished = f"Training was stopped after {done} of {asked} epochs. " if model.interrupted else ""
    gap = worst_gap(model, metrics[split])
    facts = {
        "name": name,
        "task": model.task.name,
        "method": model.method,
        "seed": model.seed,
        "verdict": verdict(metrics[split], gap, len(examples.labels), unfinished),
        "good": not unfinished and gap <= SUSPICIOUS_GAP and metrics[split]["label_accuracy"] >= GOOD,
        "remarks": remarks(model, tests, metrics),
        "split": split,
        "count": len(examples.labels),
        "metrics": metrics,
        "groups": [
            {
                "name": group.name,
                "slots": list(group.slots),
                "values": [list(names) for names in group.value_names],
                "primitives": group.primitive_names,
            }
            for group in space.groups
        ],
        "confusion": _confusions(model, found.concepts, examples.concepts),
        "calibration": _calibrations(model, examples, found),
        "history": [{key: _finite(value) for key, value in epoch.items()} for epoch in model.history],
        "unwatched": unwatched(config, model.history, examples.concepts is not None),
        "maps": _maps(model, examples, found, chosen),
        "rule": rule.facts,
        "config": _config_facts(config),
        "explorer": shown,
    }
    return RunFacts(facts, metrics[split], len(examples.labels), rule.diagram)


def _confusions(model: Learner, read: Tensor, true: Tensor | None) -> list[dict[str, Any]]:
    """Per attribute of each group: how often each value `[h]` was read as each."""
    if true is None:
        return []
    found = []
    for part in parts(model.task.space):
        names = model.task.space.groups[part.group].value_names[part.attribute]
        seen, truth = (part.of(model.task.space, each).flatten() for each in (read, true))
        counts = (truth * len(names) + seen).bincount(minlength=len(names) ** 2).view(len(names), -1)  # [h, h]
        wrong = counts.clone().fill_diagonal_(0).flatten()
        worst = wrong.argsort(descending=True, stable=True)[:MISTAKES]
        mistakes = [[int(at) // len(names), int(at) % len(names), int(wrong[at])] for at in worst if wrong[at] > 0]
        matrix = counts.tolist() if len(names) <= LARGEST_MATRIX else None
        shown, hit, told = counts.sum(1).tolist(), counts.diagonal().tolist(), counts.sum(0).tolist()
        found.append({"name": part.name, "values": list(names), "counts": matrix, "mistakes": mistakes})
        found[-1] |= {"shown": shown, "hit": hit, "told": told}
    return found


def _calibrations(model: Learner, examples: Examples, found: Prediction) -> dict[str, list[list[float]]]:
    """Per kind, bins of equal confidence that hold anything: [how many, mean confidence, share that is right]."""
    made = {}
    if examples.concepts is not None:
        made["concepts"] = _bins(found.probabilities.amax(-1), found.concepts == examples.concepts)
    sure = label_probabilities(model.task, found.labels, found.probabilities)
    unknown = unknown_in(model.task, examples.labels)
    whole = ~any_entry(unknown)
    if sure is not None and whole.any():
        made["labels"] = _bins(sure[whole], ~any_entry(found.labels != examples.labels)[whole])
    return made


def _bins(confidence: Tensor, right: Tensor) -> list[list[float]]:
    sure, hit = confidence.flatten().double(), right.flatten().double()
    bins = (sure * BINS).long().clamp(0, BINS - 1)
    sums = [torch.zeros(BINS, dtype=torch.float64).index_add_(0, bins, each) for each in (sure * 0 + 1, sure, hit)]
    return [[int(n), round(s / n, 4), round(h / n, 4)] for n, s, h in torch.stack(sums, 1).tolist() if n]


def _maps(model: Learner, examples: Examples, found: Prediction, chosen: Tensor) -> list[dict[str, Any]]:
    """Per group: test inputs, a star for each primitive and anchors in the plane, from 0 to 1000 each way.

    A star is at the prototype, or else in the middle of what is read as the primitive; None where nothing is.
    """
    space, prototypes = model.task.space, placeable_prototypes(model)
    anchors = [own.inputs[:MAP_ANCHORS] for own in model.anchors]
    embedded = anchor_embeddings(model, anchors)
    each = max(1, MAP_POINTS // max(len(group.slots) for group in space.groups))
    ids = torch.linspace(0, len(examples.labels) - 1, min(each, len(examples.labels))).long()
    place = {number: at for at, number in enumerate(chosen.tolist())}  # where the explorer has it
    seen = model.embed(examples.inputs[ids])
    truth = None if examples.concepts is None else space.primitives(examples.concepts[ids])
    read = space.primitives(found.concepts[ids])
    made = []
    for g, group in enumerate(space.groups):
        points = seen[g].flatten(0, 1)[:MAP_POINTS]
        stars = points[:0] if prototypes is None else prototypes[g]
        flat, how = flattened(torch.cat([points, stars, embedded[g]]).float().numpy(force=True), model.seed % 2**32)
        low, high = flat.min(0), flat.max(0)
        places = (flat - low) / (high - low).clip(1e-9) * 1000  # [M + P + A, 2]
        spots = places.round().astype(int).tolist()
        starred = places[len(points) : len(points) + len(stars)]
        if prototypes is None:
            starred = middles(places[: len(points)], read[g].flatten().numpy()[: len(points)], len(group.primitives))
        shown = torch.full_like(read[g], -1) if truth is None else truth[g]
        kinds = zip(shown.flatten().tolist(), read[g].flatten().tolist(), strict=True)
        whose = [place.get(number, -1) for number in ids.tolist() for _ in group.slots]
        made.append(
            {
                "how": how,
                "points": [[*s, *k, w] for s, k, w in zip(spots[: len(points)], kinds, whose, strict=False)],
                "stars_are_prototypes": prototypes is not None,
                "stars": [None if math.isnan(x) else [round(x), round(y)] for x, y in starred.tolist()],
                "anchors": [
                    [*spot, primitive]
                    for spot, primitive in zip(
                        spots[len(points) + len(stars) :], model.anchors[g].primitives.tolist(), strict=False
                    )
                ],
            }
        )
    return made


def _config_facts(config: Config) -> dict[str, Any]:
    """Every setting with who gave it, and what else the run's bits depend on. Of paths the last name only, since a
    report is shown around."""
    settings = dataclasses.asdict(config.settings)
    origin = None if config.origin is None else msgspec.to_builtins(config.origin)
    others: dict[str, Any] = {"task": config.task}
    if origin is not None:
        others |= {"task from": Path(origin["task"]).name} | {f"option {k}": v for k, v in origin["options"].items()}
    encoder = config.encoder if config.encoder is not None else "the task's, or the method's"
    others |= {"method": config.method, "preset": config.preset, "seed": config.seed, "encoder": encoder}
    if config.init is not None:
        others["first weights"] = Path(config.init.source).name
    others |= dataclasses.asdict(config.hardware) | config.versions | config.machine
    others |= {"data, sha256": config.data, "rule, sha256": config.rule}
    return {
        "settings": [[name, _text(value), config.given_by[name]] for name, value in settings.items()],
        "others": [[name, _text(value)] for name, value in others.items()],
    }


def _text(value: Any) -> str:
    return "" if value is None else Path(value).name if isinstance(value, str) and value[:1] == "/" else str(value)


def _finite(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
