"""Scenes of 3 figures with 3 objects; valid (1) where the figures agree in repetition type of shape or of colour."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor

from softpnet.data import shapes
from softpnet.errors import InputError
from softpnet.rules.machine import Machine
from softpnet.rules.moves import change_one, switch_one
from softpnet.task.concepts import ConceptSpace
from softpnet.task.data import Anchors, Data, Examples
from softpnet.task.options import check_count
from softpnet.task.task import Corruption, Rows, Task

# 9 objects, figure after figure, each with a shape and a colour; primitive id = 3 * shape + colour
SPACE = ConceptSpace(slots=9, values=(3, 3), value_names=(shapes.SHAPES, shapes.COLOURS))
SIZES = torch.tensor(SPACE.sizes)

PAPER = dict(
    epochs=20,
    batch_size=64,
    targets="cache",
    halve_every=3,
    weight_decay=1e-4,
    copies=3,
    working_set=20,
    draw_factor=1000,
    target="soft",
    rule_weight=1.0,
    rule_delay=3,
    rule_ramp=5,
    warmup_steps=100,
)


def agreements(c: Tensor, figures: int = 3, objects: int = 3) -> Tensor:
    """For shape and for colour: do the figures have one repetition type? `[..., figures * objects * 2] -> [..., 2]`."""
    types = repetition_types(c.unflatten(-1, (figures, objects, 2)))  # [..., figures, 2]
    return (types == types[..., :1, :]).all(-2)


def repetition_types(figure: Tensor) -> Tensor:
    """Number of equal pairs among the objects, for shape and for colour: `[..., objects, 2] -> [..., 2]`.

    Of three objects: none, all distinct; one, exactly two equal; three, all equal.
    """
    each = figure.unbind(-2)  # per object [..., 2]
    return torch.stack([one == other for one, other in itertools.combinations(each, 2)]).sum(0)


def label(c: Tensor) -> Tensor:
    return agreements(c).any(-1).long()


def step(states: Tensor, concept: int, values: Tensor) -> Tensor:
    """The rule, object after object: `[S, 6]` holds the shapes and the colours of the figure's first two objects, and
    one more than the first figure's repetition types, 0 once another figure has another."""
    figure, seen, attribute = concept // 6, concept % 6 // 2, concept % 2
    first, second, kind = 2 * attribute, 2 * attribute + 1, 4 + attribute
    if seen < 2:
        states[:, first + seen] = values
        return states
    each = torch.stack([states[:, first], states[:, second], values], 1)  # [S, 3]
    found = repetition_types(each[..., None])[:, 0] + 1
    states[:, kind] = found if figure == 0 else torch.where(states[:, kind] == found, found, 0)
    states[:, [first, second]] = 0
    return states


RULE = Machine((0,) * 6, step, lambda states: (states[:, 4:] > 0).any(1).long(), rule=label)


def sample(count: int, wanted: int, generator: Generator) -> Tensor:
    """Scenes with one label, exactly uniform by rejection: `[count, 18]`."""
    found = torch.zeros(0, SPACE.k, dtype=torch.int64)
    while len(found) < count:
        # slightly more than half of all scenes are valid
        scenes = torch.randint(3, (2 * (count - len(found)) + 64, SPACE.k), generator=generator)
        found = torch.cat([found, scenes[label(scenes) == wanted]])
    return found[:count]


def corrupt(rows: Tensor, generator: Generator) -> Tensor:
    """phi: switch an attribute of a random object, drawn again until the rule says invalid.

    A scene that agrees in shape *and* in colour cannot be broken by one switch, so it gets two.
    """
    flat = rows.flatten(0, -2)  # [M, 18]
    result = flat.clone()
    twice = agreements(flat).all(-1)
    open_rows = torch.arange(len(flat), device=rows.device)
    while len(open_rows):
        proposal = change_one(flat[open_rows], SIZES, generator)
        again = change_one(proposal, SIZES, generator)
        proposal = torch.where(twice[open_rows, None], again, proposal)
        result[open_rows] = proposal
        open_rows = open_rows[label(proposal) == 1]
    return result.view(rows.shape)


def task(
    crop: Literal["box", "window"] = "box",
    train: int = 3000,
    test: int = 1000,
    cached: int = 200_000,
    anchors: int = 1,
    split: Literal["test", "validation"] = "test",
) -> Task:
    """The task.

    Args:
        crop: "box" cuts each object out by its bounding box; "window" is a fixed window without rescaling, harder.
        train: training scenes, half of them valid.
        test: test scenes, half of them valid.
        cached: rows of the cache per label.
        anchors: the first so many objects of each primitive; the rule cannot tell shapes or colours apart.
        split: "validation" judges on other scenes than the test set, for choosing settings.
    """
    for name, value in {"train": train, "test": test, "cached": cached, "anchors": anchors}.items():
        check_count(name, value)

    def rows(generator: Generator) -> Rows:
        both = torch.cat([sample(cached, wanted, generator) for wanted in (0, 1)])
        return Rows(both, complete=torch.zeros(0, dtype=torch.int64))

    def data(streams: Callable[[str], Generator]) -> Data:
        seen = _examples(train, crop, streams("train data"))
        return Data(seen, first_of_each(seen, anchors), {"test": _examples(test, crop, streams(f"{split} data"))})

    return Task(
        space=SPACE,
        rule=RULE,
        name="kand_logic",
        rows=rows,
        move=switch_one(SPACE, label),
        corrupt=Corruption(label=0, source=1, apply=corrupt),
        data=data,
        background=1.0,
        settings=dict(epochs=4, batch_size=32),
        presets={"paper": PAPER},
    )


def first_of_each(examples: Examples, each: int = 1) -> Anchors:
    """The first objects of each primitive, in the order of the training scenes."""
    assert examples.concepts is not None
    primitive = SPACE.primitives(examples.concepts)[0].flatten()  # [N * 9]
    shows = primitive == torch.arange(9)[:, None]  # [9, N * 9]
    so_far = shows.cumsum(1)
    missing = (so_far[:, -1] < each).nonzero().flatten().tolist()
    if missing:
        name, there = SPACE.groups[0].primitive_names[missing[0]], int(so_far[missing[0], -1])
        few = f"training scenes show a {name} {there} times" if there else f"no training scene shows a {name}"
        raise InputError(f"{few}, expected {each} for its anchors; make option train larger")
    primitives, places = (shows & (so_far <= each)).nonzero().T  # [9 * each] both
    return Anchors(examples.inputs.flatten(0, 1)[places], primitives)


def _examples(count: int, crop: Literal["box", "window"], generator: Generator) -> Examples:
    half = count // 2
    scenes = torch.cat([sample(half, 1, generator), sample(count - half, 0, generator)])
    scenes = scenes[torch.randperm(count, generator=generator)]
    shape, colour = scenes.unflatten(1, (3, 3, 2)).unbind(-1)  # [N, 3, 3] each
    images = shapes.crops(shape, colour, shapes.layout(count, generator), generator, crop)
    return Examples(images, label(scenes), scenes)
