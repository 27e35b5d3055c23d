"""Real driving scenes: 21 yes-or-no concepts are read from one image, and a rule gives the actions that are allowed.

The files are the usual preprocessed ones of BDD-OIA, 2,048 features per image; docs/examples.md says where they are:

softpnet train examples/bdd_oia.py --option bdd_oia=FOLDER     # which holds train_BDD_OIA.pkl
softpnet train examples/bdd_oia.py --option bdd_oia=FOLDER --label-noise 0.05    # some labels are wrong
"""

from typing import Literal

import bdd_oia_data as files
import torch

import softpnet as sp
from softpnet.task.options import check_count

FLAGS = torch.tensor([0, 1, 2, 3, 4, 5, 5, 5, 5] + [6] * 3 + [7] * 3 + [8] * 3 + [9] * 3)  # what a concept is a sign of
IMPOSSIBLE = 2  # all four entries of the label of concepts that exclude each other


def step(states, concept, values):
    """States [S] are the flags seen so far, a bit each: any of the four obstacles sets the same one."""
    return states | values << FLAGS[concept]


def label(states):
    """Flags [S] -> forward, stop, left, right [S, 4]. No light is green and red, no clear road has an obstacle."""
    flags = (states[:, None] >> torch.arange(10) & 1).bool()
    green, follow, clear, red, sign, obstacle, no_left, left, no_right, right = flags.unbind(-1)
    stop = red | sign | obstacle
    actions = torch.stack([(green | follow | clear) & ~stop, stop, left & ~no_left, right & ~no_right], -1).long()
    return torch.where(((green & red) | (clear & obstacle))[:, None], IMPOSSIBLE, actions)


def labelled(scenes, count, generator):
    """So many images of either value of every concept, drawn: anchors by group."""
    drawn = torch.randperm(len(scenes.features), generator=generator)
    anchors = {}
    for at, name in enumerate(files.CONCEPTS):
        values = scenes.concepts[drawn, at]
        chosen = torch.cat([(values == value).nonzero()[:count, 0] for value in (0, 1)])
        anchors[name] = sp.Anchors(scenes.features[drawn[chosen]], values[chosen])
    return anchors


def task(
    anchors: int = 10,
    split: Literal["test", "validation"] = "test",
    order: files.Order = "published",
    bdd_oia: str | None = None,
) -> sp.Task:
    """The task: so many labelled images per value; "validation" judges on its split; `bdd_oia` is the files' folder."""
    check_count("anchors", anchors)

    def examples(scenes):
        return sp.Examples(scenes.features[:, None], scenes.actions, scenes.concepts)  # one slot: [N, 1, 2048]

    def data(streams):
        train = files.load("train", bdd_oia, order)
        judged = files.load("val" if split == "validation" else "test", bdd_oia, order)
        return sp.Data(examples(train), labelled(train, anchors, streams("anchors")), {"test": examples(judged)})

    # A group per concept, all reading slot 0 by one encoder: it runs once, and each concept has two prototypes of its
    # own. One group of 21 attributes would need a prototype for each of 2^21 combinations.
    groups = [sp.Group([0], 2, name, encoder="scene", value_names=[["no", "yes"]]) for name in files.CONCEPTS]
    settings = dict(epochs=20, batch_size=128, infeasible="drop")  # forward and stop at once is no label of the rule
    rule = sp.Machine(0, step, label)
    return sp.Task(sp.ConceptSpace(*groups), rule, name="bdd_oia", data=data, settings=settings)
