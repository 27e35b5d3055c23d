"""Traffic signs are read from the benchmark's own layout, and split by track."""

import numpy
import pytest
import torch
from PIL import Image

from softpnet import InputError
from softpnet.data import gtsrb

HEADER = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"


@pytest.fixture
def folder(tmp_path, write_signs):
    write_signs(tmp_path, {3: 7, 40: 12})
    return tmp_path


def test_the_region_of_interest_is_cut_out_and_scaled(tmp_path, write_signs):
    write_signs(tmp_path, {3: 4})
    home = tmp_path / "Final_Training/Images/00003"
    pixels = numpy.zeros((40, 50, 3), dtype=numpy.uint8)
    pixels[5:21, 10:42] = numpy.arange(32)[:, None] + [0, 50, 100]  # 16 rows, 32 columns of rising brightness
    Image.fromarray(pixels).save(home / "00000_00000.ppm")
    lines = (home / "GT-00003.csv").read_text().splitlines()
    lines[1] = "00000_00000.ppm;50;40;10;5;42;21;3"
    (home / "GT-00003.csv").write_text("\n".join(lines))
    image = gtsrb.load([3], tmp_path).images[0]
    expected = (torch.arange(32) + torch.tensor([0, 50, 100])[:, None])[:, None].expand(3, 32, 32) / 255
    torch.testing.assert_close(image, expected)


def test_signs_come_in_the_order_of_classes_tracks_and_frames_whatever_the_file_s(folder):
    path = folder / "Final_Training/Images/00003/GT-00003.csv"
    before = gtsrb.load([40, 3], folder)
    path.write_text("\n".join([HEADER, *reversed(path.read_text().splitlines()[1:])]))
    after = gtsrb.load([40, 3], folder)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert before.images.shape == (38, 3, 32, 32) and before.images.dtype == torch.float32
    assert before.classes.tolist() == [0] * 24 + [1] * 14
    assert before.tracks.tolist() == [number // 2 for number in range(38)]


@pytest.mark.parametrize("split, counts", [("test", ([20, 12], [4, 2])), ("validation", ([16, 10], [4, 2]))])
def test_no_track_is_trained_and_judged_on(folder, split, counts):
    train, test, anchors = gtsrb.pools(split, [40, 3], folder)
    assert [pool.counts[:2].tolist() for pool in (train, test)] == list(counts)
    colours = [set(map(tuple, pool.images[:, :2, 0, 0].tolist())) for pool in (train, test)]  # class and track
    assert not colours[0] & colours[1]
    again = gtsrb.pools(split, [40, 3], folder)
    assert torch.equal(again.test.images, test.images) and torch.equal(again.anchors, anchors)


def test_what_settings_are_chosen_on_is_no_test_track(folder):
    test, chosen_on = (gtsrb.pools(split, [40, 3], folder).test.images for split in ("test", "validation"))
    assert not (test[:, None, :2, 0, 0] == chosen_on[None, :, :2, 0, 0]).all(-1).any()


def test_an_anchor_is_the_last_frame_of_the_first_training_track(folder):
    train, _, anchors = gtsrb.pools("test", [40, 3], folder)
    for number, anchor in enumerate(anchors):
        own = train.images[train.labels == number]
        track = own[:, 1, 0, 0]
        assert torch.equal(anchor, own[track == track[0]][-1]) and not torch.equal(anchor, own[0])


def test_the_folder_may_be_named_by_a_variable(folder, monkeypatch):
    monkeypatch.setenv("SOFTPNET_GTSRB", str(folder))
    assert len(gtsrb.load([3]).images) == 14


def test_a_folder_that_is_not_named_or_not_the_benchmark_s_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("SOFTPNET_GTSRB", raising=False)
    with pytest.raises(
        InputError, match=r"German Traffic Sign Recognition Benchmark.*--option gtsrb=FOLDER, or set SOFT"
    ):
        gtsrb.load([3])
    with pytest.raises(InputError, match=r"has no folder Final_Training/Images, expected .*GTSRB_Final_Training"):
        gtsrb.load([3], tmp_path)


def test_a_class_that_is_not_there_is_named_with_those_that_are(folder):
    with pytest.raises(InputError, match=r"class 7 has no .*GT-00007\.csv; the classes in this folder are 3, 40"):
        gtsrb.load([3, 7], folder)


@pytest.mark.parametrize(
    "lines, said",
    [
        ([HEADER], "lists no image"),
        ([HEADER, "a.ppm;9;9;0;0;9;9;3"], "cannot be read"),
        ([HEADER, f"{100_000 * 'a'}.ppm;9;9;0;0;9;9;3"], r"a\.\.\.a{44}\.ppm'.{,150} cannot be read; expected"),
        ([HEADER, "00000_00000.ppm;9;9;nan;0;9;9;3"], "cannot be read; expected Filename"),
        ([HEADER, "00000_00000.ppm;9;9;0;0;inf;9;3"], "cannot be read; expected Filename"),
        ([HEADER, "00000_00000.ppm;9;9;0;1e300;9;9;3"], "cannot be read; expected Filename"),
        ([HEADER, "00000_00000.ppm;9;9;0;0;9"], "cannot be read"),
        ([HEADER.replace(";", ","), "00000_00000.ppm,9,9,0,0,9,9,3"], "separated by semicolons"),
        ([HEADER, "00000_00000.ppm;9;9;0;0;99;9;3"], "the box .* is not inside .*00000_00000.ppm"),
        ([HEADER, "00000_00000.ppm;9;9;4;0;4;9;3"], "the box .* is not inside"),
        ([HEADER, "00099_00000.ppm;9;9;0;0;9;9;3"], "00099_00000.ppm"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(folder, lines, said):
    (folder / "Final_Training/Images/00003/GT-00003.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=said):
        gtsrb.load([3], folder)


def test_a_class_of_two_tracks_cannot_be_split(tmp_path, write_signs):
    write_signs(tmp_path, {3: 2})
    with pytest.raises(InputError, match="class in place 0 has 2 tracks, expected at least 3"):
        gtsrb.pools("test", [3], tmp_path)
