"""Folders whose files are the list: names and first docstring lines, read without running anything; and files of a
user's own, which may stand wherever a name of the list may."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Any

from softpnet.errors import InputError, TaskError, did_you_mean


def names(folder: str | Path, without: Collection[str] = ()) -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if module.name not in without)


def summary(folder: str | Path, name: str) -> str:
    """First line of a file's docstring."""
    source = Path(folder, f"{name}.py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").split("\n")[0]


def own_file(kind: str, name: str, known: Collection[str]) -> ModuleType:
    """The module that a user's own file defines; a file beside it may be imported by it, as in a script."""
    path = Path(name if isinstance(name, str) else "")
    if path.suffix != ".py":
        listed = f"; the {kind}s are {', '.join(known)}, or give a path to a .py file"
        raise InputError(f"unknown {kind} {name!r}{did_you_mean(name, known) or listed}")
    if not path.is_file():
        raise InputError(f"there is no file {name}; give a path to a Python file that defines a {kind}")
    _see_neighbours(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(f"softpnet_user_{kind.replace(' ', '_')}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"{name} could not be run: {type(error).__name__}: {error}") from error
    return module


def own_class(kind: str, name: str | type, attribute: str, base: type, known: Collection[str]) -> type:
    """The class of this name that a user's own file defines, or one that is there already."""
    found = name if isinstance(name, type) else getattr(own_file(kind, name, known), attribute, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(
            f"{name} does not define a {kind}: `{attribute}` is {found!r}, expected a subclass of "
            f"{base.__module__}.{base.__name__}"
        )
    return found


def name_of(given: str | type) -> str:
    """What a run's configuration calls a method or source."""
    return given.__name__ if isinstance(given, type) else given


_folders: list[str] = []
"""Of the users' files that were run, the last one first."""


def _see_neighbours(folder: Path) -> None:
    """From now on the files in this folder can be imported, behind all that is installed.

    A neighbour of the same name that a file of another folder brought gives way.
    """
    for file in folder.glob("*.py"):
        found = getattr(sys.modules.get(file.stem), "__file__", None)
        if found is not None and str(Path(found).parent) in _folders and Path(found).parent != folder:
            del sys.modules[file.stem]
    if str(folder) in _folders or str(folder) not in sys.path:
        sys.path[:] = [entry for entry in sys.path if entry not in _folders]
        _folders[:] = [str(folder), *(other for other in _folders if other != str(folder))]
        sys.path.extend(_folders)
    importlib.invalidate_caches()  # a neighbour may be younger than the last look into the folder


def optional_package(name: str, extra: str) -> Any:
    """A package that not everyone has; `extra` is what brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = "is missing" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
        raise InputError(
            f"the package {name.partition('.')[0]} {what}; pip install 'softpnet[{extra}]' brings it"
        ) from error
