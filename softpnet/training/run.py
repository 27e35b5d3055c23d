"""The run folder: what was asked for, what happened, what came out. JSON and safetensors only."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from softpnet.errors import InputError

CONFIG, EPOCHS, METRICS, MODEL = "config.json", "epochs.jsonl", "metrics.json", "model.safetensors"


def new_run_folder(path: Path) -> Path:
    """Make a folder for a new run; one that already holds a run is refused."""
    if (path / CONFIG).exists():
        raise InputError(f"{path} already holds a run; name another folder or remove it")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be a run folder: {error.strerror}; name another one") from error
    return path


def free_run_folder(parent: Path, name: str) -> Path:
    """`parent/name`, or the first free `parent/name-2`, `-3`, ..."""
    candidates = [parent / name] + [parent / f"{name}-{i}" for i in range(2, 10_000)]
    return next(path for path in candidates if not path.exists())


def write_json(path: Path, value: Any) -> None:
    """Write the whole file or nothing."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
    os.replace(temporary, path)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path.parent} is not a run folder: {path.name} is missing") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def append_line(path: Path, value: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(value) + "\n")


def versions() -> dict[str, str]:
    """What a run's numbers depend on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("softpnet", "torch", "lightning-fabric", "numpy", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"commit": _commit()}


def _commit() -> str:
    """The commit of the source tree that runs, with "+" where the package differs from it; empty when installed."""
    tree = Path(__file__).parents[2]
    if not (tree / ".git").exists():
        return ""
    git = ("git", "-C", str(tree))
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "softpnet"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
