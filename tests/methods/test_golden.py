"""A few seconds of every method, held against numbers of the day the records were made.

When this fails, training computes something else than when the committed records were made: find out why, and if it is
meant, make the records again (`softpnet reproduce`) and then the numbers: `python tests/methods/test_golden.py`.
"""

import json
from pathlib import Path

import pytest

from softpnet import SoftPNet, methods, tasks
from softpnet.training.streams import Streams

GOLDEN = Path(__file__).with_name("golden.json")
SHORT = {"epochs": 2, "batch_size": 16, "warmup_steps": 2, "weight_delay": 0, "weight_ramp": 0, "walk_every": 1}
RELATIVE = 0.02  # other processors round otherwise, which may turn a walk's coin


def numbers(method):
    """Diagnostics of two epochs on 32 scenes."""
    task = tasks.load("kand_logic", {"train": 32, "test": 2, "cached": 500})
    data = task.data(Streams(0))
    model = SoftPNet(task, method=method, seed=0, threads=1, **SHORT)
    model.fit(data.train.images, data.train.labels, data.anchors, concepts=data.train.concepts)
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in model.epochs]


@pytest.mark.parametrize("method", methods.names())
def test_training_computes_what_it_did_when_the_records_were_made(method):
    expected = json.loads(GOLDEN.read_text())[method]
    for now, then in zip(numbers(method), expected, strict=True):
        assert now == pytest.approx(then, rel=RELATIVE)


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({method: numbers(method) for method in methods.names()}, indent=2) + "\n")
