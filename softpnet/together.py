"""Processes that train together: sums over all of them, with gradient, and draws that are those of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Generator, Size, Tensor
from torch import distributed as group
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Together:
    """One of several processes that train one network, each on its share of every batch."""

    rank: int
    count: int

    def sum(self, x: Tensor) -> Tensor:
        """The sum over all processes, the same bits in each; its gradient is the sum of theirs."""
        return _Sum.apply(x)

    def part(self, rows: Tensor) -> Tensor:
        """This process's share of rows that all have, one after the other."""
        return rows.tensor_split(self.count)[self.rank]

    def whole(self, part: Tensor, total: int) -> Tensor:
        """Of each process's part `[M_r, ...]`, all rows `[M, ...]`."""
        bounds = torch.arange(total).tensor_split(self.count)
        before = sum(len(each) for each in bounds[: self.rank])
        wide = part if part.dtype == torch.float64 else part.float()  # sums of halves would not be
        padding = (0, 0) * (part.dim() - 1) + (before, total - before - len(part))
        return self.sum(torch.nn.functional.pad(wide, padding))

    def stacked(self, values: Tensor) -> Tensor:
        """The values of all processes, of one shape in each, `[W, *shape]`."""
        found = [torch.empty_like(values) for _ in range(self.count)]
        group.all_gather(found, values.contiguous())
        return torch.stack(found)

    def joined(self, values: Tensor) -> tuple[Tensor, int]:
        """The values `[b_r, ...]` of all processes, one after the other, and where this one's begin."""
        sizes = self.stacked(torch.tensor([len(values)], device=values.device)).flatten().tolist()
        padded = values.new_zeros(max(sizes), *values.shape[1:])
        padded[: len(values)] = values
        parts = [each[:size] for each, size in zip(self.stacked(padded), sizes, strict=True)]
        return torch.cat(parts), sum(sizes[: self.rank])

    def drawing(self, size: int, places: Tensor | None = None) -> TorchFunctionMode:
        """While inside, draws for this process's `size` rows, or for those at some places `[b]` of them, are those of
        the batch of all processes."""
        own = torch.arange(size) if places is None else places
        return _Drawing(own + self.rank * size, self.count * size)


class Drawers(NamedTuple):
    """Rows of a batch that draw, among those of all processes."""

    chosen: Tensor  # [b] of bool; where another process has such rows, and this one none, its first row stands in
    own: int  # how many of them are not a stand-in
    drawing: AbstractContextManager[Any]  # while inside, their draws are what one process would draw for them


def drawers(together: Together | None, masks: Sequence[Tensor]) -> list[Drawers | None]:
    """For each mask `[b]` of the rows that draw: those rows; None where no process has any."""
    if together is None:
        return [Drawers(mask, int(mask.sum()), nullcontext()) if mask.any() else None for mask in masks]
    every, before = together.joined(torch.stack(list(masks), 1).byte())  # [B, masks]
    own, found = slice(before, before + len(masks[0])), []
    for mask, chosen in zip(masks, every.bool().unbind(1), strict=True):
        count = int(mask.sum())
        rows = (chosen.cumsum(0) - 1)[own][mask] if count else torch.zeros(1, dtype=torch.int64)
        stand_in = torch.arange(len(mask), device=mask.device) == 0
        drawing = _Drawing(rows, int(chosen.sum()))
        found.append(Drawers(mask if count else stand_in, count, drawing) if chosen.any() else None)
    return found


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        found = x.clone(memory_format=torch.contiguous_format)
        group.all_reduce(found)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        found = gradient.clone(memory_format=torch.contiguous_format)
        group.all_reduce(found)
        return found


class _Drawing(TorchFunctionMode):
    """What a function draws for its rows, from a generator that it names, is drawn for those of all processes.

    A draw is per row where its first dimension is the number of rows or a multiple of it, as where every row has K
    candidates. So all processes take as many numbers from a stream, and each row has the one that it would have if one
    process had the whole batch. Whatever else is drawn is the same in all processes.
    """

    def __init__(self, rows: Tensor, total: int) -> None:
        super().__init__()
        self.rows, self.total = rows.cpu(), total

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if not isinstance(kwargs.get("generator"), Generator):
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        given = next((each for each in args if isinstance(each, Tensor)), None)
        if given is None:
            return self._made(func, args, kwargs)
        if not self._per_row(given.shape):
            return func(*args, **kwargs)
        # The numbers that a draw takes do not depend on what the other processes' rows hold; ones suit every draw.
        wide = [self._widened(each) if isinstance(each, Tensor) else each for each in args]
        found = self._own(func(*wide, **kwargs))
        return given.copy_(found) if name.endswith("_") else found

    def _made(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        """Of `torch.rand` and its like, which are told a shape."""
        before, shape, rest = list(args), kwargs.get("size"), {k: v for k, v in kwargs.items() if k != "size"}
        if shape is None and before and isinstance(before[-1], (tuple, list, Size)):
            shape = before.pop()
        if shape is None and func in (torch.rand, torch.randn):
            before, shape = [], before
        if shape is None or not self._per_row(shape):
            return func(*args, **kwargs)
        wide = [shape[0] // len(self.rows) * self.total, *shape[1:]]
        return self._own(func(*before, size=wide, **rest))

    def _per_row(self, shape: Sequence[int]) -> bool:
        return len(shape) > 0 and shape[0] > 0 and shape[0] % len(self.rows) == 0

    def _widened(self, x: Tensor) -> Tensor:
        if not self._per_row(x.shape):
            return x
        each = x.shape[0] // len(self.rows)
        wide = x.new_ones(self.total, each, *x.shape[1:])
        wide[self.rows.to(x.device)] = x.unflatten(0, (len(self.rows), each))
        return wide.flatten(0, 1)

    def _own(self, wide: Tensor) -> Tensor:
        return wide.unflatten(0, (self.total, -1))[self.rows.to(wide.device)].flatten(0, 1)
