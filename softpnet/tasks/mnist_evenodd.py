"""Two digits of equal parity and their sum; judged on pairs of mixed parity, which are never seen in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor

from softpnet.data.digits import Digits, pools
from softpnet.errors import InputError
from softpnet.task.concepts import ConceptSpace
from softpnet.task.data import Anchors, Data, Examples
from softpnet.task.options import check_count
from softpnet.task.task import Rows, Task

SPACE = ConceptSpace(slots=2, values=10)
ONE_WAY = torch.tensor([[0, 6], [2, 8], [4, 6], [4, 8], [1, 5], [3, 7], [1, 9], [3, 9]])
SUPPORT = torch.cat([ONE_WAY, ONE_WAY.flip(1)])  # [16, 2], the pairs of the training set
SUMS = 19  # 0 to 18

PAPER = dict(
    epochs=10,
    targets="cache",
    copies=3,
    working_set=20,
    draw_factor=10,
    target="best",
    rule_weight=5.0,
    warmup_steps=100,
    halve_every=3,  # with the weight decay, chosen on validation data: docs/choices.md
    weight_decay=1e-4,
)


def label(c: Tensor) -> Tensor:
    return c.sum(-1)


def task(
    support: Literal["full", "train"] = "full",
    split: Literal["test", "validation"] = "test",
    train: int = 6720,
    wrong: float = 0.0,
    anchors: int = 1,
    mnist: str | None = None,
) -> Task:
    """The task.

    Args:
        support: "full" caches all 100 ordered pairs; "train" only the 16 pairs of the training set.
        split: "validation" judges on held-out training images, for choosing settings.
        train: training examples, a multiple of 16.
        wrong: the share of training examples whose sum is replaced by another one, 0 to 18, at random.
        anchors: the first so many images of each digit; with 0, one of 0 and one of 1 alone: an even and an odd digit
            rule out every relabeling that keeps the training sums.
        mnist: a folder with MNIST's four files.
    """
    check_count("train", train, least=len(SUPPORT))
    check_count("anchors", anchors, least=0)
    if train % len(SUPPORT):
        raise InputError(
            f"option train is {train}, expected a multiple of the {len(SUPPORT)} pairs of the training set"
        )

    if not 0 <= wrong <= 1:
        raise InputError(f"option wrong is {wrong}, expected a share, 0 to 1")

    def rows(generator: Generator) -> Rows:
        if support == "train":
            return Rows(SUPPORT, complete=torch.zeros(0, dtype=torch.int64))
        return Rows(SPACE.all(), complete=torch.arange(SUMS))

    def data(streams: Callable[[str], Generator]) -> Data:
        digits = pools(split, mnist)
        shown, each = torch.arange(10 if anchors else 2), max(1, anchors)
        pairs = SPACE.all()  # [100, 2]
        is_support = (pairs[:, None] == SUPPORT).all(-1).any(1)  # [100]
        mixed = pairs[pairs.sum(1) % 2 == 1]  # [50, 2]
        draw = torch.randint(len(mixed), (960,), generator=streams("test data"))
        right = _examples(SUPPORT.repeat(train // len(SUPPORT), 1), digits.train, streams("train data"))
        return Data(
            right._replace(labels=_mislabelled(right.labels, wrong, streams("wrong labels"))) if wrong else right,
            Anchors(digits.train.first(shown, each), shown.repeat_interleave(each)),
            {
                "test": _examples(mixed[draw], digits.test, streams("test data")),
                "in_distribution": _examples(SUPPORT.repeat(60, 1), digits.test, streams("test data")),
                "out_of_distribution": _examples(pairs[~is_support].repeat(60, 1), digits.test, streams("test data")),
            },
        )

    return Task(
        space=SPACE,
        rule=label,
        name="mnist_evenodd",
        rows=rows,
        data=data,
        settings=dict(epochs=10),
        presets={"paper": PAPER},
    )


def _mislabelled(sums: Tensor, share: float, generator: Generator) -> Tensor:
    """Sums `[N]`, of which a share is replaced by other sums, each as likely."""
    chosen = torch.randperm(len(sums), generator=generator)[: round(share * len(sums))]
    by = torch.randint(1, SUMS, (len(chosen),), generator=generator)
    return sums.index_copy(0, chosen, (sums[chosen] + by) % SUMS)


def _examples(pairs: Tensor, digits: Digits, generator: Generator) -> Examples:
    return Examples(digits.draw(pairs, generator), label(pairs), pairs)
