"""Settings are overrides: task < method < user, and it is known who gave each value."""

import dataclasses
import json

import pytest

from softpnet import ConceptSpace, InputError, Learner, Settings, Task, TaskError
from softpnet.cli import main
from softpnet.task.settings import resolve

TASK = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), settings={"epochs": 7, "working_set": 9})


def test_the_user_overrides_the_task_and_the_task_the_default():
    settings, given_by = resolve({"epochs": 7, "copies": 5}, {}, {"copies": 4}, "any")
    assert settings == Settings(epochs=7, copies=4)
    assert given_by == dict.fromkeys(given_by, "default") | {"epochs": "task", "copies": "user"}
    assert list(given_by) == [field.name for field in dataclasses.fields(Settings)]


def test_a_value_that_equals_the_default_is_still_known_as_given():
    assert resolve({"epochs": 10}, {}, {"copies": 3}, "any")[1]["epochs"] == "task"
    assert resolve({"epochs": 10}, {}, {"copies": 3}, "any")[1]["copies"] == "user"


def test_what_a_method_fixes_is_the_method_s_and_a_user_may_only_say_the_same():
    model = Learner(TASK, method="softg")
    assert model.settings.working_set == 1 and model.given_by["working_set"] == "method"
    assert Learner(TASK, method="softg", working_set=1).settings == model.settings
    with pytest.raises(InputError, match="working_set is 9, but method 'softg' is defined with working_set = 1"):
        Learner(TASK, method="softg", working_set=9)  # the task's own value, but said by the user


def test_a_task_s_settings_are_a_dict_of_known_names():
    with pytest.raises(TaskError, match=r"settings of the task are Settings .*expected a dict by name"):
        Learner(dataclasses.replace(TASK, settings=Settings()))
    with pytest.raises(InputError, match="unknown setting 'epoch'; the valid ones are epochs, batch_size"):
        Learner(dataclasses.replace(TASK, settings={"epoch": 1}))


def test_the_command_line_passes_on_what_was_given_and_parses_once(monkeypatch, tmp_path, softpnet_here):
    """config.json says of every value who gave it."""
    monkeypatch.chdir(tmp_path)
    short = ["--option", "train=64", "--option", "test=8", "--option", "cached=50", "--epochs", "1", "--episodes", "1"]
    words = ["train", "kand_logic", *short, "--warmup-steps", "0", "--no-pictures", "--out", "run", "--method", "softg"]
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
