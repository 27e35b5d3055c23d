"""The processes and the device that a training runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softpnet.errors import InputError
from softpnet.settings import Hardware

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launched(hardware: Hardware) -> Fabric:
    """A running Fabric: with several processes, each of them comes back from here."""
    from lightning_fabric import Fabric

    try:
        fabric = Fabric(
            accelerator=hardware.device,
            devices=hardware.processes,
            precision=hardware.precision,
            strategy="ddp" if hardware.processes > 1 else "auto",
        )
    except Exception as error:
        raise InputError(f"device {hardware.device!r} is not available here: {error}; use cpu or auto") from error
    fabric.launch()
    return fabric
