"""Arrays in files are read if they hold numbers, and nothing is waited for or unpacked on the way."""

import io
import os
import pickle
import re
import signal
import zipfile

import numpy
import pytest
import torch

from softpnet import InputError
from softpnet.data.files import read_array, read_image, read_images
from softpnet.data.tables import Table
from torture.subject import PATIENCE_S


@pytest.fixture
def patience():
    """A test that waits for ever fails after a while."""

    def give_up(*_):
        raise TimeoutError("it waited")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(PATIENCE_S))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


READERS = {
    "pixels.npy": read_array,
    "array.NPY": lambda path: read_images([path], 2, (1, 8, 8)),
    "table.csv": Table,
    "image.png": lambda path: read_image(path, (1, 8, 8)),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, name, make, patience):
    make(tmp_path / name)
    with pytest.raises(InputError, match=f"{name} cannot be read: it is no file, but a folder, a pipe or a device"):
        READERS[name](tmp_path / name)


def header(shape, length=0):
    """A .npy file of version 1 that claims this shape, with so many bytes behind it."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(length)


def zipped(content=b"1"):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("a.npy", content)
    return packed.getvalue()


def saved(array):
    data = io.BytesIO()
    numpy.save(data, array, allow_pickle=True)
    return data.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x93NUMPY", id="cut off"),
        pytest.param(zipped(), id="a zip"),
        pytest.param(zipped(saved(numpy.zeros(3))), id="a zip of arrays"),
        pytest.param(b"PK\x03\x04damaged", id="a damaged zip"),
        pytest.param(header(f"({10**20},)"), id="too many numbers to count"),
        pytest.param(header(f"({2**40}, {2**40})"), id="two sides whose product is too large"),
        pytest.param(header("(1000000, 1000000)", 64), id="more than the file holds"),
        pytest.param(header("(-1, 4)", 64), id="below zero"),
        pytest.param(header("'ab'", 64), id="no shape"),
        pytest.param(header("(" * 500, 64), id="brackets"),
        pytest.param(saved(numpy.array([{}, "a"], dtype=object)), id="objects"),
        pytest.param(saved(numpy.array(["a"])), id="text"),
        pytest.param(saved(numpy.zeros(2, dtype=[("a", "f4")])), id="records"),
        pytest.param(saved(numpy.zeros(2, dtype=">f4")), id="other byte order"),
        pytest.param(pickle.dumps([1.0]), id="a pickle"),
    ],
)
def test_an_array_that_cannot_be_read_is_one_sentence(tmp_path, content):
    path = tmp_path / "pixels.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read as an array of numbers: .*; write it by numpy.save"):
        read_array(path)


@pytest.mark.parametrize("value", [numpy.nan, -numpy.inf, 1e300])  # the last is infinite in float32
def test_a_number_that_is_not_finite_is_named_by_its_file_and_place(tmp_path, value):
    features = numpy.zeros((3, 2, 4))
    features[1, 0, 2] = value
    (tmp_path / "new.npy").write_bytes(saved(features))
    with pytest.raises(InputError, match=re.escape(f"new.npy holds {value:g} at [1, 0, 2], expected finite")):
        read_images([tmp_path / "new.npy"], 2, (4,))


@pytest.mark.parametrize("name", ["pixels.npy", "pixels.NPY"])
def test_an_array_is_read_as_it_was_written(tmp_path, name):
    pixels = numpy.arange(12, dtype=numpy.float32).reshape(3, 2, 2)
    (tmp_path / "real.npy").write_bytes(saved(numpy.asfortranarray(pixels)))
    os.symlink(tmp_path / "real.npy", tmp_path / name)
    assert torch.equal(read_images([tmp_path / name], 2, (1, 2, 2)), torch.from_numpy(pixels))
