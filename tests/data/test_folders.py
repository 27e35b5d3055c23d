"""Anchors are read from a folder per class, all of them, or refused with the path that is wrong."""

import numpy
import pytest
import torch
from PIL import Image

from softpnet import InputError
from softpnet.data.folders import read_anchors

NAMES = ["low", "mid", "high"]


@pytest.fixture
def folder(tmp_path):
    """Makes a folder with images of 3x2 pixels; of each the path and how bright it is."""

    def make(**images):
        for name, bright in images.items():
            path = tmp_path / "anchors" / f"{name.replace('__', '/')}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(numpy.full((2, 3), bright, dtype=numpy.uint8)).save(path)
        return tmp_path / "anchors"

    return make


def brightness(anchors):
    return (255 * anchors.inputs[:, 0, 0, 0]).round().int().tolist()


def test_all_images_come_in_the_order_of_classes_and_files(folder):
    home = folder(high__b=5, high__a=4, low__x=1, **{"1__only": 3})
    (home / ".hidden").write_text("")
    (home / "low" / ".DS_Store").write_text("")
    found = read_anchors(str(home), (1, 2, 3), NAMES)
    assert found.inputs.shape == (4, 1, 2, 3) and found.inputs.dtype == torch.float32
    assert brightness(found) == [1, 3, 4, 5]
    assert found.concepts.tolist() == [0, 1, 2, 2] and found.concepts.dtype == torch.int64


def test_a_limit_keeps_the_first_images_of_each_class(folder):
    home = folder(high__c=6, high__b=5, high__a=4, low__x=1)
    assert brightness(read_anchors(home, (1, 2, 3), NAMES, limit=2)) == [1, 4, 5]
    assert read_anchors(home, (3, 4, 4), NAMES, limit=1, resize=True).inputs.shape == (2, 3, 4, 4)
    with pytest.raises(InputError, match="limit is 0, expected at least 1 image per class"):
        read_anchors(home, (1, 2, 3), NAMES, limit=0)


def test_what_is_no_folder_of_classes_is_refused(folder, tmp_path):
    def refused(message, shape=(1, 2, 3)):
        with pytest.raises(InputError, match=message):
            read_anchors(tmp_path / "anchors", shape, NAMES)

    refused(r"anchors cannot be read as a folder: .*No such file")
    (tmp_path / "anchors").mkdir()
    refused(r"anchors is empty, expected a folder of images per class")
    home = folder(low__a=1)
    refused(r"shape is \(2, 3\), expected \(channels, height, width\)", shape=(2, 3))
    refused(r"a\.png is 3x2, expected 4x4; .*resize=True", shape=(1, 4, 4))
    (home / "mid").mkdir()
    refused(r"anchors/mid is empty, expected an image of its class")
    (home / "mid" / "notes.txt").write_text("no image")
    refused(r"anchors/mid/notes\.txt cannot be read as an image")
    folder(**{"0__b": 1})
    refused(r"anchors/0 and .*anchors/low are of one class, 'low'; make them one folder")
    folder(**{"Extra__b": 1})
    refused(r"class folder .*anchors/Extra: 'Extra', expected one of \['low', 'mid', 'high'\], or a number from 0 to 2")
    folder(**{"B": 1})
    refused(r"anchors/B\.png is no folder, expected one per class in .*anchors; move it into its class's")
