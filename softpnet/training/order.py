"""The order of the examples in an epoch: each once, or all labels equally often."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.rules.labels import unique_labels


def random_order(labels: Tensor, generator: Generator) -> Tensor:
    """Every example once: labels `[N]` or `[N, m]` -> places `[N]`."""
    return torch.randperm(len(labels), generator=generator)


def even_order(labels: Tensor, generator: Generator) -> Tensor:
    """As many draws as there are examples, with all labels equally often, by at most one: places `[N]`.

    An example comes again only once all others of its label have come as often.
    """
    distinct, own = unique_labels(labels)
    shuffled = torch.randperm(len(labels), generator=generator)
    shuffled = shuffled[own[shuffled].sort(stable=True).indices]  # by label, in random order inside each
    counts = own.bincount(minlength=len(distinct))  # [L]
    starts = counts.cumsum(0) - counts
    # A label's number by chance, or the same ones would have the draws that are left over in every epoch.
    number = torch.randperm(len(distinct), generator=generator)
    wanted = number[torch.randperm(len(labels), generator=generator) % len(distinct)]  # [N], the label of each draw
    by_label = wanted.sort(stable=True).indices
    asked = wanted.bincount(minlength=len(distinct))
    before = (asked.cumsum(0) - asked)[wanted[by_label]]
    turn = torch.empty_like(wanted).scatter_(0, by_label, torch.arange(len(wanted)) - before)  # [N], of its label
    return shuffled[starts[wanted] + turn % counts[wanted]]
