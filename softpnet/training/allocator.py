"""Keep large memory blocks between steps, where the command line owns the process."""

from __future__ import annotations

import ctypes
import os
import platform

from softpnet.errors import InputError

SWITCH = "SOFTPNET_KEEP_BLOCKS"
"""Environment variable: 0 leaves the allocator of the process as it is."""

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def keep_large_blocks() -> bool:
    """Tell glibc to reuse large blocks instead of giving them back to the system after every use.

    A step allocates the same activations again and again; without this, up to half of its time goes into page
    faults. True where it took effect; elsewhere nothing happens. No bit of a run depends on it.
    """
    asked = os.environ.get(SWITCH, "1")
    if asked not in ("0", "1"):
        raise InputError(f"the environment variable {SWITCH} is {asked!r}, expected 0 or 1")
    if asked == "0":
        return False
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
