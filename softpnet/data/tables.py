"""Tables of users: CSV or Parquet files whose columns name image files, boxes in them, labels and concepts."""

from __future__ import annotations

import copy
import csv
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softpnet.data.files import check_shape, cut_out, open_image, pixels, read_image
from softpnet.data.image_files import ImageFiles, Unreadable
from softpnet.data.parquet import read_parquet
from softpnet.data.values import value_number
from softpnet.errors import InputError, about, quoted
from softpnet.storage import refuse_pipe
from softpnet.task.concepts import ConceptSpace

PARQUET = ".parquet"
ENDINGS = (".csv", PARQUET)
CORNERS = ("x0", "y0", "x1", "y1")
"""Of a box: left, top, right, bottom."""


class Table:
    """The rows of a CSV file with a header, or of a Parquet file. A column's name gives one value per row, a list of
    names several."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        refuse_pipe(self.path)
        self.unread: dict[str, str] = {}  # columns that are neither text nor numbers, with their types
        self.counted = "line"
        if self.path.suffix.lower() == PARQUET:
            self.header, rows, self.unread = read_parquet(self.path)
            self.rows, self.counted = list(enumerate(rows, start=1)), "row"
        else:
            self.header, self.rows = _read_csv(self.path)
        if len(set(self.header)) < len(self.header):
            raise InputError(f"{self.path} has two columns of one name: {quoted(self.header)}; rename one")
        for row, (_, cells) in enumerate(self.rows):
            if len(cells) != len(self.header):
                raise InputError(
                    f"{self.place(row)} has {len(cells)} cells, expected {len(self.header)} as in the header"
                )
        if not self.rows:
            raise InputError(f"{self.path} has no rows below its header; expected one per example")

    def place(self, row: int) -> str:
        """Where a row stands, for people: "new.csv, line 3"."""
        return f"{self.path}, {self.counted} {self.rows[row][0]}"

    def some(self, rows: Sequence[int]) -> Table:
        """The same table with these rows only, in this order."""
        part = copy.copy(self)
        part.rows = [self.rows[row] for row in rows]
        return part

    def images(self, columns: str | Sequence[str], shape: Sequence[int], *, resize: bool = False) -> Tensor:
        """The image files that the columns name, from the table's folder on: `[N, C, H, W]`, or `[N, n, C, H, W]`.

        Args:
            shape: channels (1: grey, 3: colour), height and width; `resize` scales images of another size.
        """
        check_shape(shape)
        whole = self._read(columns, lambda cell, *_: read_image(self._file(cell), shape, resize))
        return self._of_cells(whole, columns)

    def image_files(
        self, columns: Sequence[str], shape: Sequence[int], *, resize: bool = False, unreadable: Unreadable = "raise"
    ) -> ImageFiles:
        """The same for a list of columns, but read only when a batch asks for them; see `ImageFiles`."""
        check_shape(shape)
        at = [self._column(name) for name in columns]
        paths = [[self.path.parent / cells[i] for i in at] for _, cells in self.rows]
        return self._of_cells(ImageFiles(paths, shape, resize, unreadable), columns)

    def crops(self, image: str | Sequence[str], boxes: str | Sequence[str], shape: Sequence[int]) -> Tensor:
        """What is in boxes of image files, scaled to the shape: `[N, C, H, W]`, or `[N, n, C, H, W]` for several boxes.

        A box called "left" has the columns left_x0, left_y0 (its left upper corner), left_x1 and left_y1 (just outside
        its right lower one), in pixels; decimals are rounded. One called "" has the columns x0, y0, x1 and y1.

        Args:
            image: the column of the file that all boxes of a row are in, or a list of one column per box.
            shape: channels (1: grey, 3: colour), height and width.
        """
        check_shape(shape)
        names = [boxes] if isinstance(boxes, str) else list(boxes)
        files = [image] * len(names) if isinstance(image, str) else list(image)
        if len(files) != len(names):
            raise InputError(f"boxes {names} are cut out of the images {files}; expected one column, or one per box")
        corners = self._read([f"{name}_{corner}" if name else corner for name in names for corner in CORNERS], _pixel)
        found = corners.unflatten(1, (-1, 4)).tolist()  # [N, n, 4]
        opened = functools.lru_cache(maxsize=1)(open_image)  # often one file for all boxes of a row, or of many rows

        def read(cell: str, row: int, column: int) -> Tensor:
            path = self._file(cell)
            with about(f"box {names[column]!r}"):
                return (
                    pixels(cut_out(opened(path, shape[0]), found[row][column], path), shape, True, path).float() / 255
                )

        whole = self._of_cells(self._read(files, read), files, names)
        return whole[:, 0] if isinstance(boxes, str) else whole

    def texts(self, column: str) -> list[str]:
        """The cells of a column as they stand."""
        at = self._column(column)
        return [cells[at] for _, cells in self.rows]

    def integers(self, columns: str | Sequence[str], names: Sequence[str] = ()) -> Tensor:
        """Whole numbers, `[N]` or `[N, k]`; with `names`, the place of the cell's name among them."""
        known = [str(name).strip() for name in names]
        if len(set(known)) < len(known):
            raise InputError(f"names has one twice: {quoted(known)}; expected a name per value, in their order")
        expected = f"one of {quoted(known)}" if known else "a whole number of up to 63 bits (or give names=)"

        def read(cell: str, *_: int) -> Tensor:
            try:
                if not known and "_" in cell:  # which Python reads over
                    raise ValueError
                return torch.tensor(known.index(cell) if known else int(cell))
            except (ValueError, RuntimeError):  # no number or name; too large
                raise InputError(f"{quoted(cell)}, expected {expected}") from None

        return self._read(columns, read)

    def concepts(self, columns: Sequence[str], space: ConceptSpace) -> Tensor:
        """True concepts `[N, k]`, one column each in the space's order; cells are names of values, or their numbers."""
        names = space.value_names()
        if isinstance(columns, str) or len(columns) != space.k:
            raise InputError(f"concepts are in columns {columns!r}, expected {space.k} columns, one per concept")
        return self._read(columns, lambda cell, _, concept: torch.tensor(value_number(cell, names[concept])))

    def _of_cells(self, inputs: Any, columns: str | Sequence[str], boxes: Sequence[str] = ()) -> Any:
        """The inputs, which then name the cell that a slot was read from; a tensor only as long as it is the same."""
        inputs.cell_of = Cells(self, [columns] if isinstance(columns, str) else columns, boxes).cell_of
        return inputs

    def _file(self, cell: str) -> Path:
        if not cell:
            raise InputError("the cell is empty, expected the name of an image file")
        return self.path.parent / cell

    def _column(self, name: str) -> int:
        if name not in self.header:
            apart = "; separate its columns by commas" if len(self.header) == 1 else ""
            raise InputError(f"{self.path} has no column {quoted(name)}; it has {quoted(self.header)}{apart}")
        if name in self.unread:
            kind = self.unread[name]
            raise InputError(f"{self.path}, column {quoted(name)} holds {kind:.100}, expected text or numbers")
        return self.header.index(name)

    def _read(self, columns: str | Sequence[str], read: Callable[[str, int, int], Tensor]) -> Tensor:
        """Every cell of the columns, read: `[N, ...]` for one name, `[N, columns, ...]` for a list.

        `read` also gets the number of the row, and of the column among those named.
        """
        names = [columns] if isinstance(columns, str) else list(columns)
        at = [self._column(name) for name in names]
        if not names:
            raise InputError(f"no column of {self.path} was named; it has {quoted(self.header)}")
        whole = torch.empty(0)
        for row, (_, cells) in enumerate(self.rows):
            for column, i in enumerate(at):
                try:
                    value = read(cells[i], row, column)
                except InputError as error:
                    raise InputError(f"{self.place(row)}, column {quoted(self.header[i])}: {error}") from error
                if not len(whole):  # filled as it is read, so that nothing is in memory twice
                    whole = value.new_empty(len(self.rows), len(at), *value.shape)
                whole[row, column] = value
        return whole[:, 0] if isinstance(columns, str) else whole


class Cells(NamedTuple):
    """Columns of a table, and boxes in what they name, that slots are read from."""

    table: Table
    columns: Sequence[str]  # one per slot
    boxes: Sequence[str]  # one per slot, or none

    def cell_of(self, example: int, slot: int) -> dict[str, str]:
        """The file of a slot, and where it is named."""
        column = self.columns[slot]
        file = self.table.rows[example][1][self.table.header.index(column)]
        box = f", box {self.boxes[slot]!r}" if self.boxes else ""
        return {"file": str(self.table.path.parent / file), "column": column + box, "row": self.table.place(example)}


def _pixel(cell: str, *_: int) -> Tensor:
    try:
        if "_" in cell:  # which Python reads over
            raise ValueError
        return torch.tensor(round(float(cell)))
    except (ValueError, OverflowError, RuntimeError):  # no number; infinite; too large
        raise InputError(f"{quoted(cell)}, expected a number of pixels") from None


def _read_csv(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the number and cells of each line below it."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            found = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if cells]
            while found and not any(found[0][1]):  # empty rows above the header, as spreadsheets write them
                found.pop(0)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}); save it as CSV in UTF-8") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read as a CSV table: {error}") from error
    except csv.Error as error:
        raise InputError(
            f"{path} cannot be read as a CSV table: {error}, at line {reader.line_num} "
            "(or a quote before it is not closed)"
        ) from error
    return (found[0][1] if found else []), found[1:]
