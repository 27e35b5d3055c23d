"""softpnet: learn the hidden concepts behind labels, from a rule and one labelled example per concept.

Shapes are written in these letters:

    N, B  examples in the data set, in a batch
    n     image slots of one example;  a  attributes per slot
    k     concepts of one example;     h  values of a concept (the largest number, where they differ)
    P     primitives: what has a prototype;  A  images of a primitive per step: the anchor and its copies
    D     size of an embedding;        E  episodes per step
    K     candidates in a working set; M  rows of the cache, or rows drawn from it;  T  rows that k-best filters
    m     entries of a label vector;   L  labels
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softpnet.concepts import ConceptSpace, Group
    from softpnet.conformance.checking import check_task
    from softpnet.errors import InputError, SoftPNetError, TaskError, TrainingError
    from softpnet.learner import Prediction, SoftPNet
    from softpnet.settings import Settings
    from softpnet.task import Anchors, Corruption, Data, Examples, Rows, Task

_HOME = {
    "ConceptSpace": "concepts",
    "Group": "concepts",
    "Task": "task",
    "Rows": "task",
    "Corruption": "task",
    "Anchors": "task",
    "Examples": "task",
    "Data": "task",
    "Settings": "settings",
    "SoftPNet": "learner",
    "Prediction": "learner",
    "check_task": "conformance.checking",
    "SoftPNetError": "errors",
    "TaskError": "errors",
    "InputError": "errors",
    "TrainingError": "errors",
}

__all__ = [
    "Anchors",
    "ConceptSpace",
    "Corruption",
    "Data",
    "Examples",
    "Group",
    "InputError",
    "Prediction",
    "Rows",
    "Settings",
    "SoftPNet",
    "SoftPNetError",
    "Task",
    "TaskError",
    "TrainingError",
    "check_task",
]


def __getattr__(name: str) -> Any:
    """Public names are imported at their first use, so that the command line can answer without torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'softpnet' has no attribute {name!r}; the public names are {', '.join(__all__)}")
    return getattr(importlib.import_module(f"softpnet.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
