"""Tables of users are read as they stand, or refused with the line that is wrong."""

import struct

import numpy
import pytest
import torch
from PIL import Image

from softpnet import ConceptSpace, Group, InputError
from softpnet.data.files import open_image, read_image
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
    for names in (["bad", "good"], numpy.array(["bad ", "good"])):
        assert made.integers(["what", "why"], names=names).tolist() == [[0, 1], [1, 0]]
    assert table("n\nleft_1\n").integers("n", names=["right_1", "left_1"]).tolist() == [1]
    assert table("n\n7\n5\n").integers("n", names=[5, 6, 7]).tolist() == [2, 0]


def test_spreadsheets_quotes_spaces_empty_lines_and_absolute_paths_are_read(table, tmp_path):
    text = f'"image, front", n,note\r\n"{tmp_path / "red.png"}",1,"two\r\nlines"\r\n\r\n red.png,2,\r\n'
    text = "\r\n,,\r\n \r\n" + text
    made = table(text, encoding="utf-8-sig")
    assert made.integers("n").tolist() == [1, 2] and made.images("image, front", (3, 2, 3)).shape == (2, 3, 2, 3)
    assert made.rows[0][1][2] == "two\r\nlines"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows below its header"),
        ("a,b\n", "has no rows below its header"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cells, expected 2"),
        ("a,a\n1,2\n", r"two columns of one name: \['a', 'a'\]; rename one"),
        ("a\n\xff", "is not text in UTF-8 .*; save it as CSV in UTF-8"),
        ('a\n"never closed\n', r"CSV table: unexpected end of data, at line 2 \(or a quote before it is not closed\)"),
        ('a,b\n1,2\n"3"4,5\n', "CSV table: ',' expected after '\"', at line 3"),
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
        (lambda t: t.integers("c"), r"has no column 'c'; it has \['image', 'n', 'm', 'o'\]$"),
        (lambda t: t.integers([]), r"no column of .* was named"),
        (
            lambda t: t.integers("n"),
            r"line 3, column 'n': 'two', expected a whole number of up to 63 bits \(or give nam",
        ),
        (lambda t: t.integers("o"), r"line 2, column 'o': '1_0', expected a whole number"),
        (lambda t: t.integers("m"), r"line 3, column 'm': '10{23}', expected a whole number of up to 63 bits"),
        (lambda t: t.integers("n", names=["one", "two"]), r"line 2, column 'n': '1', expected one of \['one', 'two'\]"),
        (lambda t: t.integers("n", names=["x", "y", "x"]), r"names has one twice: \['x', 'y', 'x'\]"),
        (
            lambda t: t.images("image", (3, 4, 4)),
            r"line 2, column 'image': .*red\.png is 3x2, expected 4x4; .*resize=Tr",
        ),
        (lambda t: t.images("image", (3, 2, 3)), r"line 3, column 'image': .*blue\.png cannot be read as an image"),
        (
            lambda t: t.images("image", (2, 3, 3)),
            r"shape is \(2, 3, 3\), expected \(channels, height, width\), with 1 or",
        ),
        (lambda t: t.images("image", (3, 2)), r"shape is \(3, 2\), expected \(channels, height, width\)"),
        (lambda t: t.images("image", (3, 0, 2), resize=True), r"shape is \(3, 0, 2\), expected"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line_and_column(table, read, message):
    made = table(f"image,n,m,o\nred.png,1,1,1_0\nblue.png,two,{10**23},1\n")
    with pytest.raises(InputError, match=message):
        read(made)


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.integers("n"),
        lambda t: t.integers("n", names=["one"]),
        lambda t: t.integers("c"),
        lambda t: t.images("n", (3, 2, 3)),
        lambda t: t.image_files(["n"], (3, 2, 3))[0],
        lambda t: t.crops("n", [""], (3, 2, 3)),
        lambda t: t.concepts(["n"], ConceptSpace(slots=1, values=2)),
    ],
)
def test_a_long_cell_and_a_long_header_are_quoted_in_short(table, read):
    long, names = 100_000 * "z", [f"column{number}" for number in range(5_000)]
    made = table(",".join(["n", "x0", "y0", "x1", "y1", long, *names]) + f"\n{long},0,0,1,1,{5_000 * ','}\n")
    with pytest.raises(InputError, match=r"\.\.\.zzz|no column 'c'") as refused:
        read(made)
    assert len(str(refused.value)) < 2_000


def test_other_separators_and_empty_cells_are_told_as_such(table):
    with pytest.raises(InputError, match=r"it has \['image;n'\]; separate its columns by commas"):
        table("image;n\nred.png;1\n").integers("n")
    with pytest.raises(InputError, match=r"line 2, column 'image': the cell is empty, expected the name of an image"):
        table("image,n\n,1\n").images("image", (3, 2, 3))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (Image.new("RGBA", (3, 2), (0, 0, 0, 254)), "transparent pixels; lay it on a background"),
        (Image.new("LA", (3, 2), (9, 0)), "transparent pixels; lay it on a background"),
        (Image.new("F", (3, 2), 0.5), "no numbers of 8 or 16 bits"),
        (Image.new("I", (3, 2), 70_000), "no numbers of 8 or 16 bits"),
        (Image.new("I", (3, 2), 200), "no numbers of 8 or 16 bits"),
    ],
    ids=["transparent colour", "transparent grey", "floating point", "32 bits", "8 bits stored in 32"],
)
def test_images_that_would_silently_lose_what_they_show_are_refused(tmp_path, image, message):
    image.save(tmp_path / "image.tiff")
    with pytest.raises(InputError, match=message):
        read_image(tmp_path / "image.tiff", (1, 2, 3))


@pytest.mark.parametrize("name", ["image.eps", "image.dds", "image.png"])
def test_only_common_formats_are_tried(tmp_path, name):
    image = tmp_path / name
    Image.new("RGB", (3, 2)).save(image) if name != "image.png" else image.write_text("no image")
    with pytest.raises(InputError, match=f"{name} cannot be read as an image: damaged, or none of PNG, JPEG, TIFF"):
        read_image(image, (3, 2, 3))


def test_a_tiff_of_twelve_bits_is_refused_and_not_read_as_dark(tmp_path):
    tags = [(256, 2), (257, 1), (258, 12), (259, 1), (262, 1), (273, 8), (277, 1), (278, 1), (279, 3)]
    entries = b"".join(struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in tags)
    white = b"\xff\xff\xff\0"  # two pixels of 4,095 and a byte to fill up
    head = b"II*\0" + struct.pack("<I", 8 + len(white)) + white + struct.pack("<H", len(tags))
    (tmp_path / "image.tiff").write_bytes(head + entries + bytes(4))
    with Image.open(tmp_path / "image.tiff") as image:
        assert numpy.asarray(image).tolist() == [[4095, 4095]]
    with pytest.raises(InputError, match="no numbers of 8 or 16 bits"):
        read_image(tmp_path / "image.tiff", (1, 1, 2))


def test_images_are_read_as_a_viewer_shows_them(tmp_path):
    pixels = numpy.arange(6, dtype=numpy.uint8).reshape(2, 3) * 50
    turned = Image.Exif()
    turned[0x0112] = 6  # turn by 90 degrees clockwise
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=turned)
    read = read_image(tmp_path / "turned.png", (1, 3, 2))
    assert (read[0] * 255).round().tolist() == numpy.rot90(pixels, -1).tolist()
    Image.new("RGBA", (3, 2), (*RED, 255)).save(tmp_path / "opaque.png")
    assert read_image(tmp_path / "opaque.png", (3, 2, 3))[:, 0, 0].tolist() == [1, 0, 0]
    for name in ("deep.png", "deep.pgm", "deep.tiff"):
        Image.fromarray(numpy.full((2, 3), 65_535, dtype=numpy.uint16)).save(tmp_path / name)
        assert read_image(tmp_path / name, (1, 2, 3)).unique().tolist() == [1]


# Boxes in one image


@pytest.fixture
def photo(tmp_path):
    """A grey image of 6x4 pixels, each of its own brightness, written as photo.png."""
    pixels = 10 * numpy.arange(24, dtype=numpy.uint8).reshape(4, 6)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return torch.from_numpy(pixels).float() / 255


BOXES = "photo,left_x0,left_y0,left_x1,left_y1,right_x0,right_y0,right_x1,right_y1,x0,y0,x1,y1\n"


def test_boxes_are_cut_out_of_one_image_and_scaled(table, photo):
    made = table(f"{BOXES}photo.png,0,0,3,2,3,2,6,4,0,0,6,4\nphoto.png,1,1,4,3,0.6,0.4,3.7,2.4,0,0,6,4\n")
    found = made.crops("photo", ["left", "right"], (1, 2, 3))
    expected = [photo[:2, :3], photo[2:, 3:], photo[1:3, 1:4], photo[:2, 1:4]]  # decimals are rounded
    torch.testing.assert_close(found, torch.stack(expected).view(2, 2, 1, 2, 3))
    assert torch.equal(made.crops("photo", "right", (1, 2, 3)), found[:, 1])
    assert torch.equal(made.crops("photo", [""], (1, 4, 6))[:, 0], photo.expand(2, 1, 4, 6))
    flat = made.crops("photo", ["left"], (3, 4, 4))  # in colour, and of another size
    assert flat.shape == (2, 1, 3, 4, 4) and photo[:2, :3].min() <= flat[0].min() < flat[0].max() <= photo[:2, :3].max()


def test_every_box_may_have_its_own_image(table, photo):
    made = table(f"red,{BOXES}red.png,photo.png,0,0,3,2,0,0,3,2,,,,\n")
    found = made.crops(["photo", "red"], ["left", "right"], (3, 2, 3))
    torch.testing.assert_close(found[0, 0], photo[:2, :3].expand(3, 2, 3))
    assert found[0, 1, :, 0, 0].tolist() == [1, 0, 0]
    with pytest.raises(
        InputError, match=r"boxes \['left', 'right'\] are cut out of the images \['red'\]; expected one"
    ):
        made.crops(["red"], ["left", "right"], (3, 2, 3))


def test_an_image_is_decoded_once_for_all_its_boxes(table, photo, monkeypatch):
    opened = []

    def spy(path, channels):
        opened.append(path.name)
        return open_image(path, channels)

    monkeypatch.setattr("softpnet.data.tables.open_image", spy)
    made = table(BOXES + 2 * "photo.png,0,0,3,2,3,2,6,4,,,,\n" + "red.png,0,0,3,2,0,0,3,2,,,,\n")
    made.crops("photo", ["left", "right"], (1, 2, 3))
    assert opened == ["photo.png", "red.png"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("photo.png,0,0,7,2", r"line 2, column 'photo': box 'left': the box \(0, 0, 7, 2\) .* is not inside .*is 6x4;"),
        (
            "photo.png,-1,0,3,2",
            r"box 'left': the box \(-1, 0, 3, 2\) is empty or is not inside .*photo\.png, which is 6x4",
        ),
        ("photo.png,3,0,3,2", r"box 'left': the box \(3, 0, 3, 2\) is empty"),
        ("photo.png,0,2,3,1", r"box 'left': the box \(0, 2, 3, 1\) is empty"),
        ("photo.png,a,0,3,2", r"line 2, column 'left_x0': 'a', expected a number of pixels"),
        ("photo.png,0,0,3,", r"line 2, column 'left_y1': '', expected a number of pixels"),
        ("photo.png,0,nan,3,2", r"column 'left_y0': 'nan', expected a number of pixels"),
        ("photo.png,0,0,inf,2", r"column 'left_x1': 'inf', expected a number of pixels"),
        ("photo.png,0,0,1_0,2", r"column 'left_x1': '1_0', expected a number of pixels"),
        ("photo.png,0,0,1e300,2", r"column 'left_x1': '1e300', expected a number of pixels"),
        ("none.png,0,0,3,2", r"line 2, column 'photo': .*none\.png cannot be read as an image"),
    ],
)
def test_a_box_that_is_none_is_refused_with_its_line(table, photo, cells, message):
    made = table(f"photo,left_x0,left_y0,left_x1,left_y1\n{cells}\n")
    with pytest.raises(InputError, match=message):
        made.crops("photo", ["left"], (1, 2, 3))


def test_a_box_without_its_columns_is_refused(table, photo):
    made = table("photo,left_x0,left_y0,left_x1\nphoto.png,0,0,3\n")
    with pytest.raises(
        InputError, match=r"has no column 'left_y1'; it has \['photo', 'left_x0', 'left_y0', 'left_x1'\]"
    ):
        made.crops("photo", ["left"], (1, 2, 3))
    with pytest.raises(InputError, match=r"shape is \(2, 3\), expected \(channels, height, width\)"):
        made.crops("photo", ["left"], (2, 3))


# True concepts


def test_concepts_are_names_or_numbers_of_each_concept_s_own_values(table):
    names = [["red", "blue"], ["1", "2", "3"]]
    space = ConceptSpace(Group((0, 1), (2, 3), name="look", value_names=names))
    made = table("a,b,c,d\nred,1,1,3\n0,2,blue,2\n")
    assert made.concepts(["a", "b", "c", "d"], space).tolist() == [[0, 0, 1, 2], [0, 1, 1, 1]]
    with pytest.raises(InputError, match=r"line 2, column 'a': 'red', expected one of \['1', '2', '3'\]$"):
        made.concepts(["c", "a", "a", "d"], space)
    with pytest.raises(InputError, match=r"concepts are in columns \['a'\], expected 4 columns, one per concept"):
        made.concepts(["a"], space)
