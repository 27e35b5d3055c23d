"""The processes and the device that a training runs on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softpnet.errors import InputError, SoftPNetError, TrainingError
from softpnet.task.lazy import numbers
from softpnet.task.settings import Hardware, Precision

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DOUBLE: Precision = "64-true"

NATIVE = "avx512_bf16", "amx_bf16"
"""Instructions of a processor that multiplies bfloat16 faster than single precision."""

LACKING: dict[tuple[str, Precision], Precision] = {("cpu", "16-mixed"): "bf16-mixed", ("mps", DOUBLE): "32-true"}
"""Precisions that a device has not, and what to take there."""


def with_precision(hardware: Hardware) -> Hardware:
    """The hardware with "auto" replaced by the precision that is fastest there."""
    if hardware.precision != "auto":
        return hardware
    if hardware.device == "cpu" or not torch.accelerator.is_available():
        abilities = torch.cpu.get_capabilities()
        native = any(abilities.get(name, False) for name in NATIVE)
    else:
        native = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    return dataclasses.replace(hardware, precision="bf16-mixed" if native else "32-true")


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

    assert hardware.precision != "auto", "with_precision has replaced it"
    double = hardware.precision == DOUBLE
    shared = "ddp_find_unused_parameters_true" if idle_parts else "ddp"
    kind, _, number = hardware.device.partition(":")
    try:
        fabric = Fabric(
            accelerator=kind,
            devices=[int(number)] if number else hardware.processes,
            precision=None if double else hardware.precision,
            plugins=[Double()] if double else [],
            strategy="auto" if hardware.processes == 1 else shared,
        )
    except Exception as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"device {hardware.device!r} is not available here: {why}; use cpu or auto") from error
    instead = LACKING.get((fabric.device.type, hardware.precision))
    if instead is not None:
        raise InputError(
            f"precision {hardware.precision!r} cannot run on {fabric.device.type}; use {instead!r} or 'auto'"
        )
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


def checked_device(name: str) -> torch.device:
    """A device that is there, by the name that `Hardware` takes."""
    Hardware(device=name).check()
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return torch.device("cpu") if found is None else found
    try:
        torch.zeros(1, device=name)
    except Exception as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"device {name!r} is not available here: {why}; use cpu or auto") from error
    return torch.device(name)


def to_run(fabric: Fabric, inputs: Tensor) -> Tensor:
    """Inputs as numbers on the run's device, in double precision where it computes in that."""
    read = numbers(inputs)
    double = fabric.strategy.precision.precision == DOUBLE and read.is_floating_point()
    return read.to(fabric.device, torch.float64 if double else read.dtype)
