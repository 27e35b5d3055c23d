"""The order of the examples in an epoch: each once, or all labels equally often; and who of several processes has
which of them.

A process owns the examples whose id is its rank modulo the number of processes W, so that it keeps their state. A batch
of all processes is their shares, one after the other: ids `[W, b]`, flattened.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from softpnet.rules.labels import unique_labels


def own_order(labels: Tensor, rank: int, processes: int, even: bool, generator: Generator) -> Tensor:
    """This process's examples of an epoch, in their order: ids `[N // W]`, of labels `[N]` or `[N, m]`.

    All processes draw the orders of all of them, and so stay in step. Where the examples do not divide by their number,
    the last ones of longer orders wait for another epoch.
    """
    found = torch.empty(0, dtype=torch.int64)
    for each in range(processes):
        places = (even_order if even else random_order)(labels[each::processes], generator)
        if each == rank:
            found = each + processes * places[: len(labels) // processes]
    return found


def warm_up_ids(count: int, examples: int, rank: int, processes: int, generator: Generator) -> Tensor:
    """This process's share of so many examples, drawn at random, to be looked at in a step of the warm-up."""
    drawn = torch.randint(examples // processes, (count,), generator=generator).tensor_split(processes)
    return rank + processes * drawn[rank]


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
