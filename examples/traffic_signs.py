"""Two photographs of traffic signs and the sum of their numbers. Eight photographs are labelled; of all others only
the sums are known. The signs of the test are those of unseen tracks.

The photographs are those of the German Traffic Sign Recognition Benchmark (GTSRB_Final_Training_Images.zip), unpacked:

softpnet train examples/traffic_signs.py --option gtsrb=FOLDER     # which holds Final_Training/Images
"""

from typing import Literal

import torch

import softpnet as sp
from softpnet.data.gtsrb import pools
from softpnet.task.options import check_count

SIGNS = {  # the benchmark's classes, numbered 0 to 7 here
    11: "right of way",
    12: "priority road",
    13: "yield",
    14: "stop",
    17: "no entry",
    18: "caution",
    25: "road works",
    38: "keep right",
}


def rule(c):
    """Two signs [..., 2] -> the sum of their numbers [...]."""
    return c[..., 0] + c[..., 1]


def task(
    train: int = 3000,
    test: int = 1000,
    split: Literal["test", "validation"] = "test",
    gtsrb: str | None = None,
) -> sp.Task:
    """The task: so many pairs; "validation" judges on held-out training tracks; `gtsrb` is the benchmark's folder."""
    check_count("train", train)
    check_count("test", test)

    def pairs(pool, count, generator):
        signs = torch.randint(len(SIGNS), (count, 2), generator=generator)
        return sp.Examples(pool.draw(signs, generator), rule(signs), signs)

    def data(streams):
        seen, unseen, labelled = pools(split, list(SIGNS), gtsrb)
        return sp.Data(
            pairs(seen, train, streams("train data")),
            sp.Anchors(labelled, torch.arange(len(SIGNS))),  # one photograph per sign
            {"test": pairs(unseen, test, streams("test data"))},
        )

    return sp.Task(
        name="traffic_signs",
        space=sp.ConceptSpace(slots=2, values=len(SIGNS), value_names=[list(SIGNS.values())]),
        rule=rule,
        data=data,
        augment=sp.augment.compose(sp.augment.affine(background=0.2), sp.augment.photometric()),
        settings=dict(epochs=10),
    )
