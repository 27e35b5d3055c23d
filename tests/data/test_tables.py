"""Tables of users are read as they stand, or refused with the line that is wrong."""

import numpy
import pytest
import torch
from PIL import Image

from softpnet import InputError
from softpnet.data.tables import Table

RED, GREY = (255, 0, 0), (51, 51, 51)


@pytest.fixture
def table(tmp_path):
    """Makes a table of the text; beside it are a red.png and a grey.png of 3x2 pixels."""
    for name, colour in {"red": RED, "grey": GREY}.items():
        Image.fromarray(numpy.full((2, 3, 3), colour, dtype=numpy.uint8)).save(tmp_path / f"{name}.png")

    def make(text, encoding="utf-8"):
        (tmp_path / "table.csv").write_bytes(text.encode(encoding))
        return Table(str(tmp_path / "table.csv"))

    return make


def test_one_column_gives_a_value_per_row_and_a_list_of_columns_several(table):
    made = table("a,b,n\nred.png,grey.png,3\ngrey.png,grey.png,-4\n")
    assert made.integers("n").tolist() == [3, -4] and made.integers(["n", "n"]).tolist() == [[3, 3], [-4, -4]]
    assert made.integers(["n"]).tolist() == [[3], [-4]] and made.integers("n").dtype == torch.int64
    one, two = made.images("a", (3, 2, 3)), made.images(["a", "b"], (3, 2, 3))
    assert one.shape == (2, 3, 2, 3) and two.shape == (2, 2, 3, 2, 3)
    assert one.dtype == torch.float32 and one[0, :, 0, 0].tolist() == [1, 0, 0] and torch.equal(two[:, 0], one)
    torch.testing.assert_close(two[:, 1], torch.full((2, 3, 2, 3), 0.2))
    assert made.images("a", (1, 4, 4), resize=True).shape == (2, 1, 4, 4)


def test_names_stand_for_their_places(table):
    made = table("what,why\nbad, good\ngood ,bad\n")
    assert made.integers(["what", "why"], names=["bad", "good"]).tolist() == [[0, 1], [1, 0]]


def test_spreadsheets_quotes_empty_lines_and_absolute_paths_are_read(table, tmp_path):
    made = table(f'"image, front",n\r\n"{tmp_path / "red.png"}",1\r\n\r\nred.png,2\r\n', encoding="utf-8-sig")
    assert made.integers("n").tolist() == [1, 2] and made.images("image, front", (3, 2, 3)).shape == (2, 3, 2, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows below its header"),
        ("a,b\n", "has no rows below its header"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cells, expected 2"),
        ("a,a\n1,2\n", "two columns of one name: a, a"),
        ("a\n\0\xff", "cannot be read as a CSV table"),
    ],
)
def test_a_table_that_is_none_is_refused(table, text, message):
    with pytest.raises(InputError, match=message):
        table(text, encoding="latin-1")


def test_a_table_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"missing\.csv cannot be read as a CSV table: .*No such file"):
        Table(tmp_path / "missing.csv")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda t: t.integers("c"), r"has no column c; it has image, n$"),
        (lambda t: t.integers([]), r"none was named"),
        (lambda t: t.integers("n"), r"table\.csv, line 3: column 'n' has 'two', expected a whole number \(or give nam"),
        (lambda t: t.integers("n", names=["one", "two"]), r"line 2: column 'n' has '1', expected one of one, two"),
        (lambda t: t.images("image", (3, 4, 4)), r"line 2: .*red\.png is 3x2, expected 4x4; .*resize=True"),
        (lambda t: t.images("image", (3, 2, 3)), r"line 3: .*blue\.png cannot be read as an image"),
        (lambda t: t.images("image", (2, 2, 3)), r"2 channels are asked for, expected 1 \(grey\) or 3 \(colour\)"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_with_its_line(table, read, message):
    made = table("image,n\nred.png,1\nblue.png,two\n")
    with pytest.raises(InputError, match=message):
        read(made)
