"""The package as pip, mypy and people who look at it from outside meet it."""

import ast
import fnmatch
import importlib
import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import softpnet

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "softpnet"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_module_is_the_command_line():
    done = subprocess.run([sys.executable, "-m", "softpnet", "tasks"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "kand_logic" in done.stdout, done.stderr


def test_the_version_is_that_of_the_project_file():
    assert softpnet.__version__ == PROJECT["project"]["version"] and "__version__" in dir(softpnet)


def test_without_an_installation_the_version_is_missing_in_one_sentence(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert getattr(softpnet, "__version__", None) is None
    with pytest.raises(AttributeError, match=r"not installed.*pip install"):
        _ = softpnet.__version__


def test_every_file_that_is_not_code_is_packaged_and_the_types_are_public():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["softpnet"]
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.is_file()]
    others = [name for name in files if not name.endswith((".py", ".pyc"))]
    assert "py.typed" in others
    assert [name for name in others if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)] == []


def test_every_library_that_is_imported_is_a_declared_dependency():
    declared = {word.partition(">=")[0].lower() for word in PROJECT["project"]["dependencies"]}
    home = importlib.metadata.packages_distributions()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"softpnet"}:
                owners = {owner.lower() for owner in home.get(name, ())}
                assert owners & declared, f"{path.relative_to(ROOT)} imports {name}, which pyproject.toml does not name"
