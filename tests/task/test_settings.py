"""Settings are overrides: preset < task < user < method, and it is known who gave each value."""

import dataclasses
import json
import re

import pytest

from softpnet import ConceptSpace, InputError, Learner, Settings, Task, TaskError, tasks
from softpnet.cli import main
from softpnet.task.settings import PRESETS, resolve

TASK = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), settings={"epochs": 7, "working_set": 9})


def test_the_user_overrides_the_task_and_the_task_the_default():
    settings, given_by = resolve("paper", {"epochs": 7, "copies": 5}, {}, {"copies": 4}, "any")
    assert settings == Settings(epochs=7, copies=4)
    assert given_by == dict.fromkeys(given_by, "default") | {"epochs": "task", "copies": "user"}
    assert list(given_by) == [field.name for field in dataclasses.fields(Settings)]


def test_a_value_that_equals_the_default_is_still_known_as_given():
    assert resolve("paper", {"epochs": 10}, {}, {"copies": 3}, "any")[1]["epochs"] == "task"
    assert resolve("paper", {"epochs": 10}, {}, {"copies": 3}, "any")[1]["copies"] == "user"


def test_a_preset_stands_between_the_default_and_the_task():
    settings, given_by = resolve("best", {"scaled": False}, {}, {}, "any")
    assert settings == Settings(**PRESETS["best"] | {"scaled": False})
    assert given_by["prototypes"] == "preset" and given_by["scaled"] == "task" and given_by["batch_size"] == "default"


def test_a_task_may_have_settings_in_one_preset_only():
    task = dataclasses.replace(TASK, presets={"paper": {"epochs": 3, "rule_weight": 5.0}})
    paper, best = Learner(task, preset="paper"), Learner(task)
    assert (paper.settings.epochs, paper.settings.rule_weight, paper.settings.working_set) == (3, 5.0, 9)
    assert (best.settings.epochs, best.settings.rule_weight, best.settings.working_set) == (7, 1.0, 9)
    assert (best.preset, best.settings.prototypes) == ("best", "learned")


@pytest.mark.parametrize("preset", ["fast", ["best"], None])
def test_a_preset_that_does_not_exist_is_named_with_those_that_do(preset):
    with pytest.raises(InputError, match=rf"preset is {re.escape(repr(preset))}, expected 'best' or 'paper'"):
        Learner(TASK, preset=preset)


@pytest.mark.parametrize("presets", [{"papr": {"epochs": 3}}, [1]])
def test_a_task_s_presets_are_settings_by_the_name_of_a_preset(presets):
    with pytest.raises(TaskError, match=r"presets of task 'task' are .*, expected settings by the name of a preset"):
        Learner(dataclasses.replace(TASK, presets=presets))


@pytest.mark.parametrize("name", tasks.names())
def test_the_recipe_is_one_for_all_tasks(name):
    """A task names its epochs and its batch size only; all else is the preset's."""
    assert set(tasks.load(name).settings) <= {"epochs", "batch_size"}


def test_what_a_method_fixes_is_the_method_s_and_a_user_may_only_say_the_same():
    model = Learner(TASK, method="softg")
    assert model.settings.working_set == 1 and model.given_by["working_set"] == "method"
    assert Learner(TASK, method="softg", working_set=1).settings == model.settings
    with pytest.raises(InputError, match="working_set is 9, but method 'softg' is defined with working_set = 1"):
        Learner(TASK, method="softg", working_set=9)  # the task's own value, but said by the user


def test_a_task_s_settings_are_a_dict_of_known_names():
    with pytest.raises(TaskError, match=r"settings of the task are Settings .*expected a dict by name"):
        Learner(dataclasses.replace(TASK, settings=Settings()))
    with pytest.raises(InputError, match="unknown setting 'passes'; the valid ones are epochs, batch_size"):
        Learner(dataclasses.replace(TASK, settings={"passes": 1}))


def test_the_command_line_passes_on_what_was_given_and_parses_once(monkeypatch, tmp_path, softpnet_here):
    """config.json says of every value who gave it."""
    monkeypatch.chdir(tmp_path)
    short = ["--option", "train=64", "--option", "test=8", "--option", "cached=50", "--epochs", "1", "--episodes", "1"]
    words = ["train", "kand_logic", *short, "--warmup-steps", "0", "--no-pictures", "--out", "run", "--method", "softg"]
    words += ["--preset", "paper"]
    parsed = []
    monkeypatch.setattr(
        main.tyro, "cli", lambda *args, own=main.tyro.cli, **more: parsed.append(1) or own(*args, **more)
    )
    code, _, _ = softpnet_here(*words)
    assert code == 0 and parsed == [1]
    given_by = json.loads((tmp_path / "run/config.json").read_text())["given_by"]
    expected = {"epochs": "user", "episodes": "user", "warmup_steps": "user", "halve_every": "task"}
    expected |= {"working_set": "method", "target": "method", "gamma": "default"}
    assert {name: given_by[name] for name in expected} == expected and set(given_by) == set(
        dataclasses.asdict(Settings())
    )
