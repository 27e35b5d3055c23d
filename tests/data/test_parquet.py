"""Parquet tables are read as CSV tables are; a missing pyarrow is one sentence."""

import sys

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from softpnet import InputError
from softpnet.data import parquet
from softpnet.data.tables import Table

KINDS = {
    "path": "string",
    "label": "int8",
    "share": "double",
    "fine": "bool",
    "bytes": "binary",
    "kind": "dictionary<values=string, indices=int32, ordered=0>",
}


@pytest.fixture
def write(tmp_path):
    """Writes rows of the columns in KINDS to a Parquet file; its path."""

    def to_file(rows):
        cells = dict(zip(KINDS, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(KINDS, ())
        columns = {
            name: pyarrow.array(each, "string" if name == "kind" else KINDS[name]) for name, each in cells.items()
        }
        columns["kind"] = columns["kind"].dictionary_encode()
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "table.parquet")
        return tmp_path / "table.parquet"

    return to_file


def test_columns_are_read_as_those_of_a_csv_table(write, tmp_path):
    Image.new("L", (3, 2), 51).save(tmp_path / "grey.png")
    made = Table(write([["grey.png", 1, 2.0, True, "x", "b"], [" grey.png", -3, 2.5, False, "x", "a"]]))
    assert made.header == list(KINDS)
    assert made.images("path", (1, 2, 3)).shape == (2, 1, 2, 3)
    assert made.integers(["label", "fine"]).tolist() == [[1, 1], [-3, 0]]
    assert made.integers("kind", names=["a", "b"]).tolist() == [1, 0]
    with pytest.raises(InputError, match=r"table\.parquet, row 2, column 'share': '2\.5', expected a whole number"):
        made.integers("share")  # the first is one


def test_what_cannot_be_read_is_one_sentence(write, tmp_path):
    made = Table(write([["grey.png", None, 2.0, True, "x", "b"]]))
    with pytest.raises(InputError, match=r"table\.parquet, row 1, column 'label': '', expected a whole number"):
        made.integers("label")
    with pytest.raises(InputError, match=r"table\.parquet, column 'bytes' holds binary, expected text or numbers"):
        made.images("bytes", (1, 2, 3))
    with pytest.raises(InputError, match=r"table\.parquet has no rows below its header"):
        Table(write([]))
    (tmp_path / "table.PARQUET").write_text("no table")
    with pytest.raises(InputError, match=r"table\.PARQUET cannot be read as a Parquet table: "):
        Table(tmp_path / "table.PARQUET")
    with pytest.raises(InputError, match=r"none\.parquet cannot be read as a Parquet table: .*No such file"):
        Table(tmp_path / "none.parquet")


def test_a_file_that_would_be_a_huge_table_is_refused_before_it_is_read(write, monkeypatch):
    path = write(5 * [["grey.png", 1, 2.0, True, "x", "b"]])
    assert len(Table(path).rows) == 5
    monkeypatch.setattr(parquet, "SMALL", 1_000)
    monkeypatch.setattr(parquet, "MOST_TIMES", 0.1)
    monkeypatch.setattr(parquet, "_texts", None)  # which would read
    with pytest.raises(InputError, match=r"its 5 rows of 5 columns take about .* MB of memory, expected at most"):
        Table(path)


def test_a_long_cell_is_quoted_in_short(write):
    said = r"table\.parquet, row 1, column 'kind': 'aaa.*, expected a whole number"
    with pytest.raises(InputError, match=said) as error:
        Table(write([["grey.png", 1, 2.0, True, "x", 5_000_000 * "a"]])).integers("kind")
    assert len(str(error.value)) < 500


def test_a_text_that_many_rows_share_is_in_memory_once(tmp_path):
    for kind in ("string", "large_string"):
        cells = pyarrow.array(["a" * 1_000, None, "a" * 1_000], kind)
        pyarrow.parquet.write_table(pyarrow.table({"a": cells}), tmp_path / "table.parquet")
        (_, one), (_, none), (_, other) = Table(tmp_path / "table.parquet").rows
        assert one[0] is other[0] and one[0] == "a" * 1_000 and none == [""]


def test_a_missing_pyarrow_names_the_command(write, monkeypatch):
    path = write([["grey.png", 1, 2.0, True, "x", "b"]])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"package pyarrow is missing; pip install 'softpnet\[parquet\]' brings it"):
        Table(path)
