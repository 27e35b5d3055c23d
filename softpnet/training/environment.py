"""What a run's bits depend on beside its configuration."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("softpnet", "torch", "lightning-fabric", "numpy", "safetensors")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    return found | {package: version_of(package) for package in PACKAGES} | {"commit": _own_commit()}


@functools.cache
def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def machine() -> dict[str, Any]:
    """The processor's kind, model and cores, the instructions that torch uses on it, and the number of threads."""
    import torch

    return {
        "processor": platform.machine(),
        "model": _processor_model(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Each entry that is not what it was, in words."""
    names = dict.fromkeys([*then, *now])
    return [f"{name} was {then.get(name)}, is {now.get(name)}" for name in names if then.get(name) != now.get(name)]


def _processor_model() -> str:
    """As Linux names it; empty elsewhere."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


@functools.cache  # what this process runs is what was there when it began
def _own_commit() -> str:
    return _commit(Path(__file__).parents[2])


def _commit(tree: Path) -> str:
    """The last commit that changed the package, with "+" where it was changed since; empty where git cannot tell."""
    if not (tree / ".git").exists():
        return ""
    try:
        last = _git(tree, "log", "-1", "--format=%H", "--", "softpnet")
        return last + ("+" if _git(tree, "status", "--porcelain", "softpnet") else "")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _git(tree: Path, *command: str) -> str:
    """What git says of the tree, and of no other that the environment names, as that of a hook does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", "-C", str(tree), *command], capture_output=True, text=True, timeout=10, env=kept)
    return done.stdout.strip()
