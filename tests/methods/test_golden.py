"""A few seconds of every method, held against numbers of the day the records were made.

When this fails, training computes something else than when the committed records were made: find out why, and if it is
meant, make the records again (`softpnet reproduce`) and then the numbers: `python tests/methods/test_golden.py`.
"""

import json
from pathlib import Path

import pytest

from softpnet import Learner, methods, tasks
from softpnet.training.streams import Streams

GOLDEN = Path(__file__).with_name("golden.json")
SHORT = {"epochs": 2, "batch_size": 16, "warmup_steps": 2, "rule_delay": 0, "rule_ramp": 0, "walk_every": 1}
SMALL = {
    "kand_logic": {"train": 32, "test": 2, "cached": 500},
    "visual_sudoku": {"train": 16},
    "mnist_evenodd": {"train": 32},
}
RELATIVE = 0.02  # other processors round otherwise, which may turn a walk's coin


def numbers(method, task="kand_logic"):
    """Diagnostics of two epochs on a few examples."""
    task = tasks.load(task, SMALL[task])
    data = task.data(Streams(0))
    model = Learner(task, method=method, seed=0, threads=1, **SHORT)
    model.fit(data.train.inputs, data.train.labels, data.anchors, concepts=data.train.concepts)
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in model.history]


def runs():
    """Every method on one task, and ours on the others: what differs there is the task's."""
    others = [("softpnet", task) for task in SMALL if task != "kand_logic"]
    return [*((method, "kand_logic") for method in methods.names()), *others]


@pytest.mark.parametrize("method, task", runs())
def test_training_computes_what_it_did_when_the_records_were_made(method, task):
    expected = json.loads(GOLDEN.read_text())[f"{method} on {task}"]
    for now, then in zip(numbers(method, task), expected, strict=True):
        assert now == pytest.approx(then, rel=RELATIVE)


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({f"{m} on {t}": numbers(m, t) for m, t in runs()}, indent=2) + "\n")
