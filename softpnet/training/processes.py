"""The processes and the device that a training runs on."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softpnet.errors import EchoedError, InputError, SoftPNetError, TrainingError
from softpnet.task.hardware import Hardware, Precision
from softpnet.task.lazy import numbers
from softpnet.training.environment import differences, versions
from softpnet.training.launcher import TORCHRUN, launcher
from softpnet.training.meeting import meet

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
        abilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # of recent releases of torch
        native = any(abilities.get(name, False) for name in NATIVE)
    else:
        native = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    return dataclasses.replace(hardware, precision="bf16-mixed" if native else "32-true")


def launched(hardware: Hardware, idle_parts: bool = False) -> Fabric:
    """A running Fabric: with several processes, each of them comes back from here, whoever has started them.

    Where a step may leave parts of the network idle, the processes have to look for those before they share gradients.
    """
    from lightning_fabric import Fabric
    from lightning_fabric.plugins import DoublePrecision
    from lightning_fabric.plugins.environments import LightningEnvironment
    from lightning_fabric.strategies import DDPStrategy

    class Double(DoublePrecision):
        """Fabric's own hands what the network returns on in single precision, losses and all."""

        def convert_output(self, data: Any) -> Any:
            return data

    assert hardware.precision != "auto", "with_precision has replaced it"
    double = hardware.precision == DOUBLE
    kind, _, number = hardware.device.partition(":")
    several, wait = hardware.processes > 1, timedelta(seconds=hardware.wait_seconds)
    started = launcher() if several else None
    here = hardware.processes if started is None else started.here
    if hardware.processes % here:
        raise InputError(
            f"there are {hardware.processes} processes, {here} of them on this machine, so that not all have as many; "
            "start the same number on each (--nproc-per-node, --ntasks-per-node)"
        )
    try:
        fabric = Fabric(
            accelerator=kind,
            devices=[int(number)] if number else here,
            num_nodes=hardware.processes // here,
            precision=None if double else hardware.precision,
            # Left to itself, Fabric would take a batch job of Slurm's for as many processes as it may start.
            plugins=[*([Double()] if double else []), *([LightningEnvironment()] if started is None else [])],
            strategy=DDPStrategy(timeout=wait, find_unused_parameters=idle_parts) if several else "auto",
        )
    except Exception as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"device {hardware.device!r} is not available here: {why}; use cpu or auto") from error
    instead = LACKING.get((fabric.device.type, hardware.precision))
    if instead is not None:
        raise InputError(
            f"precision {hardware.precision!r} cannot run on {fabric.device.type}; use {instead!r} or 'auto'"
        )
    began = time.monotonic()
    try:
        if started is not None and started.name == TORCHRUN:
            meet(started, fabric.device.type, wait)
        fabric.launch()
    except RuntimeError as error:
        if not several:
            raise
        raise TrainingError(
            f"the {hardware.processes} processes that train together did not find each other within "
            f"{time.monotonic() - began:.0f} seconds ({_first_line(error)}); look at what the others said, and whether "
            "their hosts can reach each other"
        ) from error
    if several:
        with lost_processes_named(fabric):
            check_versions(fabric)
    return fabric


SAME_VERSIONS = ("softpnet", "commit", "torch", "python")


def check_versions(fabric: Fabric) -> None:
    """Raise where a process computes with other versions than the first one."""
    found = versions()
    mine = {name: found[name] or "unknown" for name in SAME_VERSIONS}  # git may not be there, or no clone
    host, theirs = fabric.broadcast((socket.gethostname(), mine))
    other = InputError(
        f"process {fabric.global_rank} on {socket.gethostname()} runs other versions than process 0 on {host}: "
        f"{'; '.join(differences(theirs, mine))}; install the same everywhere"
    )
    agreed(fabric, other if theirs != mine else None)


def agreed(fabric: Fabric, failed: SoftPNetError | None) -> None:
    """Raise in every process where one of them has failed. Those that have say why, and so does the first process of
    each other host: a person may look at that one's."""
    rank, count = fabric.global_rank, fabric.world_size
    flags = totals(fabric, [float(other == rank and failed is not None) for other in range(count)])
    ranks = [other for other, flag in enumerate(flags) if flag]
    why = fabric.broadcast(str(failed), ranks[0]) if ranks and count > 1 else ""
    if failed is not None:
        raise failed
    if ranks:
        started = launcher()
        here = count if started is None else started.here
        told = {other // here for other in ranks}
        raise EchoedError(ranks[0], why, aloud=rank % here == 0 and rank // here not in told)


def any_process(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is up in any of the processes that train together: all must stop at the same step."""
    return total(fabric, float(flag)) > 0


def total(fabric: Fabric, value: float) -> float:
    """The sum over all processes."""
    return totals(fabric, [value])[0]


def totals(fabric: Fabric, values: Sequence[float]) -> list[float]:
    """Of each value, its sum over all processes."""
    if fabric.world_size == 1:
        return [*values]
    found = fabric.all_reduce(torch.tensor(values, dtype=torch.float64), reduce_op="sum")
    assert isinstance(found, Tensor)
    return found.tolist()


def own_stream(name: str, fabric: Fabric) -> str:
    """The name of a stream of which every process has its own; the first one's is that of one process alone."""
    return f"{name} {fabric.global_rank}" if fabric.global_rank else name


def unequal_shares(examples: int, batch_size: int, processes: int) -> InputError | None:
    """What to raise where the processes that train together cannot have equal shares of the batches."""
    if processes > examples:
        return InputError(
            f"{processes:,} processes are to train on {examples:,} examples, expected at most one for each; start "
            "fewer processes"
        )
    if batch_size % processes:
        near = max(processes, batch_size - batch_size % processes)
        return InputError(
            f"batch_size is {batch_size:,}, of which {processes:,} processes cannot have equal shares; choose "
            f"batch_size = {near:,}, or another number of processes"
        )
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


LOST = ("connection closed", "connection reset", "broken pipe", "gloo", "nccl", "socket", "timed out", "timeout")
"""What torch says where a process that trains with this one answers no more."""
LATE = ("timed out", "timeout")
"""What it says where that may still be there."""


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
        late = any(word in str(error).lower() for word in LATE)
        raise TrainingError(
            f"one of the {fabric.world_size} processes that train together {'does not answer' if late else 'has ended'}"
            f", so that process {fabric.global_rank} cannot go on; resume from the last checkpoint"
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
