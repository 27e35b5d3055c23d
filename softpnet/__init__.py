"""softpnet: learn the hidden concepts behind labels, from a rule and one labelled example per concept.

Shapes are written in these letters:

    N, B  examples in the data set, in a batch
    n     image slots of one example;  a  attributes per slot
    k     concepts of one example;     h  values of a concept (the largest number, where they differ)
    P     primitives: what has a prototype;  A  images of a primitive per step: the anchor and its copies
    D     size of an embedding;        E  episodes per step
    K     candidates in a working set; M  rows of the cache, or rows drawn from it;  T  rows that k-best filters
    m     entries of a label vector;   L  labels
    W     nodes of a layer of a compiled rule;  S  states of a machine
    G     groups;                      Q  readings that calibration keeps
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from softpnet.checks.check_task import check_task
    from softpnet.data.rows import read_rows
    from softpnet.errors import InputError, SoftPNetError, StopTraining, TaskError, TrainingError
    from softpnet.learner import Learner
    from softpnet.networks import augmentation as augment
    from softpnet.networks.reader import Prediction
    from softpnet.rules.machine import Machine
    from softpnet.rules.solvers.answer_sets import AnswerSets
    from softpnet.rules.solvers.constraints import ConstraintModel
    from softpnet.rules.solvers.dimacs import Dimacs
    from softpnet.task.concepts import ConceptSpace, Group
    from softpnet.task.data import Anchors, Data, Examples
    from softpnet.task.rows import Rows
    from softpnet.task.settings import Settings
    from softpnet.task.task import Corruption, Task

_HOME = {
    "ConceptSpace": "task.concepts",
    "Group": "task.concepts",
    "Task": "task.task",
    "Rows": "task.rows",
    "Machine": "rules.machine",
    "ConstraintModel": "rules.solvers.constraints",
    "Dimacs": "rules.solvers.dimacs",
    "AnswerSets": "rules.solvers.answer_sets",
    "read_rows": "data.rows",
    "Corruption": "task.task",
    "Anchors": "task.data",
    "Examples": "task.data",
    "Data": "task.data",
    "Settings": "task.settings",
    "Learner": "learner",
    "Prediction": "networks.reader",
    "check_task": "checks.check_task",
    "SoftPNetError": "errors",
    "StopTraining": "errors",
    "TaskError": "errors",
    "InputError": "errors",
    "TrainingError": "errors",
}

_MODULES = {"augment": "networks.augmentation"}

__all__ = [
    "Anchors",
    "AnswerSets",
    "ConceptSpace",
    "ConstraintModel",
    "Corruption",
    "Data",
    "Dimacs",
    "Examples",
    "Group",
    "InputError",
    "Learner",
    "Machine",
    "Prediction",
    "Rows",
    "Settings",
    "SoftPNetError",
    "StopTraining",
    "Task",
    "TaskError",
    "TrainingError",
    "augment",
    "check_task",
    "read_rows",
]


def __getattr__(name: str) -> Any:
    """Public names are imported at their first use, so that the command line can answer without torch."""
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return importlib.import_module(f"softpnet.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'softpnet' has no attribute {name!r}; the public names are {', '.join(__all__)}")
    return getattr(importlib.import_module(f"softpnet.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("softpnet")
    except PackageNotFoundError:
        # an AttributeError, so that `getattr(softpnet, "__version__", None)` answers
        raise AttributeError("softpnet is not installed, so its version is not known; run pip install .") from None
