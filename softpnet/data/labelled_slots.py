"""Training slots to label by hand: the table that `suggest --into` writes and `train --anchors` reads."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softpnet.data.tables import Table
from softpnet.data.values import value_number
from softpnet.errors import InputError, about
from softpnet.storage import write_whole
from softpnet.task.anchors import arrange_anchors
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.data import Anchors, Inputs
from softpnet.task.lazy import numbers
from softpnet.terminal import harmless

SLOT = ["example", "slot"]
DIGEST = "input"
"""Of the input that was suggested: with another seed or option, an example of the same number may be another one."""


def cell_of(inputs: Inputs, example: int, slot: int) -> dict[str, str]:
    """The file of a slot's input, with the column and the row that name it; empty where that is not known."""
    named = getattr(getattr(inputs, "source", inputs), "cell_of", None)
    return named(example, slot) if named else {}


def check_free(path: Path) -> None:
    """Raise where the table cannot be written, or would replace what somebody has filled in."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"--into is {path}, expected the name of a new CSV table, such as labels.csv")
    if path.exists():
        raise InputError(f"{path} is there already, and may hold labels; name another file, and train with both")


def write_slots(path: Path, space: ConceptSpace, inputs: Inputs, slots: Tensor, read_as: Sequence[str]) -> list[str]:
    """Write slots `[M, 2]`, what they are read as and empty columns for what they show; the names of those columns."""
    values = [name for group in space.groups for name in _columns(space, group)]
    cells = [cell_of(inputs, *slot) for slot in slots.tolist()]
    digests = _digests(inputs[slots[:, 0]][torch.arange(len(slots)), slots[:, 1]])
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow([*SLOT, *(cells[0] if cells else {}), "read as", *values, DIGEST])
    for slot, cell, read, digest in zip(slots.tolist(), cells, read_as, digests, strict=True):
        writer.writerow([*slot, *map(harmless, cell.values()), harmless(read), *("" for _ in values), digest])
    write_whole(path, lines.getvalue().encode())
    return values


def with_labelled(
    paths: Sequence[Path], space: ConceptSpace, inputs: Inputs, anchors: Any
) -> tuple[dict[str, Anchors], int]:
    """Anchors by group, joined by what tables say that training slots show; and how many these are."""
    arranged = arrange_anchors(space, anchors, inputs.shape[2:])
    joined = {group.name: Anchors(*own) for group, own in zip(space.groups, arranged, strict=True)}
    labelled: dict[str, list[Tensor]] = {group.name: [] for group in space.groups}
    for path in paths:
        table, empty = Table(path), True
        slots = table.integers(SLOT)  # [N, 2]
        for group in space.groups:
            rows, values = _shown(table, _columns(space, group), group)
            if rows:
                with about(str(path)):
                    named = Anchors.at(space, inputs, slots[rows], values, group.name)
                _check_digests(table, rows, named.inputs)
                labelled[group.name].append(torch.cat([slots[rows], torch.tensor(values)[:, None]], 1))
                empty = False
        if empty:
            raise InputError(f"no row of {path} is filled in; name the value of at least one slot")
    count = 0
    for name, parts in labelled.items():
        if parts:
            once = torch.cat(parts).unique(dim=0)  # [M, 3]; a slot with two values is refused
            joined[name] = joined[name].joined(Anchors.at(space, inputs, once[:, :2], once[:, 2], name))
            count += len(once)
    return joined, count


def _columns(space: ConceptSpace, group: Group) -> list[str]:
    """A column for each attribute of a group's slots."""
    names = [group.name] * (len(space.groups) > 1)
    each = [[*names, f"attribute {a}"] if len(group.values) > 1 else names for a in range(len(group.values))]
    return [f"value of {'/'.join(name)}" if name else "value" for name in each]


def _shown(table: Table, columns: Sequence[str], group: Group) -> tuple[list[int], list[int]]:
    """The rows that are filled in for a group, and the number of the primitive that each names."""
    order = {primitive: number for number, primitive in enumerate(group.primitives)}
    rows, shown = [], []
    for row, cells in enumerate(zip(*map(table.texts, columns), strict=True)):
        if not any(cells):
            continue
        values = []
        for column, cell, names in zip(columns, cells, group.value_names, strict=True):
            with about(f"{table.place(row)}, column {column!r}"):
                values.append(value_number(cell, names))
        if tuple(values) not in order:
            raise InputError(f"{table.place(row)}: {' '.join(cells)} is no primitive of group {group.name!r}")
        rows.append(row)
        shown.append(order[tuple(values)])
    return rows, shown


def _check_digests(table: Table, rows: Sequence[int], inputs: Tensor) -> None:
    """Raise where a slot's input is not the one that was suggested."""
    if DIGEST not in table.header:
        return
    suggested = table.texts(DIGEST)
    for row, digest in zip(rows, _digests(inputs), strict=True):
        if suggested[row] != digest:
            raise InputError(
                f"{table.place(row)}: the input of this slot has changed since it was suggested; use the seed, options "
                f"and files of that run, or remove the column {DIGEST!r} to skip this check"
            )


def _digests(inputs: Tensor) -> list[str]:
    """A short sha256 of each input `[M, *shape]`; its name keeps a spreadsheet from taking it for a number."""
    plain = numbers(inputs).cpu()
    return [f"sha256:{hashlib.sha256(each.contiguous().numpy().tobytes()).hexdigest()[:12]}" for each in plain]
