"""Tables of users: a CSV file whose columns name image files, labels and concepts."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from softpnet.data.files import read_image
from softpnet.errors import InputError
from softpnet.storage import refuse_pipe


class Table:
    """The rows of a CSV file with a header. A column's name gives one value per row, a list of names several."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        refuse_pipe(self.path)
        try:
            with self.path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.reader(file, strict=True)
                found = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if cells]
                while found and not any(found[0][1]):  # empty rows above the header, as spreadsheets write them
                    found.pop(0)
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path} is not text in UTF-8 ({error}); save it as CSV in UTF-8") from error
        except OSError as error:
            raise InputError(f"{self.path} cannot be read as a CSV table: {error}") from error
        except csv.Error as error:
            raise InputError(
                f"{self.path} cannot be read as a CSV table: {error}, at line {reader.line_num} "
                "(or a quote before it is not closed)"
            ) from error
        self.header = found[0][1] if found else []
        self.rows = found[1:]
        if len(set(self.header)) < len(self.header):
            raise InputError(f"{self.path} has two columns of one name: {self.header}; rename one")
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
        if len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1:
            raise InputError(f"shape is {tuple(shape)}, expected (channels, height, width), with 1 or 3 channels")

        def read(cell: str) -> Tensor:
            if not cell:
                raise InputError("the cell is empty, expected the name of an image file")
            return read_image(self.path.parent / cell, shape, resize)

        return self._read(columns, read)

    def integers(self, columns: str | Sequence[str], names: Sequence[str] = ()) -> Tensor:
        """Whole numbers, `[N]` or `[N, k]`; with `names`, the place of the cell's name among them."""
        known = [str(name).strip() for name in names]
        if len(set(known)) < len(known):
            raise InputError(f"names has one twice: {known}; expected each value's own name, in the order of numbers")
        expected = f"one of {known}" if known else "a whole number of up to 63 bits (or give names=)"

        def read(cell: str) -> Tensor:
            try:
                if not known and "_" in cell:  # which Python reads over
                    raise ValueError
                return torch.tensor(known.index(cell) if known else int(cell))
            except (ValueError, RuntimeError):  # no number or name; too large
                raise InputError(f"{cell!r}, expected {expected}") from None

        return self._read(columns, read)

    def _read(self, columns: str | Sequence[str], read: Callable[[str], Tensor]) -> Tensor:
        """Every cell of the columns, read: `[N, ...]` for one name, `[N, columns, ...]` for a list."""
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if name not in self.header:
                apart = "; separate its columns by commas" if len(self.header) == 1 else ""
                raise InputError(f"{self.path} has no column {name!r}; it has {self.header}{apart}")
        if not names:
            raise InputError(f"no column of {self.path} was named; it has {self.header}")
        at = [self.header.index(name) for name in names]
        whole = torch.empty(0)
        for row, (line, cells) in enumerate(self.rows):
            for column, i in enumerate(at):
                try:
                    value = read(cells[i])
                except InputError as error:
                    raise InputError(f"{self.path}, line {line}, column {self.header[i]!r}: {error}") from error
                if not len(whole):  # filled as it is read, so that nothing is in memory twice
                    whole = value.new_empty(len(self.rows), len(at), *value.shape)
                whole[row, column] = value
        return whole[:, 0] if isinstance(columns, str) else whole
