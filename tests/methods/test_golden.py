"""A second of every method, held against numbers of the day the records were made.

When this fails, training computes something else than when the committed records were made: find out why, and if it is
meant, make the records again (`softpnet reproduce`) and then the numbers: `python tests/methods/test_golden.py`.

Every processor rounds in its own way, and a coin of the walk that lands the other way changes all that follows. So
these runs compute in double precision, from pixels and first weights that are the same everywhere, and no coin and no
choice of a candidate is close: the command above refuses numbers of which a small noise in the inputs turns any.
"""

import json
from pathlib import Path
from unittest import mock

import pytest
import torch

from softpnet import Learner, methods, tasks
from softpnet.training.streams import Streams

GOLDEN = Path(__file__).with_name("golden.json")
SHORT = {"epochs": 2, "batch_size": 4, "warmup_steps": 2, "warmup_examples": 1, "copies": 1}
FEW = {"visual_sudoku": {"working_set": 10}}  # candidates, so that no coin is close
AT_ONCE = {"rule_delay": 0, "rule_ramp": 0, "walk_every": 1}
SMALL = {
    "kand_logic": {"train": 8, "test": 2, "cached": 100},
    "visual_sudoku": {"train": 4},
    "mnist_evenodd": {"train": 16},
}
RELATIVE = 1e-6
NOISE = 1e-7  # in the inputs
UNTURNED = 1e-3  # what it may change, relative; a coin that lands the other way changes more


def plain_uniform(tensor, low=0.0, high=1.0, generator=None):
    """`Tensor.uniform_` without the fused multiply-add that only some processors have."""
    return tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=generator))


def numbers(method, task, preset, noise=0.0):
    """Diagnostics of two epochs on a few examples, and the size of all weights after them."""
    task = tasks.load(task, SMALL[task])
    data = task.data(Streams(0))
    inputs, shown = data.train.inputs.round(), data.anchors.inputs.round()
    inputs = inputs + noise * torch.rand(inputs.shape, generator=torch.Generator().manual_seed(0))
    settings = SHORT | AT_ONCE | FEW.get(task.name, {})
    model = Learner(task, method=method, preset=preset, seed=0, precision="64-true", threads=1, **settings)
    with mock.patch.object(torch.Tensor, "uniform_", plain_uniform):
        model.fit(inputs, data.train.labels, data.anchors._replace(inputs=shown), concepts=data.train.concepts)
    epochs = [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in model.history]
    return [*epochs, {"weights": sum(float(part.double().norm()) for part in model.module.state_dict().values())}]


def runs():
    """Every method on one task, and ours on the others and with our recipe: what differs there is the task's."""
    others = [("softpnet", task, "paper") for task in SMALL if task != "kand_logic"]
    ours = [("softpnet", task, "best") for task in SMALL]
    return [*((method, "kand_logic", "paper") for method in methods.names()), *others, *ours]


def name(method, task, preset):
    return f"{method} on {task}" if preset == "paper" else f"{method} on {task}, {preset}"


@pytest.mark.parametrize("method, task, preset", runs())
def test_training_computes_what_it_did_when_the_records_were_made(method, task, preset):
    expected = json.loads(GOLDEN.read_text())[name(method, task, preset)]
    for now, then in zip(numbers(method, task, preset), expected, strict=True):
        assert now == pytest.approx(then, rel=RELATIVE)


def unturned(method, task, preset):
    """The numbers of a run in which no coin and no choice is so close that rounding could turn it."""
    found = numbers(method, task, preset)
    for now, noisy in zip(found, numbers(method, task, preset, NOISE), strict=True):
        said = f"a coin of {name(method, task, preset)} is too close; choose others"
        assert noisy == pytest.approx(now, rel=UNTURNED), said
    return found


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name(*run): unturned(*run) for run in runs()}, indent=2) + "\n")
