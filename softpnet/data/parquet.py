"""Parquet files as tables of text, read by pyarrow (the extra `parquet`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from softpnet.catalogue import optional_package
from softpnet.errors import InputError

SCALAR = r"(large_)?string(_view)?|u?int\d+|bool|halffloat|float|double|null"
PLAIN = re.compile(rf"{SCALAR}|dictionary<values=({SCALAR}),.*")
"""Types, in pyarrow's words, whose cells are text or numbers. Columns of others, such as bytes, are not read."""


def read_parquet(path: Path) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """The names of all columns, the cells of each row, and the types of the columns that were not read."""
    reader = optional_package("pyarrow.parquet", "parquet")
    try:
        with path.open("rb") as file:  # a name could be taken for an address on the network
            parquet = reader.ParquetFile(file)
            types = {field.name: str(field.type) for field in parquet.schema_arrow}
            names = [field.name for field in parquet.schema_arrow]
            other = {name: kind for name, kind in types.items() if not PLAIN.fullmatch(kind)}
            read = parquet.read(columns=[name for name in types if name not in other])
            count = parquet.metadata.num_rows
            columns = [[""] * count if name in other else _texts(read.column(name)) for name in names]
    except Exception as error:  # whatever a damaged file leads to
        raise InputError(f"{path} cannot be read as a Parquet table: {error}") from error
    return names, [list(row) for row in zip(*columns, strict=True)], other


def _texts(column: Any) -> list[str]:
    return [_text(cell) for cell in column.to_pylist()]


def _text(cell: Any) -> str:
    """As it would stand in a CSV table: whole numbers without a point, true and false as 1 and 0."""
    if cell is None:
        return ""
    if isinstance(cell, bool) or (isinstance(cell, float) and cell.is_integer()):
        return str(int(cell))
    return str(cell).strip()
