"""The package as pip, mypy and people who look at it from outside meet it."""

import ast
import fnmatch
import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import softpnet

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "softpnet"
SETUP = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md")
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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The project as it is shipped, made outside its folder: an sdist, and a wheel made of nothing but the sdist."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    for name in ("softpnet", "examples"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*SETUP, "constraints.txt"):
        shutil.copy(ROOT / name, tree)
    make = "from setuptools import build_meta; build_meta.build_sdist('..')"
    run([sys.executable, "-c", make], cwd=tree)
    (sdist,) = folder.glob("*.tar.gz")
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
    run([sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", folder, sdist], cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def run(words, **options):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_sdist_and_wheel_hold_the_whole_package_and_no_tests(built):
    sdist, wheel = built
    wanted = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    wanted = {name for name in wanted if "__pycache__" not in name}
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert shipped == wanted
    with tarfile.open(sdist) as archive:
        held = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert wanted | set(SETUP) | {"constraints.txt", "examples/two_digit_sum.py"} <= held
    assert not any(name.startswith("tests/") for name in held)


@pytest.mark.processes
def test_the_wheel_trains_where_there_is_no_repository(built, tmp_path):
    site = tmp_path / "site"
    offline = ["--no-deps", "--no-index", "--quiet", "--target"]
    run([sys.executable, "-m", "pip", "install", *offline, site, built[1]], cwd=tmp_path)
    page = (ROOT / "CONTRIBUTING.md").read_text()
    (tmp_path / "my_task.py").write_text(re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1])
    away = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(site)}}
    asked = "import softpnet; print(softpnet.__file__, softpnet.__version__)"
    where = [str(site / "softpnet" / "__init__.py"), PROJECT["project"]["version"]]
    assert run([sys.executable, "-c", asked], **away).split() == where
    words = ["train", "my_task.py", "--epochs", "1", "--warmup-steps", "1", "--no-pictures", "--out", "run"]
    assert "concept accuracy" in run([sys.executable, "-m", "softpnet", *words], **away)
    # what is read at run time beside the code is there
    assert "Soft-PNet" in run([sys.executable, "-m", "softpnet", "table", "--records", ROOT / "results"], **away)


def test_the_citation_names_the_paper_and_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", text, flags=re.M)[1] == PROJECT["project"]["version"]
    assert "title: Soft Symbol Grounding for Prototypical Concepts" in text
    paper = text.partition("preferred-citation:")[2]
    assert re.findall(r"family-names: (.*)", paper) == ["Galván-López", "Upreti", "Calvo", "Aguilar-Ibáñez", "Belle"]


def test_the_changelog_begins_with_this_version():
    heading = re.search(r"^## (?!Unreleased)(.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1]
    assert heading.split()[0] == PROJECT["project"]["version"]
