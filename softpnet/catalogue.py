"""Folders whose files are the list: names and first docstring lines, read without running anything."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Collection
from pathlib import Path


def names(folder: str | Path, without: Collection[str] = ()) -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if module.name not in without)


def summary(folder: str | Path, name: str) -> str:
    """First line of a file's docstring."""
    source = Path(folder, f"{name}.py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").split("\n")[0]
