"""ConceptSpace: which concepts an example has, and how distributions over primitives become theirs.

A *group* reads some image slots with one encoder. Each of its slots shows one *primitive*, a tuple of attribute
values; every (slot, attribute) pair is one concept. An *assignment* is an integer row of all k concepts: group
after group, slot after slot, attribute after attribute.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import torch
from torch import Tensor

from softpnet.errors import TaskError

MOST_PRIMITIVES = 100_000
"""A group with more combinations of values has to list its primitives."""


class Group:
    """Concepts read from `slots` by one encoder; attribute j takes the values 0 .. values[j] - 1.

    Args:
        slots: indices of the image slots that the group reads.
        values: number of values of each attribute; a plain number where there is one attribute.
        name: how errors, tables and pictures call it; unique in its space.
        primitives: the tuples of attribute values that have a prototype; all combinations unless given.
        encoder: groups that give the same encoder name share one; a group's own name unless given.
        value_names: names of each attribute's values, for people.
    """

    def __init__(
        self,
        slots: Sequence[int],
        values: int | Sequence[int],
        name: str = "concept",
        primitives: Sequence[Sequence[int]] | None = None,
        encoder: str | None = None,
        value_names: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.name, self.encoder = name, name if encoder is None else encoder
        self._check_names()
        who = f"group {name!r}"
        self.slots = integers_of(f"the slots of {who} are", slots, "slots=[0, 1]")
        each_values: Any = [values] if is_number(values) else values
        self.values = integers_of(f"the values of {who} are", each_values, "values=10 or values=(3, 3)")
        if primitives is None:
            if min(self.values, default=1) > 0 and math.prod(self.values) > MOST_PRIMITIVES:
                raise TaskError(
                    f"{who} has {math.prod(self.values):,} combinations of values, expected at most "
                    f"{MOST_PRIMITIVES:,}, since each needs an anchor; list those that occur as primitives=..."
                )
            primitives = list(itertools.product(*map(range, self.values)))
        names = value_names if value_names is not None else [[str(v) for v in range(h)] for h in self.values]
        try:
            tuples, self.value_names = tuple(primitives), tuple(tuple(each) for each in names)
        except TypeError:
            raise TaskError(
                f"{who} has primitives {primitives!r:.100} and value_names {names!r:.100}, expected a tuple per "
                "primitive, and a list of names per attribute"
            ) from None
        one = f"a primitive of {who} is"
        self.primitives = tuple(integers_of(one, primitive, "(0, 2)") for primitive in tuples)
        self._check(who)

    def _check_names(self) -> None:
        for name in (self.name, self.encoder):
            check_name("a group or encoder", name)
            if "." in name or "/" in name:
                raise TaskError(f"a group or encoder is named {name!r}; expected a name without '.' and '/'")
        if len(quote(self.name, safe="")) > 200:  # its picture's file is named after it
            raise TaskError(f"a group is named {self.name!r}, which is too long for a file's name; shorten it")

    def _check(self, who: str) -> None:
        if not self.slots or len(set(self.slots)) != len(self.slots) or min(self.slots) < 0:
            raise TaskError(f"{who} reads slots {self.slots}; expected distinct slots, 0 or above")
        if not self.values or min(self.values) < 1:
            raise TaskError(f"{who} has values {self.values}; expected one positive number each")
        if tuple(map(len, self.value_names)) != self.values:
            raise TaskError(f"{who} needs value_names for its {self.values} values, one per value")
        for j, each in enumerate(self.value_names):
            for name in each:
                check_name(f"a value of {who}", name)
            twice = [name for name in dict.fromkeys(each) if each.count(name) > 1]
            if twice:
                raise TaskError(
                    f"attribute {j} of {who} has {each.count(twice[0])} values named {twice[0]!r}; "
                    "expected each value's own name"
                )
        if len(set(self.primitives)) != len(self.primitives):
            raise TaskError(f"{who} lists a primitive twice")
        for primitive in self.primitives:
            inside = len(primitive) == len(self.values) and all(
                0 <= v < h for v, h in zip(primitive, self.values, strict=True)
            )
            if not inside:
                raise TaskError(f"primitive {primitive} of {who} lies outside its values {self.values}")
        for j, h in enumerate(self.values):
            missing = set(range(h)) - {primitive[j] for primitive in self.primitives}
            if missing:
                raise TaskError(
                    f"no primitive of {who} has value {min(missing)} in attribute {j}: "
                    "it could never be predicted; leave the value out or add a primitive"
                )

    def __repr__(self) -> str:
        return f"Group({self.name!r}, slots={self.slots}, values={self.values}, encoder={self.encoder!r})"

    @property
    def size(self) -> int:
        """Concepts of this group: slots times attributes."""
        return len(self.slots) * len(self.values)

    @property
    def primitive_names(self) -> list[str]:
        return [" ".join(self.value_names[j][v] for j, v in enumerate(p)) for p in self.primitives]

    def primitive_table(self) -> Tensor:
        """Attribute values of each primitive, `[P, a]`."""
        return torch.tensor(self.primitives).reshape(-1, len(self.values))


class ConceptSpace:
    """All concepts of one example. `ConceptSpace(slots=2, values=10)`, or several groups: `ConceptSpace(g1, g2)`."""

    def __init__(
        self,
        *groups: Group,
        slots: int | None = None,
        values: int | Sequence[int] | None = None,
        value_names: Sequence[Sequence[str]] | None = None,
    ) -> None:
        if bool(groups) == (slots is not None) or (slots is None) != (values is None):
            raise TaskError("a ConceptSpace takes either groups, or slots and values: ConceptSpace(slots=2, values=10)")
        if slots is not None and values is not None:
            (count,) = integers_of("the slots of a ConceptSpace are", [slots], "slots=2")
            groups = (Group(tuple(range(count)), values, value_names=value_names),)
        for group in groups:
            if not isinstance(group, Group):
                raise TaskError(f"a ConceptSpace was given {group!r}, expected a softpnet.Group")
        names = [group.name for group in groups]
        if len(set(names)) != len(names):
            raise TaskError(f"groups are named {names}; give each its own name")
        self.groups = groups
        self.slots = 1 + max(max(group.slots) for group in groups)
        # h_i of each concept, in the order of an assignment's columns
        self.sizes = tuple(h for group in groups for _ in group.slots for h in group.values)
        self.k = len(self.sizes)
        self.h = max(self.sizes)
        self.size = math.prod(self.sizes)

    def __repr__(self) -> str:
        return f"ConceptSpace({', '.join(map(repr, self.groups))})"

    def log_p(self, joints: Sequence[Tensor]) -> Tensor:
        """Log-probabilities over primitives, one `[B, n_g, P_g]` per group -> log p of every concept `[B, k, h]`.

        The joint is summed over all primitives that share an attribute's value; missing values are -inf.
        """
        parts = []
        for group, joint in zip(self.groups, joints, strict=True):
            table = group.primitive_table().to(joint.device)
            attributes = []
            for attribute, h in enumerate(group.values):
                shares = table[:, attribute, None] == torch.arange(h, device=joint.device)  # [P, h]
                barred = torch.zeros(shares.shape, device=joint.device).masked_fill(~shares, -math.inf)
                marginal = (joint[..., None] + barred).logsumexp(-2)  # [B, n_g, P, h] -> [B, n_g, h]
                attributes.append(torch.nn.functional.pad(marginal, (0, self.h - h), value=-math.inf))
            parts.append(torch.stack(attributes, dim=2).flatten(1, 2))  # [B, n_g, a, h] -> [B, n_g * a, h]
        return torch.cat(parts, dim=1)

    def split(self, assignments: Tensor) -> list[Tensor]:
        """Assignments `[..., k]` -> per group `[..., n_g, a]`."""
        parts = assignments.split([group.size for group in self.groups], dim=-1)
        return [
            part.unflatten(-1, (len(group.slots), len(group.values)))
            for group, part in zip(self.groups, parts, strict=True)
        ]

    def primitives(self, assignments: Tensor) -> list[Tensor]:
        """Assignments `[..., k]` -> primitive ids per group `[..., n_g]`; -1 where a tuple is no primitive."""
        ids = []
        for group, part in zip(self.groups, self.split(assignments), strict=True):
            same = (part[..., None, :] == group.primitive_table().to(part.device)).all(-1)  # [..., n_g, P]
            ids.append(torch.where(same.any(-1), same.int().argmax(-1), -1))
        return ids

    def contains(self, assignments: Tensor) -> Tensor:
        """Which assignments `[..., k]` have every value inside the space, `[...]`."""
        return ((assignments >= 0) & (assignments < torch.tensor(self.sizes, device=assignments.device))).all(-1)

    def consist_of_primitives(self, assignments: Tensor) -> Tensor:
        """Which assignments `[..., k]` inside the space consist of primitives only, `[...]`."""
        found = torch.ones(assignments.shape[:-1], dtype=torch.bool, device=assignments.device)
        for group, part in zip(self.groups, self.split(assignments), strict=True):
            if len(group.primitives) < math.prod(group.values):
                known = row_keys(group.primitive_table().to(part.device), group.values)
                found &= torch.isin(row_keys(part, group.values), known).all(-1)
        return found

    def keys(self, assignments: Tensor) -> Tensor:
        """One integer per assignment `[..., k]` -> `[...]`, to compare and look up rows."""
        return row_keys(assignments, self.sizes)

    def value_names(self) -> list[Sequence[str]]:
        """Names of the values of each concept, in the order of an assignment's columns."""
        return [names for group in self.groups for _ in group.slots for names in group.value_names]

    def all(self) -> Tensor:
        """Every assignment, `[size, k]`, in lexical order."""
        axes = [torch.arange(h) for h in self.sizes]
        return torch.cartesian_prod(*axes).reshape(-1, self.k)


def row_keys(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """Mixed-radix number of each row `[..., k]`; where that exceeds 63 bits, a fixed 64-bit mix of it."""
    keys = torch.zeros(rows.shape[:-1], dtype=torch.int64, device=rows.device)
    # Multiplying by an odd constant modulo 2^64 is one-to-one, so a collision needs an unlucky sum: odds about 2^-63.
    mixed = math.prod(sizes) >= 2**63
    for i, h in enumerate(sizes):
        keys = keys * (6364136223846793005 if mixed else h) + rows[..., i]
        if mixed:
            keys = keys ^ (keys >> 29)
    return keys


def check_name(what: str, name: Any) -> None:
    """What people call something goes into tables, pictures and files: a few characters that can be printed."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 100:
        raise TaskError(f"{what} is named {name!r:.100}; expected 1 to 100 printable characters")


def integers_of(what: str, given: Any, example: str) -> tuple[int, ...]:
    """A list of whole numbers, of whichever library, as plain ones; `what` begins the error, `example` ends it."""
    try:
        return tuple(map(operator.index, given))
    except TypeError:
        raise TaskError(f"{what} {given!r:.100}, expected whole numbers, as in {example}") from None


def is_number(value: Any) -> bool:
    """Whether it is one whole number, of whichever library."""
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0
