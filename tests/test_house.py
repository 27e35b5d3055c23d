"""The house keeps its floor plan: imports point one way, every package has its floor, files are short and say
what they are."""

import ast
import re
from pathlib import Path

import pytest

import softpnet

PACKAGE = Path(softpnet.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 300

FLOORS = """
__main__
cli
report
experiments
checks
learner
export
trained
training tasks
methods data
targets networks
rules metrics
task
runtime
storage catalogue
errors terminal together
"""
"""From top to bottom: a module imports from its own package and from floors below, never from its floor's others."""

FLOOR = {room: number for number, line in enumerate(FLOORS.split("\n")) for room in line.split()}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(source: str) -> set[str]:
    """The rooms that a file imports from anywhere in it: inside functions and for type checkers too."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = "softpnet" if node.level else node.module or ""  # a relative import could lead anywhere
            names |= {f"{home}.{alias.name}" for alias in node.names}
    return {f"{name}.".split(".")[1] for name in names if f"{name}.".startswith("softpnet.")}


def upwards(here: str, source: str) -> set[str]:
    """The rooms that are imported though they are not below; one that has no floor is among them."""
    return {name for name in imported(source) if name != here and FLOOR.get(name, 0) <= FLOOR[here]}


def test_every_part_of_the_package_has_its_floor():
    assert {room(path) for path in FILES} - {"__init__"} == set(FLOOR)


def test_the_plan_for_people_has_the_same_floors():
    plan = (PACKAGE.parent / "CONTRIBUTING.md").read_text().partition("\nsoftpnet/\n")[2].partition("\ntests/")[0]
    rooms = re.findall(r"(\w+)(?:/|\.py)(?=\s|$)", plan)
    assert sorted(["__main__", *rooms]) == sorted(FLOOR)
    assert [FLOOR[name] for name in rooms] == sorted(FLOOR[name] for name in rooms)


@pytest.mark.parametrize("name", FLOOR)
def test_imports_point_downwards(name):
    found = {str(path.relative_to(PACKAGE)): upwards(name, path.read_text()) for path in FILES if room(path) == name}
    assert {path: rooms for path, rooms in found.items() if rooms} == {}


@pytest.mark.parametrize(
    "here, source, found",
    [
        ("rules", "from softpnet.learner import Learner", {"learner"}),
        ("rules", "from softpnet import methods, task", {"methods"}),
        ("task", "import softpnet.cli.main as main", {"cli"}),
        ("targets", "from softpnet.networks.reader import Reader", {"networks"}),
        ("task", "if TYPE_CHECKING:\n    from softpnet.rules.rows import Cache", {"rules"}),
        ("cli", "def run():\n    from softpnet.newcomer import x", {"newcomer"}),
        ("data", "from softpnet import Learner", {"Learner"}),
        ("data", "import softpnet", {""}),
        ("task", "from .. import learner", {"learner"}),
        ("cli", "from softpnet.cli.main import main\nfrom softpnet import learner\nimport softpnets", set()),
    ],
)
def test_an_import_from_above_is_found_wherever_it_stands(here, source, found):
    assert upwards(here, source) == found


def test_every_file_says_what_it_is_about():
    silent = [path.name for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_file_is_so_long_that_it_holds_two_ideas():
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in FILES}
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}
