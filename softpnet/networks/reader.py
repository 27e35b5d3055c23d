"""Reader: the network that reads concepts from inputs, and what inference asks of it."""

from __future__ import annotations

import contextlib
import copy
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from softpnet.errors import InputError
from softpnet.networks.batch_norm import Synchronised
from softpnet.networks.blank import table_rows
from softpnet.networks.encoders import Block
from softpnet.networks.finite import not_finite
from softpnet.networks.frozen import Embedded, Features, is_frozen
from softpnet.runtime.inputs import ANY_NUMBER, check_ids, is_real
from softpnet.task.concepts import ConceptSpace
from softpnet.task.data import Inputs
from softpnet.task.integers import tensor_as_array
from softpnet.task.lazy import numbers, read_parts
from softpnet.together import Together

AT_ONCE = 512
"""Inference reads about so many inputs per pass."""


def module_key(name: str) -> str:
    """torch's containers take no key that is an attribute of theirs, such as "type"; none begins like this."""
    return f"of_{name}"


def at_least_single(x: Tensor) -> Tensor:
    """x in single precision where it is in half of it; double precision stays double."""
    return x if x.dtype == torch.float64 else x.float()


class Prediction(NamedTuple):
    """What was read in every example."""

    concepts: Tensor
    """`[N, k]`; -1 where it abstains."""
    labels: Tensor
    """`[N]` or `[N, m]`, the rule applied to the concepts; -1 where it abstains from one of them."""
    probabilities: Tensor
    """`[N, k, h]`, at the model's temperature."""


class Reader(nn.Module):
    """Encoders, by name; how their embeddings become log p is a subclass's matter."""

    together: Together | None = None
    """While it is trained by several processes: each embeds its share of the anchors."""
    synchronised: bool = False
    """Whether batch norm then takes its statistics from all of them."""

    def __init__(self, space: ConceptSpace, encoders: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.space = space
        self.encoders = nn.ModuleDict({module_key(name): encoder for name, encoder in encoders.items()})
        # A mask of attention is made of infinities; what else holds one later has diverged.
        self.constants = frozenset(not_finite(dict(self.named_buffers())))

    def train(self, mode: bool = True) -> Self:
        """Frozen encoders stay in evaluation mode."""
        super().train(mode)
        for encoder in self.encoders.values():
            if is_frozen(encoder):
                encoder.eval()
        return self

    def share(self, together: Together | None, synchronised: bool = False) -> None:
        """From now on it is trained by these processes; by this one alone for None."""
        self.together, self.synchronised = together, synchronised
        for part in self.modules():
            if isinstance(part, Block):
                part.together = together if synchronised else None

    def encoder(self, name: str | None = None) -> nn.Module:
        """A copy of the encoder of this name; of the only one, where none is named."""
        names = list(dict.fromkeys(group.encoder for group in self.space.groups))
        chosen = names[0] if name is None and len(names) == 1 else name
        if chosen not in names:
            raise InputError(f"the model has no encoder {chosen!r}; name one of {', '.join(names)}")
        return copy.deepcopy(self.encoders[module_key(chosen)])

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next((each.device for each in (*self.parameters(), *self.buffers())), torch.device("cpu"))

    def table_rows(self, shape: Sequence[int]) -> np.ndarray:
        """Rows of the table in which each whole number of an example is looked up, `[n, *shape]`; or `ANY_NUMBER`."""
        rows = torch.full((self.space.slots, *shape), ANY_NUMBER)
        blank = torch.zeros(1, *shape, dtype=torch.int64, device=self.device)
        for key, encoder in self.encoders.items():
            read = slots_read(self.space, key)
            rows[read] = rows[read].minimum(table_rows(encoder, blank))
        return rows.numpy()

    @abstractmethod
    def log_p(self, inputs: Tensor) -> Tensor:
        """log p `[B, k, h]` of inputs `[B, n, *shape]`."""

    def embed(self, inputs: Tensor) -> list[Tensor]:
        """Embeddings of the slots of each group, `[B, n_g, D]`."""
        return self.embed_with_anchors(inputs, [])[0]

    def settled(self) -> list[Tensor]:
        """The prototypes of inference, per group `[P, D]`; none for a network that has no prototypes."""
        return []

    def embed_with_anchors(
        self, inputs: Tensor | Features, anchors: Sequence[Tensor | Embedded]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Slots `[B, n_g, D]` and anchors `[A, P, D]` of every group; a shared encoder runs once over all it reads, and
        not over what is known already."""
        slots: dict[int, Tensor] = {}
        embedded: dict[int, Tensor] = {}
        for name, encoder in self.encoders.items():
            groups = {g: group for g, group in enumerate(self.space.groups) if module_key(group.encoder) == name}
            read = slots_read(self.space, name)
            extra = {g: anchors[g] for g in groups} if anchors else {}
            by_slot, *others = self._vectors(encoder, [_seen(inputs, name, read), *extra.values()])  # [B, n_read, D]
            for g, group in groups.items():
                columns = [read.index(slot) for slot in group.slots]
                slots[g] = by_slot if columns == list(range(len(read))) else by_slot[:, columns]
            embedded |= dict(zip(extra, others, strict=True))
        return [slots[g] for g in sorted(slots)], [embedded[g] for g in sorted(embedded)]

    def _vectors(self, encoder: nn.Module, given: Sequence[Tensor | Embedded]) -> list[Tensor]:
        """Slots and anchors `[X, Y, *shape]` each -> `[X, Y, D]`, in one pass over all that is not known.

        Of anchors, which all processes have, each embeds its share.
        """
        together = self.together if self.training else None
        parts = [
            each.flatten(0, 1) if together is None or place == 0 else together.part(each.flatten(0, 1))
            for place, each in enumerate(given)
            if isinstance(each, Tensor)
        ]
        if not parts:
            return [each.vectors for each in given if isinstance(each, Embedded)]
        with contextlib.nullcontext() if together is None or not self.synchronised else Synchronised(together):
            made = encoder(torch.cat(parts) if parts[1:] else parts[0]).split([part.shape[0] for part in parts])
        found = iter(made)
        return [
            self._placed(next(found), each, together if place else None) if isinstance(each, Tensor) else each.vectors
            for place, each in enumerate(given)
        ]

    @staticmethod
    def _placed(made: Tensor, given: Tensor, together: Together | None) -> Tensor:
        """Vectors `[M, D]` of what was given `[X, Y, *shape]`, or of this process's share of it, as `[X, Y, D]`."""
        whole = made if together is None else together.whole(made, given.shape[0] * given.shape[1])
        return whole.unflatten(0, given.shape[:2])


def slots_read(space: ConceptSpace, key: str) -> list[int]:
    """The slots that the encoder of this key reads, in order."""
    return sorted({slot for group in space.groups if module_key(group.encoder) == key for slot in group.slots})


def _seen(inputs: Tensor | Features, key: str, read: list[int]) -> Tensor | Embedded:
    """What the encoder of this key is to read `[B, n_read, C, H, W]`, or has read."""
    if isinstance(inputs, Features):
        if key in inputs.known:
            return inputs.known[key]
        assert inputs.inputs is not None
        inputs = inputs.inputs
    return inputs if read == list(range(inputs.shape[1])) else inputs[:, read]


def in_parts(module: Reader, inputs: Inputs) -> Iterator[Tensor]:
    """Inputs `[N, n, *shape]` as numbers where the network is, as many at a time as inference reads in one pass."""
    rows = None if is_real(inputs.dtype) else module.table_rows(inputs.shape[2:])
    for part in inputs.split(max(1, AT_ONCE // module.space.slots)):
        if rows is not None:
            check_ids(tensor_as_array(part), rows)
        yield numbers(part.to(module.device))


@torch.no_grad()
def read_readable(module: Reader, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """As `read`, without examples whose input is to be skipped: the ids `[M]` of the others, and their log p."""
    parts = torch.arange(len(inputs)).split(max(1, AT_ONCE // module.space.slots))
    found = [
        (ids, module.log_p(numbers(items.to(module.device)))) for ids, items in read_parts(inputs, parts) if len(ids)
    ]
    return torch.cat([ids for ids, _ in found]), torch.cat([log_p for _, log_p in found])


@torch.no_grad()
def read(module: Reader, inputs: Inputs) -> Tensor:
    """log p `[N, k, h]` of inputs `[N, n, *shape]`, part by part, where the network is."""
    return torch.cat([module.log_p(part) for part in in_parts(module, inputs)])
