"""Inputs that are read when a batch asks for them: a Dataset, a memory map, or whatever gives items by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softpnet.errors import InputError, SoftPNetError
from softpnet.runtime.inputs import FINITE, is_real, not_finite
from softpnet.task.ahead import read_ahead
from softpnet.task.concepts import ConceptSpace
from softpnet.task.integers import tensor_as_array

NAMED = 20
"""A warning names no more skipped items than so many."""
REASONS = 5
"""Of so many skipped items a warning says why."""
SAMPLE = 64
"""Items by which two lazy sources are told apart; reading all could take hours."""
INPUTS_ALONE = "a source that also has labels must be asked for its inputs alone"
Read = tuple[list[int], Tensor]
"""Numbers of the items that could be read, and those items `[B, n, *shape]`."""


class LazyInputs:
    """A source of inputs that looks like a tensor `[N, n, *shape]` to whoever asks for its size or some of its items.

    An item of the source is one example: a tensor or array `[n, *shape]`; or a tuple, list or dict with an entry per
    slot. None stands for an item that is to be skipped. A source with `__getitems__` is asked for a batch at once.
    """

    def __init__(self, source: Any, slots: int) -> None:
        self.source, self.slots, self.count = source, slots, len(source)
        if self.count == 0:
            raise InputError("inputs are empty, expected at least one")
        self.shape, self.dtype = torch.Size([self.count]), torch.float32  # until the first item is known
        self.example = self.first()  # [n, *shape], what inputs are like
        self.shape, self.dtype = torch.Size([self.count, *self.example.shape]), self.example.dtype

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, which: Any) -> Tensor:
        """Some items, as a tensor would give them; every one of them must be readable."""
        if isinstance(which, tuple):
            return self[which[0]][which[1:]]
        if isinstance(which, Tensor) and which.dtype == torch.bool:
            which = which.nonzero().flatten()
        if isinstance(which, slice):
            which = range(*which.indices(self.count))
        one = not isinstance(which, (Tensor, Sequence)) or (isinstance(which, Tensor) and which.dim() == 0)
        ids = [int(which)] if one else [int(each) for each in which]
        read, items = self.read(ids)
        if len(read) < len(ids):
            lost = self.lost(number for number in ids if number not in read)
            raise InputError(f"{lost}, and here none may be skipped; mend or drop them")
        return items[0] if one else items

    def own(self, ids: Sequence[int]) -> list[int]:
        """The numbers that the user's source has for these: where some are held out, the others are counted anew."""
        return self.source.own(ids) if hasattr(self.source, "own") else list(ids)

    def lost(self, ids: Iterable[int]) -> str:
        """Which inputs cannot be read, for people, by the user's own numbers; and why, where the source says that."""
        skipped = sorted(set(ids))
        reasons = [why for number in skipped[:REASONS] if (why := self.why(number))]
        told = f" ({'; '.join(reasons)}{'; ...' if len(skipped) > REASONS else ''})" if reasons else ""
        numbers = ", ".join(map(str, sorted(self.own(skipped))[:NAMED]))
        more = f", and {len(skipped) - NAMED:,} more" if len(skipped) > NAMED else ""
        return f"inputs [{numbers}]{more} cannot be read{told}"

    def why(self, number: int) -> str:
        """Why this item is to be skipped; nothing where the source does not say it."""
        return str(self.source.why(number)) if hasattr(self.source, "why") else ""

    def split(self, size: int) -> Iterator[Tensor]:
        """All items, so many at a time."""
        return (self[start : start + size] for start in range(0, self.count, size))

    def read(self, ids: Sequence[int]) -> Read:
        """The items of these numbers, as far as none of them is to be skipped."""
        if len(self.source) != self.count:
            raise InputError(
                f"the source of inputs had {self.count:,} items and now has {len(self.source):,}; it must not change"
            )
        found = self._items(ids)
        if hasattr(self.source, "__array__") and len(found):  # a whole batch at once
            self._tensor(found[0], ids[0])
            return list(ids), _finite(_plain(found), ids)
        items = [(number, self._tensor(item, number)) for number, item in zip(ids, found, strict=True)]
        kept = [(number, item) for number, item in items if item is not None]
        expected = self.shape[1:]
        for number, item in kept:
            if len(self.shape) > 1 and (item.shape != expected or item.dtype != self.dtype):
                raise InputError(
                    f"input {number} is {item.dtype} {list(item.shape)}, but the first is {self.dtype} "
                    f"{list(expected)}; give all of them one type and size"
                )
        if not kept:
            return [], torch.zeros(0, *expected, dtype=self.dtype)
        numbers = [number for number, _ in kept]
        return numbers, _finite(torch.stack([item for _, item in kept]), numbers)

    def batches(self, ids: Sequence[Tensor], workers: int = 0) -> Iterator[Read]:
        """One batch after the other, read ahead by so many processes; the same whatever their number."""
        for found in read_ahead(self._answer, [each.tolist() for each in ids], workers):
            if isinstance(found, SoftPNetError):
                raise found
            kept, items = found
            yield kept, torch.from_numpy(items)

    def sampled(self) -> list[int]:
        """A few numbers, spread over the source."""
        return torch.linspace(0, self.count - 1, min(SAMPLE, self.count)).long().tolist()

    def sample(self) -> Tensor:
        """The items of these numbers, as far as they can be read."""
        return self.read(self.sampled())[1]

    def _answer(self, ids: list[int]) -> Any:
        """What a reading process answers: errors as they are, and numbers without a tensor's shared memory."""
        try:
            kept, items = self.read(ids)
        except SoftPNetError as error:
            return error
        return kept, items.numpy()

    def first(self) -> Tensor:
        """The first item that can be read, `[n, *shape]`."""
        for number in range(self.count):
            _, items = self.read([number])
            if len(items):
                return items[0]
        why = self.why(0)
        raise InputError(f"none of the {self.count:,} inputs can be read{f'; the first: {why}' if why else ''}")

    def _items(self, ids: Sequence[int]) -> Sequence[Any]:
        try:
            if hasattr(self.source, "__getitems__"):
                return self._one_each(self.source.__getitems__(list(ids)), len(ids))
            if hasattr(self.source, "__array__"):
                return self.source[list(ids)]
        except (Exception, SystemExit) as error:
            raise self._unreadable(f"one of {list(ids)[:100]}", error) from error
        return [self._item(number) for number in ids]

    def _one_each(self, found: Any, asked: int) -> Sequence[Any]:
        """What the source's `__getitems__` gave, if that is an item for each number."""
        listed = hasattr(found, "__len__") and hasattr(found, "__getitem__") and not isinstance(found, (str, Mapping))
        if not listed or len(found) != asked:
            columns = f" of the columns {', '.join(map(str, found))}" if isinstance(found, Mapping) else ""
            raise InputError(
                f"__getitems__ of the source of inputs, a {type(self.source).__name__}, gives {type(found).__name__}"
                f"{columns}{f' of {len(found)} items' if listed else ''}, expected a list with an item for each of the "
                f"{asked} numbers; give None for one that is to be skipped"
            )
        return found

    def _item(self, number: int) -> Any:
        try:
            return self.source[number]
        except (Exception, SystemExit) as error:  # to exit would end the user's own process from a reading one
            raise self._unreadable(number, error) from error

    def _unreadable(self, at: Any, error: BaseException) -> SoftPNetError:
        if isinstance(error, SoftPNetError):
            return error
        return InputError(f"the source of inputs, a {type(self.source).__name__}, cannot be read at {at}: {error!r}")

    def _tensor(self, item: Any, number: int) -> Tensor | None:
        """One example as a tensor `[n, *shape]`."""
        if item is None:
            return None
        try:
            if isinstance(item, Mapping):
                item = self._entries(item, number)
            if isinstance(item, (tuple, list)) and len(item) == 1 and self.slots > 1:
                item = item[0]  # one entry for all slots
            if hasattr(item, "getbands"):  # a Pillow image is one slot, whatever its channels
                item = (item,)
            if isinstance(item, (tuple, list)):
                found = torch.stack([_plain(part) for part in item])
            else:
                found = _plain(item)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"input {number} is {type(item).__name__}, expected an array [n, ...], or one per slot: {error}; "
                f"{INPUTS_ALONE}"
            ) from error
        if found.dim() == 0 or len(found) != self.slots:
            raise InputError(
                f"example {number} has shape {list(found.shape)}, expected [{self.slots}, ...]; give every example an "
                f"input for each of the {self.slots} slots of the space"
            )
        return found

    def _entries(self, item: Mapping[Any, Any], number: int) -> tuple[Any, ...]:
        """What an example that is a dict has for its slots: an entry each, or one for all."""
        if len(item) not in (1, self.slots):
            raise InputError(
                f"input {number} has the entries {', '.join(map(str, item))}, expected {self.slots}, one per slot; "
                "leave the others out, of a Hugging Face dataset by select_columns([...])"
            )
        return tuple(item.values())


def _finite(items: Tensor, ids: Sequence[int]) -> Tensor:
    """The items of these numbers; raises where one holds NaN or an infinity."""
    lost, _, value = not_finite(tensor_as_array(items))
    if lost:
        raise InputError(
            f"input {ids[lost[0]]} holds {value}, expected {FINITE}; mend it, or give None to have it skipped"
        )
    return items


def _plain(part: Any) -> Tensor:
    """A tensor of a tensor, an array, or a picture [H, W] or [H, W, C], which becomes [C, H, W]."""
    if isinstance(part, Tensor):
        found = part.detach().cpu()
        return found.float() if found.dtype == torch.bfloat16 else found  # which numpy, by which it may travel, lacks
    import numpy

    array = numpy.asarray(part)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # torch has this machine's order of bytes alone
    found = torch.from_numpy(array if array.flags.writeable else array.copy())
    if hasattr(part, "getbands"):  # a Pillow image
        return found[None] if found.dim() == 2 else found.permute(2, 0, 1)
    return found


def as_inputs(given: Any, space: ConceptSpace) -> Any:
    """A tensor as it is; a lazy source, wrapped; anything else as it is, for the check that names it."""
    if isinstance(given, (Tensor, LazyInputs)) or given is None or isinstance(given, (str, bytes, Mapping)):
        return given
    if hasattr(given, "__len__") and (hasattr(given, "__getitem__") or hasattr(given, "__getitems__")):
        return LazyInputs(given, space.slots)
    return given


def first_readable(inputs: Tensor | LazyInputs) -> Tensor:
    """One example, `[1, n, *shape]`: the first that is not to be skipped."""
    return inputs[:1] if isinstance(inputs, Tensor) else inputs.first()[None]


def readable(inputs: Tensor | LazyInputs, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Those of the ids whose inputs are not to be skipped, and these inputs `[B, n, *shape]`."""
    if isinstance(inputs, Tensor):
        return ids, inputs[ids]
    kept, items = inputs.read(ids.tolist())
    return torch.tensor(kept, dtype=torch.long), items


def read_parts(
    inputs: Tensor | LazyInputs, parts: Sequence[Tensor], workers: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """What `readable` gives for one part of the ids after the other, read ahead by so many processes."""
    if isinstance(inputs, Tensor):
        return ((ids, inputs[ids]) for ids in parts)
    return ((torch.tensor(kept, dtype=torch.long), items) for kept, items in inputs.batches(parts, workers))


def numbers(inputs: Tensor) -> Tensor:
    """What an encoder reads: bytes as 0 to 1, real numbers in single precision, other whole numbers as they are."""
    if inputs.dtype == torch.uint8:
        return inputs.float() / 255
    return inputs.float() if is_real(inputs.dtype) else inputs.long()
