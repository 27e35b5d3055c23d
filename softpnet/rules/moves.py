"""Generic proposals of the walk. Contract of every move: rows `[..., k]` -> rows `[..., k]` of the same label,
symmetric (c -> c' is as likely as c' -> c), the whole batch at once; a row that cannot move stays."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from softpnet.errors import TaskError
from softpnet.rules.diagram import Diagram
from softpnet.rules.rows import Cache
from softpnet.task.concepts import ConceptSpace, row_keys
from softpnet.task.task import Move, Rule


def same_label(cache: Cache) -> Move:
    """Another cached row with the same label, uniformly; stay if there is none."""

    @functools.cache
    def tables(device: torch.device) -> tuple[Cache, Tensor, Tensor, Tensor]:
        there = cache.to(device)
        label_of_row = torch.arange(len(there.counts), device=device).repeat_interleave(there.counts)  # [M]
        return there, *cache.task.space.keys(there.rows.long()).sort(), label_of_row

    def move(rows: Tensor, generator: Generator) -> Tensor:
        cache, keys, place, label_of_row = tables(rows.device)
        here = place[torch.searchsorted(keys, cache.task.space.keys(rows))]  # [...], index of each row in the cache
        label = label_of_row[here]
        start, count = cache.starts[label], cache.counts[label]
        others = (count - 1).clamp_min(1)
        drawn = torch.rand(here.shape, generator=generator).to(rows.device)
        step = 1 + (drawn * others).long().clamp_max(others - 1)
        return cache.rows[start + (here - start + step) % count].long()

    return move


def redraw(rule: Diagram) -> Move:
    """Drop some concepts, chosen at random, and draw them again, uniformly among all that keep the label.

    What is dropped does not depend on the row, and both ways between two rows have as many completions: so the move is
    symmetric. All concepts may be dropped, so that every row of the label can be reached.
    """
    space = rule.space
    at_once = max(1, 20_000_000 // (max(rule.widths) * space.h))  # rows that are moved in one sweep

    def move(rows: Tensor, generator: Generator) -> Tensor:
        flat = rows.reshape(-1, space.k)
        dropped = torch.rand(flat.shape, generator=generator).argsort(1)  # [M, k], a random rank of each concept
        dropped = (dropped < torch.randint(1, space.k + 1, (len(flat), 1), generator=generator)).to(rows.device)
        kept = torch.nn.functional.one_hot(flat, space.h).log()  # [M, k, h]: 0 for the row's own value, else -inf
        log_p = torch.where(dropped[:, :, None], 0.0, kept)
        labels = rule.on(rows.device).labels[rule.leaf(flat)]
        parts = zip(labels.split(at_once), log_p.split(at_once), strict=True)
        return torch.cat([rule.sample(label, generator, part) for label, part in parts]).view(rows.shape)

    return move


def switch_one(space: ConceptSpace, label: Rule) -> Move:
    """Give one concept, chosen uniformly, another value, chosen uniformly; stay if the label would change."""
    sizes = torch.tensor(space.sizes)

    def move(rows: Tensor, generator: Generator) -> Tensor:
        proposal = change_one(rows, sizes, generator)
        before, after = label(rows), label(proposal)
        same = before == after
        same = same if same.dim() == rows.dim() - 1 else same.all(-1)
        return torch.where(same[..., None], proposal, rows)

    return move


def change_one(rows: Tensor, sizes: Tensor, generator: Generator) -> Tensor:
    """Rows `[..., k]` with one concept, chosen uniformly, at another value, chosen uniformly; no rule asked."""
    shape = rows.shape[:-1]
    which = torch.randint(rows.shape[-1], shape, generator=generator).to(rows.device)[..., None]  # [..., 1]
    size = sizes.to(rows.device)[which]
    others = (size - 1).clamp_min(1)
    drawn = torch.rand(which.shape, generator=generator).to(rows.device)
    step = 1 + (drawn * others).long().clamp_max(others - 1)
    return rows.scatter(-1, which, (rows.gather(-1, which) + step) % size)


def drop_and_complete(
    boards: Tensor, kept: Sequence[int], swaps: Sequence[tuple[int, int]], sizes: Sequence[int]
) -> Move:
    """Project to the `kept` concepts, swap one of the `swaps` pairs among them, look the completion up in `boards`.

    Stays where no board has those kept values. Boards `[M, k]` must be determined by their kept values: then a swap
    is undone by the same swap with the same probability, and no Hastings term is needed.
    """
    kept_sizes = [sizes[i] for i in kept]
    keys, place = row_keys(boards[:, list(kept)], kept_sizes).sort()
    if (keys[1:] == keys[:-1]).any():
        raise TaskError("two boards share their kept values, so a completion is not unique; keep more concepts")
    pairs = torch.tensor(swaps)  # [S, 2], positions among all concepts

    @functools.cache
    def tables(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        return keys.to(device), boards[place].to(device), torch.tensor(kept).to(device)

    def move(rows: Tensor, generator: Generator) -> Tensor:
        keys, completed, columns = tables(rows.device)
        chosen = pairs[torch.randint(len(pairs), rows.shape[:-1], generator=generator)].to(rows.device)  # [..., 2]
        swapped = rows.scatter(-1, chosen, rows.gather(-1, chosen.flip(-1)))
        wanted = row_keys(swapped[..., columns], kept_sizes)  # [...]
        at = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
        exists = keys[at] == wanted
        return torch.where(exists[..., None], completed[at], rows)

    return move
