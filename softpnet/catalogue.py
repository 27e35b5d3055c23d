"""Folders whose files are the list: names and first docstring lines, read without running anything; and files of a
user's own, which may stand wherever a name of the list may."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
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
    """The module that a user's own file defines; it may import the files beside it, as a script may."""
    path = Path(name if isinstance(name, str) else "")
    if path.suffix != ".py":
        listed = f"; the {kind}s are {', '.join(known)}, or give a path to a .py file"
        raise InputError(f"unknown {kind} {name!r}{did_you_mean(name, known) or listed}")
    if not path.is_file():
        raise InputError(f"there is no file {name}; give a path to a Python file that defines a {kind}")
    importlib.invalidate_caches()  # a file may be younger than the last look into its folder
    path = path.resolve()
    package = f"{USER}{os.fsencode(path.parent).hex()}"
    importlib.import_module(package)
    full = f"{package}.{path.stem.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(full, path, loader=_UserFile(full, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[full]
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


USER = "softpnet_user_"
"""The folder of a user's files is a package of this name and its path in hexadecimal digits: `sys.path` stays as it is,
files of one name in two folders are two modules, and a process that unpickles what they define can import them."""


class _UserFolders:
    """Finds these packages and the files in them."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        package, _, inside = name.partition(".")
        if not package.startswith(USER):
            return None
        if not inside:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [os.fsdecode(bytes.fromhex(name.removeprefix(USER)))]
            return spec
        spec_inside = PathFinder.find_spec(name, path)
        if spec_inside is not None and isinstance(spec_inside.loader, SourceFileLoader):
            spec_inside.loader = _UserFile(name, spec_inside.loader.path)
        return spec_inside


class _UserFile(SourceFileLoader):
    """Runs a file whose import statements, now and whenever its functions are called, find the files beside it."""

    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__.partition(".")[0]
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": functools.partial(_import, package)}
        super().exec_module(module)


def _import(
    package: str,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """`__import__` for the files of such a package."""
    first = name.partition(".")[0]
    if level or not _is_beside(package, first):
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    module = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or ())
    return module if fromlist else sys.modules[f"{package}.{first}"]


def _is_beside(package: str, name: str) -> bool:
    """Whether a file of the package is meant: it takes the place of nothing that is installed."""
    if f"{package}.{name}" in sys.modules:
        return True
    here = PathFinder.find_spec(name, sys.modules[package].__path__)
    if here is None or name in sys.stdlib_module_names or name in ("softpnet", "__main__"):
        return False
    try:
        there = importlib.util.find_spec(name)
    except ValueError:  # a module that was made by hand
        there = None
    if there is None or there.origin is None or here.origin is None:  # the last is a folder that is no package
        return there is None or here.origin is not None
    elsewhere = os.path.realpath(there.origin)
    return elsewhere != here.origin and not {"site-packages", "dist-packages"} & {*Path(elsewhere).parts}


sys.meta_path.insert(0, _UserFolders())


def optional_package(name: str, extra: str) -> Any:
    """A package that not everyone has; `extra` is what brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = "is missing" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
        raise InputError(
            f"the package {name.partition('.')[0]} {what}; pip install 'softpnet[{extra}]' brings it"
        ) from error
