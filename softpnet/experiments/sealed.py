"""Lines of JSON that carry the sha256 of their own content: not a bit of a number changes unnoticed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softpnet.errors import InputError
from softpnet.storage import digest, read_plain, write_whole

SEAL = re.compile(rb'\{"sha256": "([0-9a-f]{64})", (.*)')


def seal(entries: Mapping[str, Any]) -> bytes:
    """The entries as one line, in their order; the digest, that of the line without it, stands first."""
    content = json.dumps(entries, allow_nan=False).encode()
    return b'{"sha256": "%s", %s' % (digest(content).encode(), content[1:])


def unseal(line: bytes) -> bytes:
    """The content of a line, as JSON, if it is what was sealed: the bytes, not only the values."""
    found = SEAL.fullmatch(line)
    if found is None:
        raise InputError("it is damaged, since it does not begin with the sha256 of its content")
    content = b"{" + found[2]
    if digest(content) != found[1].decode():
        raise InputError("it was changed after it was made, since the sha256 of its content is another one")
    return content


def read_lines(path: Path) -> list[bytes]:
    """The lines as they stand there; none where there is no file."""
    try:
        return read_plain(path).splitlines()
    except FileNotFoundError:
        return []


def write_lines(path: Path, lines: list[bytes]) -> None:
    write_whole(path, b"".join(line + b"\n" for line in lines))
