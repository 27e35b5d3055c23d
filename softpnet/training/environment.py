"""What a run's bits depend on beside its configuration."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("softpnet", "torch", "lightning-fabric", "numpy", "safetensors")
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 10}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"commit": _commit()}


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


def _commit(tree: Path = Path(__file__).parents[2]) -> str:
    """The last commit that changed the package, with "+" where it was changed since; empty when installed."""
    if not (tree / ".git").exists():
        return ""
    git = ("git", "-C", str(tree))
    try:
        last = subprocess.run([*git, "log", "-1", "--format=%H", "--", "softpnet"], **CAPTURED)
        changed = subprocess.run([*git, "status", "--porcelain", "softpnet"], **CAPTURED)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return last.stdout.strip() + ("+" if changed.stdout.strip() else "")
