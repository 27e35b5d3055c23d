"""The loop: who trains on what, and what it leaves behind."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning_fabric.plugins import Precision

from softpnet.errors import TrainingError
from softpnet.methods.base import Method
from softpnet.task.settings import Settings
from softpnet.training.loop import Training
from softpnet.training.streams import Streams, borrowed_global_generator


class OneProcess:
    """What the loop asks of a fabric, for one of several processes."""

    device = torch.device("cpu")
    strategy = SimpleNamespace(precision=Precision())

    def __init__(self, rank=0, processes=1):
        self.global_rank, self.world_size = rank, processes

    def setup(self, module, optimiser):
        self.optimiser = optimiser
        return module, optimiser

    def all_reduce(self, value, reduce_op):
        return value

    def broadcast(self, value):
        return value

    def backward(self, loss):
        loss.backward()


class Recorder(Method):
    """Learns one number and remembers which ids it saw, and at which learning rate."""

    def __init__(self, settings, fabric, nan_at=None):
        super().__init__(None, settings, [])
        self.fabric, self.nan_at = fabric, nan_at
        self.seen, self.rates, self.events = [], [], []

    def module(self, encoders):
        raise AssertionError("not asked by the loop")

    def warm_up(self, module, inputs, streams):
        assert len(inputs) == self.settings.warmup_examples
        self.events.append("warm-up")
        return module.weight.sum()

    def loss(self, module, state, batch, clock, streams):
        self.seen.append((clock.epoch, batch.ids.tolist()))
        self.rates.append(self.fabric.optimiser.param_groups[0]["lr"])
        self.events.append("step")
        scale = float("nan") if (clock.epoch, clock.step) == self.nan_at else 1.0
        return (
            scale * module.weight.square().sum(),
            {"always": 1.0, **({"rare": 2.0} if clock.step == 0 else {})},
        )


def run(settings, rank=0, processes=1, seed=0, nan_at=None, count=10):
    fabric, module = OneProcess(rank, processes), torch.nn.Linear(1, 1)
    module.encoders = torch.nn.ModuleDict()
    method = Recorder(settings, fabric, nan_at)
    inputs, labels = torch.zeros(count, 1, 1, 2, 2), torch.arange(count)
    steps = list(Training(method, module, inputs, labels, settings, Streams(seed), fabric).steps())
    return method, steps


def test_every_example_is_seen_once_per_epoch_in_a_new_order():
    method, steps = run(Settings(epochs=3, batch_size=4, warmup_steps=0))
    orders = [[i for e, ids in method.seen if e == epoch for i in ids] for epoch in range(3)]
    assert all(sorted(order) == list(range(10)) for order in orders) and len(set(map(tuple, orders))) == 3
    assert [step.epoch_done for step in steps] == [False, False, True] * 3


def test_processes_own_disjoint_examples_and_keep_them():
    settings = Settings(epochs=2, batch_size=3, warmup_steps=0)
    seen = [{i for _, ids in run(settings, rank, 2)[0].seen for i in ids} for rank in (0, 1)]
    assert seen == [{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}]


def test_processes_take_equally_many_steps_when_examples_do_not_divide():
    settings = Settings(epochs=1, batch_size=4, warmup_steps=0)  # of both together
    counts = [len(run(settings, rank, 2, count=9)[1]) for rank in (0, 1)]
    assert counts == [2, 2]


def test_warm_up_steps_come_first_and_can_be_none():
    method, steps = run(Settings(epochs=1, batch_size=5, warmup_steps=3, warmup_examples=2))
    assert method.events == ["warm-up"] * 3 + ["step"] * 2
    assert [step.warming_up for step in steps] == [True] * 3 + [False] * 2
    assert [step.epoch_done for step in steps] == [False] * 4 + [True]
    assert run(Settings(epochs=1, batch_size=5, warmup_steps=0))[0].events == ["step"] * 2


def test_the_learning_rate_and_the_weight_decay_are_those_of_the_settings():
    settings = Settings(epochs=5, batch_size=10, learning_rate=0.4, halve_every=2, weight_decay=0.03, warmup_steps=0)
    method, _ = run(settings)
    assert method.rates == pytest.approx([0.4, 0.4, 0.2, 0.2, 0.1])
    assert method.fabric.optimiser.param_groups[0]["weight_decay"] == 0.03


def test_the_learning_rate_can_fall_to_zero_by_the_same_amount_in_every_step():
    method, _ = run(Settings(epochs=2, batch_size=5, learning_rate=0.4, decay_to_zero=True, warmup_steps=0))
    assert method.rates == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_diagnostics_are_means_over_the_steps_that_have_them():
    _, steps = run(Settings(epochs=1, batch_size=4, warmup_steps=0))
    assert steps[-1].means == {"always": 1.0, "rare": 2.0}
    assert steps[-1].record()["epoch"] == 1


def test_a_nan_loss_stops_in_that_step_and_names_the_batch():
    method = None
    with pytest.raises(TrainingError, match=r"nan in epoch 2, step 3, on the batch of examples \[") as error:
        method, _ = run(Settings(epochs=3, batch_size=4, warmup_steps=0), nan_at=(1, 2))
    assert len(re.findall(r"\d+", str(error.value).split("examples")[1].split("]")[0])) == 2
    assert method is None


def test_streams_do_not_shift_each_other():
    one, two = Streams(3), Streams(3)
    torch.rand(1000, generator=one("walk"))
    assert torch.equal(torch.rand(5, generator=one("batches")), torch.rand(5, generator=two("batches")))
    assert not torch.equal(torch.rand(5, generator=Streams(3)("a")), torch.rand(5, generator=Streams(3)("b")))
    assert not torch.equal(torch.rand(5, generator=Streams(3)("a")), torch.rand(5, generator=Streams(4)("a")))


def test_borrowing_the_global_generator_gives_it_back():
    before = torch.random.get_rng_state()
    with borrowed_global_generator(Streams(0)("init")):
        one = torch.nn.Linear(3, 3).weight.clone()
    with borrowed_global_generator(Streams(0)("init")):
        two = torch.nn.Linear(3, 3).weight.clone()
    assert torch.equal(one, two) and torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("there", [True, False])
def test_devices_are_seeded_with_the_global_generator_where_there_are_any(there, monkeypatch):
    """Where there are none, torch would format a stack each time, in case that one is used later."""
    seeds = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    with borrowed_global_generator(Streams(0)("init")):
        assert seeds == ([torch.initial_seed()] if there else [])


TOGETHER = """
import sys, torch
import softpnet as sp
from softpnet.tasks import load
from softpnet.training.streams import Streams

task = load(sys.argv[1])
data = task.data(Streams(0))
for method in sys.argv[2:]:
    model = sp.Learner(task, method=method, processes=2, threads=1, epochs=2, warmup_steps=2)
    model.fit(data.train.inputs, data.train.labels, data.anchors, run=method)
    rank = torch.distributed.get_rank()
    torch.save([p.detach() for p in model.module.parameters() if p.requires_grad], f"{method}-rank{rank}.pt")
"""


@pytest.mark.processes
def test_two_processes_train_one_model_together_and_then_another(tmp_path):
    """Each sees half of the examples, and both end with the same weights: their gradients were shared."""
    page = (Path(__file__).parents[2] / "docs/your-own-task.md").read_text()
    (tmp_path / "my_rule.py").write_text(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0])
    (tmp_path / "together.py").write_text(TOGETHER)
    methods = ["softpnet", "softpnet_head_scoring"]  # all parts of the network in every step, or not
    command = [sys.executable, "together.py", "my_rule.py", *methods]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for method in methods:
        one, two = (torch.load(tmp_path / f"{method}-rank{rank}.pt", weights_only=True) for rank in (0, 1))
        assert len(one) > 0 and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
        assert len((tmp_path / method / "epochs.jsonl").read_text().splitlines()) == 2
