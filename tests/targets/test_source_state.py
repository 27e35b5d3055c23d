"""What a source remembers, of one process and of several."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from softpnet.errors import TaskError
from softpnet.targets.source import State


@dataclass
class Remembered(State):
    seen: Tensor  # [N]
    each: Tensor  # [3]

    by_example: ClassVar[tuple[str, ...]] = ("seen",)


@dataclass
class Forgetful(Remembered):
    by_example: ClassVar[tuple[str, ...]] = ()


def test_of_several_processes_each_keeps_the_rows_of_its_own_examples():
    state = Remembered(torch.arange(7), torch.arange(3))
    state.keep_share(1, 2, 7)
    assert state.seen.tolist() == [1, 3, 5] and state.each.tolist() == [0, 1, 2]


class Partly(Remembered):
    def tensors(self):
        return {"each": self.each}


def test_what_a_checkpoint_leaves_out_is_shared_too():
    state = Partly(torch.arange(7), torch.arange(3))
    state.keep_share(1, 2, 7)
    assert state.seen.tolist() == [1, 3, 5] and state.each.tolist() == [0, 1, 2]


def test_rows_by_example_that_are_not_named_so_are_refused_before_they_are_mixed_up():
    with pytest.raises(TaskError, match=r"seen of Forgetful has a row for each of the 7 examples; .*'seen',"):
        Forgetful(torch.arange(7), torch.arange(3)).keep_share(0, 2, 7)
    Forgetful(torch.arange(7), torch.arange(3)).keep_share(0, 1, 7)  # alone it has all of them
