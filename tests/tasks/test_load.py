"""Tasks are found by name or in a user's file, with its neighbours; their options are read by what they declare."""

import functools
import multiprocessing
import sys
import types
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch

from softpnet import InputError, TaskError, catalogue, tasks
from softpnet.task import ahead
from softpnet.task.lazy import LazyInputs
from softpnet.task.options import MOST
from softpnet.training.streams import Streams

RULE = """
import softpnet
space = softpnet.ConceptSpace(slots=2, values=3)
def make(name="sums"):
    return softpnet.Task(space, lambda c: c.sum(-1), name=name)
"""

TYPES = (
    RULE
    + """
import enum
from pathlib import Path
from typing import Annotated, Any, Literal
class Own:
    pass
class Colour(Own, enum.Enum):
    RED = "red"
class Sized(Own):
    def __init__(self, text):
        if text == "wide":
            raise RuntimeError("no size")
        self.text = text
    def __str__(self):
        return f"sized {self.text}"
"""
)


@pytest.fixture
def write(tmp_path):
    """Writes a user's file, and gives its path."""

    def made(text, name="mine.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return str(file)

    yield made
    for name in [name for name in sys.modules if name.startswith(catalogue.USER)]:
        del sys.modules[name]


NUMBERS = {
    "mnist_evenodd": ["train", "anchors"],
    "visual_sudoku": ["train", "anchors"],
    "kand_logic": ["train", "test", "cached", "anchors"],
}


@pytest.mark.parametrize("name, option", [(name, option) for name, options in NUMBERS.items() for option in options])
@pytest.mark.parametrize("value", ["-5", str(MOST + 1), str(10**30)])
def test_a_count_that_cannot_be_is_refused_by_the_task(name, option, value):
    with pytest.raises(InputError, match=rf"option {option} is {value}, expected \d+ to 10,000,000"):
        tasks.load(name, {option: value})


@pytest.mark.parametrize("name, option", [(name, option) for name, options in NUMBERS.items() for option in options])
def test_a_count_of_none_is_refused_but_for_anchors_that_the_rule_can_do_without(name, option):
    if (name, option) == ("mnist_evenodd", "anchors"):
        assert tasks.load(name, {option: "0"}).data(Streams(0)).anchors.concepts.tolist() == [0, 1]
    else:
        with pytest.raises(InputError, match=rf"option {option} is 0, expected [1-9]\d* to 10,000,000"):
            tasks.load(name, {option: "0"})


@pytest.mark.parametrize("name", NUMBERS)
def test_a_count_that_is_no_whole_number_is_refused_by_the_task(name):
    with pytest.raises(InputError, match=r"option train is 20\.5, expected a whole number"):
        tasks.load(name, {"train": 20.5})


def test_every_number_among_the_options_of_built_in_tasks_is_tried_here():
    """A new option that counts something must be checked too."""
    import inspect

    for name in tasks.names():
        parameters = inspect.signature(tasks._module(name).task, eval_str=True).parameters.values()
        assert [each.name for each in parameters if each.annotation is int] == NUMBERS[name]


def test_an_annotation_that_names_nothing_is_one_sentence(write):
    file = write(RULE + "def task(a: 'Nope' = 1): return make()")
    with pytest.raises(
        TaskError, match=r"parameters of `task` in .* cannot be read: NameError: name 'Nope' is not def"
    ):
        tasks.load(file)


@pytest.mark.parametrize(
    "task, options, name",
    [
        ("def task(**more): return make()", {}, "sums"),
        ("def task(*more, size: int = 1): return make(f'sums {size + 1}')", {"size": "2"}, "sums 3"),
        ("def task(size: 'int' = 1): return make(f'sums {size + 1}')", {"size": "2"}, "sums 3"),
        ("def task(size=1): return make(f'sums {size + 1}')", {"size": "2"}, "sums 3"),
        ("import functools; task = functools.partial(make, name='part')", {}, "part"),
        (
            "class Maker:\n    def __call__(self, size: int = 1): return make(str(size + 1))\ntask = Maker()",
            {"size": "2"},
            "3",
        ),
    ],
)
def test_a_task_is_made_by_any_callable(write, task, options, name):
    assert tasks.load(write(RULE + task), options).name == name


@pytest.mark.parametrize(
    "declared, given, arrives",
    [
        ("int | None", "null", None),
        ("None | int", "4", 4),
        ("int | str", "4", 4),
        ("int | str", "box", "box"),
        ("int", "1e3", 1000),
        ("bool", "YES", True),
        ("bool", "0", False),
        ("str", "no", "no"),
        ("Literal[True, 'auto']", "True", True),
        ("Literal[4, 9] | None", "9", 9),
        ("Path", "a/b", Path("a/b")),
        ("Colour", "red", "Colour.RED"),
        ("Sized", "4", "sized 4"),
        ("Annotated[int, 'of a side']", "4", 4),
        ("Any", "4", "4"),
        ("int", 4, 4),
        ("str", Path("a/b"), Path("a/b")),
    ],
)
def test_an_option_arrives_as_its_type_says(write, declared, given, arrives):
    file = write(TYPES + f"def task(a: {declared} = None): return make(str(a) if isinstance(a, Own) else repr(a))")
    assert tasks.load(file, {"a": given}).name in (arrives, repr(arrives))


@pytest.mark.parametrize("declared, arrives", [("a", "'4'"), ("a=None", "'4'"), ("a=1.5", "4.0"), ("a='x'", "'4'")])
def test_without_a_declared_type_that_of_the_default_holds(write, declared, arrives):
    assert tasks.load(write(RULE + f"def task({declared}): return make(repr(a))"), {"a": "4"}).name == arrives


@pytest.mark.parametrize(
    "declared, given, expected",
    [
        ("int", "4.5", "a whole number"),
        ("int", "9" * 5000, "a whole number"),
        ("float", "wide", "a number"),
        ("bool", "2", "true or false"),
        ("int | None", "none", "a whole number or null"),
        ("Literal['a', 'b'] | bool", "c", "one of 'a', 'b' or true or false"),
        ("Literal['a', 'b']", 3, "one of 'a', 'b'"),
        ("list[int]", "3", "list"),
        ("Colour", "green", "Colour"),
        ("Sized", "wide", "Sized"),
        ("3", "4", "3"),
    ],
)
def test_an_option_that_its_type_does_not_take_is_refused_with_what_it_takes(write, declared, given, expected):
    file = write(TYPES + f"def task(a: {declared} = None): return make()")
    with pytest.raises(InputError) as caught:
        tasks.load(file, {"a": given})
    assert str(caught.value) == f"option a of task {file} is {given!r}, expected {expected}"


def test_what_has_no_parameters_to_be_read_is_one_sentence(write):
    with pytest.raises(TaskError, match=r"parameters of `task` in .* cannot be read"):
        tasks.load(write("task = dict"))


def test_a_task_imports_the_files_beside_it_at_once_and_later_on(write, monkeypatch, tmp_path):
    write("WIDTH = 3", "softpnet_test_neighbour.py")
    write("def called(c): return c.sum(-1)", "softpnet_test_late.py")
    text = (
        RULE.replace("values=3", "values=softpnet_test_neighbour.WIDTH")
        + """
def rule(c):
    import softpnet_test_late
    return softpnet_test_late.called(c)
task = softpnet.Task(space, rule)
"""
    )
    file = write("import softpnet_test_neighbour" + text)
    monkeypatch.chdir("/")
    task = tasks.load(file)
    assert task.space.sizes == (3, 3)
    assert task.rule(task.space.all()).tolist() == task.space.all().sum(-1).tolist()


def test_each_task_gets_its_own_neighbour(write):
    for folder, name in (("one", "first"), ("two", "second"), ("one", "first")):
        write(f"NAME = '{name}'", f"{folder}/softpnet_test_helper.py")
        file = write(RULE + "import softpnet_test_helper as h; task = make(h.NAME)", f"{folder}/mine.py")
        assert tasks.load(file).name == name


def test_each_task_keeps_its_own_neighbour_when_another_was_loaded_and_looks_for_it_late(write):
    late = RULE + "def rule(c):\n    from helpers import part\n    return part.label(c)\n"
    loaded = {}
    for folder, factor in (("one", 1), ("two", 2)):
        write("from helpers import part", f"{folder}/between.py")
        (Path(write("", f"{folder}/x.py")).parent / "helpers").mkdir()
        write("", f"{folder}/helpers/__init__.py")
        write(
            "def label(c):\n    import helpers.factor\n    return helpers.factor.F * c.sum(-1)",
            f"{folder}/helpers/part.py",
        )
        write(f"F = {factor}", f"{folder}/helpers/factor.py")
        loaded[factor] = tasks.load(write(late + "task = softpnet.Task(space, rule)", f"{folder}/mine.py"))
    every = loaded[1].space.all()
    for factor, task in loaded.items():
        assert task.rule(every).tolist() == (factor * every.sum(-1)).tolist()


def test_a_task_that_is_loaded_leaves_the_host_process_its_modules_and_its_path(write, monkeypatch):
    write("WIDTH = 3", "helpers.py")
    mine = types.ModuleType("helpers")  # of the host process, by the same name
    monkeypatch.setitem(sys.modules, "helpers", mine)
    path, modules = sys.path[:], {name: sys.modules[name] for name in sys.modules}
    file = write("from helpers import WIDTH" + RULE.replace("values=3", "values=WIDTH") + "task = make()")
    assert tasks.load(file).space.sizes == (3, 3)
    assert sys.path == path and sys.modules["helpers"] is mine
    assert all(name.startswith(catalogue.USER) for name in sys.modules.keys() - modules.keys())
    with pytest.raises(TaskError, match="could not be run"):
        tasks.load(write("import helpers, nowhere_to_be_found", "broken.py"))
    assert sys.path == path and sys.modules["helpers"] is mine


def test_a_process_that_is_started_anew_reads_ahead_by_what_a_task_s_file_and_its_neighbour_define(write, monkeypatch):
    write("import torch\ndef item(number): return torch.full((2, 4), 1.0 * number)", "helpers.py")
    source = """
class Source:
    def __len__(self): return 6
    def __getitem__(self, number):
        import helpers
        return helpers.item(number)
"""
    inputs = LazyInputs(catalogue.own_file("task", write(source), ()).Source(), 2)
    anew = functools.partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn"))
    monkeypatch.setattr(ahead, "ProcessPoolExecutor", anew)
    (read, items), *_ = inputs.batches([torch.tensor([4, 1])], workers=1)
    assert read == [4, 1] and items[:, 0, 0].tolist() == [4, 1]


def test_a_neighbour_takes_the_place_of_nothing_that_is_installed(write):
    write("raise RuntimeError", "colorsys.py")
    sys.modules.pop("colorsys", None)
    file = write(RULE + "import colorsys; task = make(colorsys.rgb_to_hsv.__name__)")
    assert tasks.load(file).name == "rgb_to_hsv"
