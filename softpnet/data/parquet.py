"""Parquet files as tables of text, read by pyarrow (the extra `parquet`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from softpnet.catalogue import optional_package
from softpnet.errors import InputError

TEXT = r"(large_)?string(_view)?"
SCALAR = rf"{TEXT}|u?int\d+|bool|halffloat|float|double|null"
PLAIN = re.compile(rf"{SCALAR}|dictionary<values=({SCALAR}),.*")
"""Types, in pyarrow's words, whose cells are text or numbers. Columns of others, such as bytes, are not read."""

CELL = 128
"""About so many bytes a cell takes in memory, beside its text."""
SMALL, MOST_TIMES = 2**27, 1000
"""A file may always expand to so many bytes, and a larger one to so many times its size."""


def read_parquet(path: Path) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """The names of all columns, the cells of each row, and the types of the columns that were not read."""
    reader = optional_package("pyarrow.parquet", "parquet")
    try:
        with path.open("rb") as file:  # a name could be taken for an address on the network
            parquet = reader.ParquetFile(file)
            types = {field.name: str(field.type) for field in parquet.schema_arrow}
            names = [field.name for field in parquet.schema_arrow]
            other = {name: kind for name, kind in types.items() if not PLAIN.fullmatch(kind)}
            count, plain = parquet.metadata.num_rows, [name for name in types if name not in other]
            _check_size(parquet.metadata, plain, path)
            # A text that a million rows share is in the file once, and so it stays.
            shared = [name for name in plain if re.fullmatch(TEXT, types[name])]
            read = reader.ParquetFile(file, read_dictionary=shared).read(columns=plain)
            columns = [[""] * count if name in other else _texts(read.column(name)) for name in names]
    except Exception as error:  # whatever a damaged file leads to
        raise InputError(f"{path} cannot be read as a Parquet table: {error!s:.300}") from error
    return names, [list(row) for row in zip(*columns, strict=True)], other


def _check_size(metadata: Any, names: list[str], path: Path) -> None:
    """Raise for a small file that would be a huge table; nothing is read yet."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(metadata.num_columns)]
    texts = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in names)
    size, limit = metadata.num_rows * len(names) * CELL + texts, max(SMALL, MOST_TIMES * path.stat().st_size)
    if size > limit:
        raise ValueError(
            f"its {metadata.num_rows:,} rows of {len(names)} columns take about {size / 1e6:,.0f} MB of memory, "
            f"expected at most {limit / 1e6:,.0f} from a file of this size; if it is really so large, save it as CSV"
        )


def _texts(column: Any) -> list[str]:
    return [cell for chunk in column.chunks for cell in _texts_of(chunk)]


def _texts_of(chunk: Any) -> list[str]:
    if not hasattr(chunk, "dictionary"):
        return [_text(cell) for cell in chunk.to_pylist()]
    words = [_text(cell) for cell in chunk.dictionary.to_pylist()]
    return ["" if at is None else words[at] for at in chunk.indices.to_pylist()]


def _text(cell: Any) -> str:
    """As it would stand in a CSV table: whole numbers without a point, true and false as 1 and 0."""
    if cell is None:
        return ""
    if isinstance(cell, bool) or (isinstance(cell, float) and cell.is_integer()):
        return str(int(cell))
    return str(cell).strip()
