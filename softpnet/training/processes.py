"""The processes and the device that a training runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softpnet.errors import InputError
from softpnet.task.settings import Hardware

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launched(hardware: Hardware, idle_parts: bool = False) -> Fabric:
    """A running Fabric: with several processes, each of them comes back from here.

    Where a step may leave parts of the network idle, the processes have to look for those before they share gradients.
    """
    from lightning_fabric import Fabric

    shared = "ddp_find_unused_parameters_true" if idle_parts else "ddp"
    try:
        fabric = Fabric(
            accelerator=hardware.device,
            devices=hardware.processes,
            precision=hardware.precision,
            strategy="auto" if hardware.processes == 1 else shared,
        )
    except Exception as error:
        raise InputError(f"device {hardware.device!r} is not available here: {error}; use cpu or auto") from error
    fabric.launch()
    return fabric
