"""The processes and the device that a training runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softpnet.errors import InputError, SoftPNetError, TrainingError
from softpnet.task.settings import Hardware, Precision

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DOUBLE: Precision = "64-true"


def launched(hardware: Hardware, idle_parts: bool = False) -> Fabric:
    """A running Fabric: with several processes, each of them comes back from here.

    Where a step may leave parts of the network idle, the processes have to look for those before they share gradients.
    """
    from lightning_fabric import Fabric
    from lightning_fabric.plugins import DoublePrecision

    class Double(DoublePrecision):
        """Fabric's own hands what the network returns on in single precision, losses and all."""

        def convert_output(self, data: Any) -> Any:
            return data

    double = hardware.precision == DOUBLE
    shared = "ddp_find_unused_parameters_true" if idle_parts else "ddp"
    try:
        fabric = Fabric(
            accelerator=hardware.device,
            devices=hardware.processes,
            precision=None if double else hardware.precision,
            plugins=[Double()] if double else [],
            strategy="auto" if hardware.processes == 1 else shared,
        )
    except Exception as error:
        raise InputError(f"device {hardware.device!r} is not available here: {error}; use cpu or auto") from error
    fabric.launch()
    return fabric


LOST = ("connection closed", "connection reset", "broken pipe", "gloo", "nccl", "socket", "timed out", "timeout")
"""What torch says where a process that trains with this one answers no more."""


@contextmanager
def lost_processes_named(fabric: Fabric) -> Iterator[None]:
    """Where another of the processes that train together has ended, a sentence in place of torch's traceback."""
    try:
        yield
    except SoftPNetError:  # has its own words
        raise
    except RuntimeError as error:
        if fabric.world_size == 1 or not any(word in str(error).lower() for word in LOST):
            raise
        raise TrainingError(
            f"one of the {fabric.world_size} processes that train together has ended, so that process "
            f"{fabric.global_rank} cannot go on; resume from the last checkpoint"
        ) from error


def to_run(fabric: Fabric, images: Tensor) -> Tensor:
    """Images on the run's device, in double precision where it computes in that."""
    double = fabric.strategy.precision.precision == DOUBLE
    return images.to(fabric.device, torch.float64 if double else images.dtype)
