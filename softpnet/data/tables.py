"""Tables of users: a CSV file whose columns name image files, labels and concepts."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from softpnet.data.files import read_image
from softpnet.errors import InputError


class Table:
    """The rows of a CSV file with a header. A column's name gives one value per row, a list of names several."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.reader(file, strict=True)
                self.header = next(reader, [])
                self.rows = [(reader.line_num, cells) for cells in reader if cells]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{self.path} cannot be read as a CSV table: {error}") from error
        if len(set(self.header)) < len(self.header):
            raise InputError(f"{self.path} has two columns of one name: {', '.join(self.header)}; rename one")
        for line, cells in self.rows:
            if len(cells) != len(self.header):
                raise InputError(
                    f"{self.path}, line {line} has {len(cells)} cells, expected {len(self.header)} as in the header"
                )
        if not self.rows:
            raise InputError(f"{self.path} has no rows below its header; expected one per example")

    def images(self, columns: str | Sequence[str], shape: Sequence[int], *, resize: bool = False) -> Tensor:
        """The image files that the columns name, from the table's folder on: `[N, C, H, W]`, or `[N, n, C, H, W]`.

        Args:
            shape: channels (1: grey, 3: colour), height and width; `resize` scales images of another size.
        """
        folder = self.path.parent
        return self._read(columns, lambda cell, column: read_image(folder / cell, shape, resize))

    def integers(self, columns: str | Sequence[str], names: Sequence[str] = ()) -> Tensor:
        """Whole numbers, `[N]` or `[N, k]`; with `names`, the place of the cell's name among them."""
        number = {name: torch.tensor(at) for at, name in enumerate(names)}

        def read(cell: str, column: str) -> Tensor:
            try:
                return number[cell.strip()] if names else torch.tensor(int(cell))
            except (KeyError, ValueError, RuntimeError):
                expected = f"one of {', '.join(names)}" if names else "a whole number (or give names=)"
                raise InputError(f"column {column!r} has {cell!r}, expected {expected}") from None

        return self._read(columns, read)

    def _read(self, columns: str | Sequence[str], read: Callable[[str, str], Tensor]) -> Tensor:
        """Every cell of the columns, read: `[N, ...]` for one name, `[N, columns, ...]` for a list."""
        names = [columns] if isinstance(columns, str) else list(columns)
        unknown = [name for name in names if name not in self.header]
        if unknown or not names:
            raise InputError(
                f"{self.path} has no column {', '.join(unknown) or '(none was named)'}; it has {', '.join(self.header)}"
            )
        at = [self.header.index(name) for name in names]
        found = []
        for line, cells in self.rows:
            try:
                found.append(torch.stack([read(cells[i], self.header[i]) for i in at]))
            except InputError as error:
                raise InputError(f"{self.path}, line {line}: {error}") from error
        whole = torch.stack(found)
        return whole[:, 0] if isinstance(columns, str) else whole
