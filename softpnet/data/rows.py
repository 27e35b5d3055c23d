"""Rows from a file: a rule, or a cache, that somebody else has made."""

from __future__ import annotations

import re
from pathlib import Path

from softpnet.data.tables import Table
from softpnet.errors import InputError, quoted
from softpnet.rules.rows import stored_rows
from softpnet.task.rows import Rows


def read_rows(path: str | Path, other: int = -1) -> Rows:
    """Rows from a safetensors file (`rows`, `labels`, `complete`), or a CSV table with a column per concept, in their
    order, and one named "label", or several named "label 0", "label 1", ... As a rule, all other assignments have the
    label `other`."""
    path = Path(path)
    if path.suffix.lower() != ".csv":
        return stored_rows(path, other)
    table = Table(path)
    labels = sorted((name for name in table.header if re.fullmatch(r"label ?\d*", name)), key=_entry)
    concepts = [name for name in table.header if name not in labels]
    if not labels or not concepts:
        raise InputError(
            f"{path} has the columns {quoted(table.header)}, expected one per concept and one named 'label'"
        )
    if labels != ["label"] and [_entry(name) for name in labels] != list(range(len(labels))):
        raise InputError(
            f"{path} has the label columns {quoted(labels)}, expected 'label' alone, or 'label 0', 'label 1', ... "
            "without a gap; rename them, or add what is missing"
        )
    given = table.integers(labels[0] if len(labels) == 1 else labels)
    return Rows(table.integers(concepts), labels=given, other=other)


def _entry(column: str) -> int:
    """Which entry of the label a column has; -1 where it names none."""
    return int(column.removeprefix("label").strip() or -1)
