"""What has started this process: a person, torchrun or Slurm's srun; free of torch, since the command line asks too.

Fabric's own launcher, `fabric run`, is torchrun.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple

from softpnet.errors import InputError
from softpnet.task.hardware import Hardware

TORCHRUN = "torchrun"
RANKS = {
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"),
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
}
"""Variables in which torchrun tells a process which of them it is."""


class Launcher(NamedTuple):
    """Something that has started several processes that train together."""

    name: str
    rank: int  # of this process
    processes: int
    here: int  # of them, on this machine


def launcher(environment: Mapping[str, str] | None = None) -> Launcher | None:
    """What has started this process, if it says how many there are; torchrun may run under Slurm."""
    found = os.environ if environment is None else environment
    if is_under_torchrun(found):
        return Launcher(TORCHRUN, *(int(found[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")))
    # Without a step a batch script runs the command itself, once, whatever it has asked for.
    several = "SLURM_STEP_ID" in found and int(found.get("SLURM_NTASKS", "1")) > 1
    if not several or found.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return None
    if "SLURM_NTASKS_PER_NODE" not in found:
        raise InputError(
            f"srun has started {found['SLURM_NTASKS']} processes without saying how many on each machine; give it "
            "--ntasks-per-node"
        )
    names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE")
    return Launcher("srun", *(int(found[name]) for name in names))


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for a process that trains alone, wherever it is started: inside a job of Slurm's, by torchrun."""
    return {k: v for k, v in environment.items() if k not in RANKS and not k.startswith(("SLURM_", "TORCHELASTIC_"))}


def is_first() -> bool:
    """Whether this process is the only one, or the first of those that train together: it speaks for all."""
    found = launcher()
    return (int(os.environ.get("LOCAL_RANK", "0")) if found is None else found.rank) == 0


def is_under_torchrun(environment: Mapping[str, str] | None = None) -> bool:
    return "TORCHELASTIC_RUN_ID" in (os.environ if environment is None else environment)


def restarts() -> int:
    """How often torchrun has started this process again, after one of those that train together had ended."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def is_restarted() -> bool:
    return restarts() > 0


def check_alone(what: str) -> None:
    """Raise in one of several processes that were started to train together; `what` says why that is none's work."""
    found = launcher()
    if found is not None and found.processes > 1:
        raise InputError(
            f"{found.processes} processes were started to train together, but {what}; start this command without "
            "torchrun or srun, or use --jobs"
        )


def with_launcher(hardware: Hardware) -> Hardware:
    """The hardware with as many processes as were started."""
    found = launcher()
    if found is None:
        return hardware
    if hardware.processes not in (1, found.processes):
        raise InputError(
            f"processes is {hardware.processes}, but {found.name} has started {found.processes} that train together; "
            "leave processes out"
        )
    return dataclasses.replace(hardware, processes=found.processes).check()
