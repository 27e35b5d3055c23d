"""The switch that leaves the allocator of a user's process alone."""

import ctypes
import platform
from types import SimpleNamespace

import pytest

from softpnet import InputError, Learner, tasks
from softpnet.training import allocator


@pytest.fixture
def told(monkeypatch):
    """What glibc would be told, on any machine."""
    calls = []
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.39"))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *given: calls.append(given) or 1))
    return calls


@pytest.fixture
def task(tmp_path):
    """The file of a small task."""
    file = tmp_path / "sums.py"
    file.write_text(
        """
import torch, softpnet as sp
concepts = torch.randint(2, (8, 2), generator=torch.Generator().manual_seed(0))
inputs = torch.nn.functional.one_hot(concepts).float()
examples, anchors = sp.Examples(inputs, concepts.sum(-1)), sp.Anchors(torch.eye(2), torch.arange(2))
space, settings = sp.ConceptSpace(slots=2, values=2), dict(epochs=1, warmup_steps=1)
data = lambda streams: sp.Data(examples, anchors, {"test": examples})
task = sp.Task(space, lambda c: c.sum(-1), data=data, settings=settings)
"""
    )
    return str(file)


def test_fit_leaves_the_allocator_alone_and_the_command_line_tells_it_to_keep_large_blocks(
    told, task, tmp_path, softpnet_here, monkeypatch
):
    monkeypatch.delenv(allocator.SWITCH, raising=False)
    data = (sums := tasks.load(task)).data(None)
    Learner(sums).fit(data.train.inputs, data.train.labels, data.anchors)
    assert not told
    assert softpnet_here("train", task, "--out", tmp_path / "run", "--no-pictures")[0] == 0 and len(told) == 2


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
