"""Two hosts on one machine: network namespaces with an address each, and a line between them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping

LINE = "host"
"""The name of the line's end on each host."""


@contextlib.contextmanager
def two_hosts(addresses: Mapping[str, str]) -> Iterator[None]:
    """The hosts of these names, while inside; what an earlier run has left of them is removed."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise SystemExit("two hosts are network namespaces, which need root and the command ip; nothing was tried")
    one, other = addresses
    _remove(addresses)
    try:
        for name in addresses:
            _ip("netns", "add", name)
        _ip("link", "add", LINE, "netns", one, "type", "veth", "peer", "name", LINE, "netns", other)
        for name, address in addresses.items():
            _ip("-n", name, "address", "add", f"{address}/24", "dev", LINE)
            _ip("-n", name, "link", "set", "lo", "up")
            link(name, up=True)
        yield
    finally:
        _remove(addresses)


def link(name: str, up: bool) -> None:
    """Take the line down on this host, or up again."""
    _ip("-n", name, "link", "set", LINE, "up" if up else "down")


def inside(name: str, *command: str) -> list[str]:
    """The command, on this host."""
    return ["ip", "netns", "exec", name, *command]


def _remove(names: Mapping[str, str]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
