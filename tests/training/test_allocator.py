"""The switch that leaves the allocator of a user's process alone."""

import ctypes
import platform
from types import SimpleNamespace

import pytest

from softpnet import InputError
from softpnet.training import allocator


@pytest.fixture
def told(monkeypatch):
    """What glibc would be told, on any machine."""
    calls = []
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.39"))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *given: calls.append(given) or 1))
    return calls


@pytest.mark.parametrize("value, times", [(None, 2), ("1", 2), ("0", 0)])
def test_large_blocks_are_kept_unless_the_environment_says_otherwise(monkeypatch, told, value, times):
    monkeypatch.delenv(allocator.SWITCH, raising=False)
    if value is not None:
        monkeypatch.setenv(allocator.SWITCH, value)
    assert allocator.keep_large_blocks() is bool(times) and len(told) == times


def test_another_value_of_the_switch_is_refused(monkeypatch, told):
    monkeypatch.setenv(allocator.SWITCH, "perhaps")
    with pytest.raises(InputError, match="SOFTPNET_KEEP_BLOCKS is 'perhaps', expected 0 or 1"):
        allocator.keep_large_blocks()
    assert not told
