"""The floor plan of CONTRIBUTING.md is the package's, and imports point one way in it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "softpnet"


def floors():
    """Folders and files of the package, by the line of the plan that they stand in."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    plan = page[page.index("softpnet/\n") : page.index("\ntests/ ")].splitlines()[1:]
    return {room: at for at, line in enumerate(plan) for room in re.findall(r"([a-z_]+)(?:/|\.py)(?: |$)", line)}


def imported(path):
    """Folders and files of the package that a file imports from, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "softpnet":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from re.findall(r"^softpnet\.(\w+)", node.module or "")
        elif isinstance(node, ast.Import):
            yield from re.findall(r"^softpnet\.(\w+)", " ".join(name.name for name in node.names))


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_the_plan_has_every_folder_and_file():
    files = {room_of(path) for path in PACKAGE.rglob("*.py")}
    assert set(floors()) == {room for room in files if not room.startswith("__")}


@pytest.mark.parametrize("room", floors())
def test_imports_point_down_the_plan(room):
    floor = floors()
    for path in PACKAGE.rglob("*.py"):
        if room_of(path) == room:
            up = [other for other in imported(path) if floor.get(other, len(floor)) < floor[room]]
            assert not up, f"{path.relative_to(ROOT)} imports from {', '.join(up)}, which stands above {room}"
