"""Where the network is, its targets and predictions are computed too; a step takes nothing back but scalars."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet import methods, tasks
from softpnet.errors import InputError, TaskError
from softpnet.methods.base import Batch, Clock
from softpnet.rules.compile import Compilation, compilation
from softpnet.rules.moves import redraw
from softpnet.targets.source import TargetSource
from softpnet.task.anchors import AnchorSet
from softpnet.task.hardware import Hardware
from softpnet.task.settings import Settings
from softpnet.training.processes import launched
from softpnet.training.streams import Streams
from tests.fake_device import DEVICE, FakeDevice, There, moved

SIZE = 6
SPACE = sp.ConceptSpace(slots=3, values=4)


def total(c):
    return c.sum(-1)


def both(c):
    return torch.stack([c.sum(-1), (c[..., 0] > c[..., 1]).long()], -1)


def summed(rule=total, **more):
    return sp.Task(SPACE, rule, **more)


def not_compiled():
    task = summed()
    task.memo["compilation"] = Compilation(None, "not compiled", "for this test", 0.0)
    return task


def redrawn():
    return summed(move=redraw(compilation(summed()).rule))


def machine():
    def step(states, concept, values, labels):
        after = states + values
        return torch.where(after > labels, -1, after)

    return summed(sp.Machine(0, step, accept=lambda states, labels: states == labels, rule=total))


STEPS = {
    "exact": (summed, {"targets": "exact"}),
    "exact, balanced, noisy": (summed, {"targets": "exact", "balance": 1.0, "label_noise": 0.1}),
    "exact, best": (summed, {"targets": "exact", "target": "best"}),
    "exact, learned prototypes": (summed, {"targets": "auto", "prototypes": "learned", "scaled": True}),
    "exact, gaps in label vectors": (lambda: summed(both), {"targets": "exact"}),
    "exact, a machine that sees the label": (machine, {"targets": "exact"}),
    "k-best": (summed, {"targets": "kbest"}),
    "k-best, gaps in label vectors": (lambda: summed(both), {"targets": "kbest"}),
    "k-best, not compiled": (not_compiled, {"targets": "kbest"}),
    "cache": (summed, {"targets": "cache", "working_set": 3}),
    "cache, label vectors": (lambda: summed(both), {"targets": "cache", "working_set": 3}),
    "cache, rows drawn anew": (redrawn, {"targets": "cache", "working_set": 3}),
    "cache, Sudoku": (lambda: tasks.load("visual_sudoku"), {"targets": "cache", "working_set": 4}),
    "cache, long lists": (lambda: tasks.load("kand_logic"), {"targets": "cache", "draw_factor": 250}),
}


@pytest.fixture(autouse=True)
def mixed_precision_of_the_device(monkeypatch):
    """Which torch knows of its own devices only."""
    own = torch.autocast
    monkeypatch.setattr(
        torch, "autocast", lambda kind, **given: nullcontext() if kind == DEVICE.type else own(kind, **given)
    )


class Made:
    """A method, started, and a batch for it."""

    def __init__(self, task, settings, name="softpnet", device=None):
        def there(tensor):
            return tensor if device is None else tensor.to(device)

        chosen, streams, drawn = Settings(copies=2, episodes=3).override(**settings), Streams(0), torch.Generator()
        anchors = [
            AnchorSet(torch.randn(len(group.primitives), SIZE, generator=drawn), torch.arange(len(group.primitives)))
            for group in task.space.groups
        ]
        inputs = torch.randn(8, task.space.slots, SIZE, generator=drawn)
        rows = torch.cat([torch.zeros(1, task.space.k), torch.rand(7, task.space.k, generator=drawn)])
        labels = task.rule((rows * torch.tensor(task.space.sizes)).long())
        if labels.dim() > 1 and settings["targets"] != "cache":
            labels[::2, 1] = -1
        encoder = nn.Sequential(nn.Linear(SIZE, 5), nn.BatchNorm1d(5))
        with torch.no_grad():
            for weight in encoder.parameters():
                weight.copy_(torch.randn(weight.shape, generator=drawn))
        name_of_encoder = task.space.groups[0].encoder
        self.streams = streams
        self.method = methods.find(name)(task, chosen, [own._replace(inputs=there(own.inputs)) for own in anchors])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = self.method.module({name_of_encoder: encoder})
        self.module = module if device is None else moved(module)
        self.state = self.method.start(labels, streams)
        if device is not None:
            self.method.place(self.state, device)
        self.batch = Batch(there(inputs), there(labels), torch.arange(8))

    @torch.no_grad()
    def steps(self):
        """Loss and diagnostics of a step in each of two epochs, and the state after them."""
        made = []
        for epoch in range(2):
            loss, info = self.method.loss(self.module, self.state, self.batch, Clock(epoch, 0), self.streams)
            made.append((float(loss), info))
        return made, self.state.tensors()


@pytest.mark.parametrize("case", STEPS)
def test_a_step_on_a_device_takes_back_nothing_but_scalars_and_is_the_same_step(case):
    make, settings = STEPS[case]
    expected, kept = Made(make(), settings).steps()
    with FakeDevice() as device:
        made = Made(make(), settings, device=DEVICE)
        device.scalars, device.copied = 0, []
        found, state = made.steps()
    assert device.copied == []
    assert 4 <= device.scalars < 100  # the losses, at least
    assert found == expected
    for name, tensor in state.items():
        assert isinstance(tensor, There)
        assert torch.equal(tensor.here, kept[name])


def test_a_source_that_knows_no_device_gets_and_keeps_all_on_the_cpu():
    class Plain(TargetSource):
        def target(self, state, query, generator):
            assert not any(isinstance(each, There) for each in query)
            return query.log_p.exp(), {}

    with FakeDevice() as device:
        made = Made(summed(), {"targets": Plain}, device=DEVICE)
        device.copied = []
        (first, _), _ = made.steps()
    assert device.copied[:2] == [(8,), (8, SPACE.k, SPACE.h)]
    assert first[0] == pytest.approx(first[1]["loss_proto"])


def test_a_rule_or_a_move_that_makes_tensors_elsewhere_is_told_where_it_fails():
    def stuck(rows, generator):
        return rows + torch.zeros(rows.shape, dtype=torch.int64)

    def elsewhere(c):
        return c.sum(-1) + torch.zeros(c.shape[:-1], dtype=torch.int64)

    plain = summed(elsewhere)
    plain.memo["compilation"] = Compilation(None, "not compiled", "for this test", 0.0)
    for task, settings, words in (
        (plain, {"targets": "kbest"}, "the rule of task 'task' cannot be asked on meta, where the network is: "),
        (summed(move=stuck), {"targets": "cache", "working_set": 3}, "the move of task 'task' cannot be made on meta"),
    ):
        with FakeDevice(), pytest.raises(TaskError, match=words):
            Made(task, settings, device=DEVICE).steps()


@pytest.mark.parametrize("rule", [total, both])
def test_a_model_on_a_device_answers_as_on_the_cpu_and_its_answers_are_there(rule):
    drawn = torch.Generator().manual_seed(0)
    task, inputs = summed(rule), torch.randn(30, SPACE.slots, SIZE, generator=drawn)
    concepts = torch.randint(4, (30, SPACE.slots), generator=drawn)
    anchors = sp.Anchors(torch.randn(4, SIZE, generator=drawn), torch.arange(4))
    model = sp.Learner(task, encoder=lambda size: nn.Linear(SIZE, 5), epochs=1, warmup_steps=2, threads=1)
    model.fit(inputs, rule(concepts), anchors)

    def answers(model):
        found = model.predict(inputs, reject=0.5), *zip(*model.stream(inputs), strict=True)
        flat = [*found[0], *(torch.cat(part) for part in found[1:]), *model.embed(inputs), *model.prototypes()]
        flat.append(model.suggest_anchors(inputs, rule(concepts), 5))
        return flat, model.score(inputs, rule(concepts), concepts)

    expected, judged = answers(model)
    there = copy.copy(model)
    with FakeDevice():
        there.module = moved(copy.deepcopy(model.module))
        found, score = answers(there)
        there.anchors = [*model.anchors]
        shown = there.reanchor(2, inputs[0, :1]).prototypes()
    assert there.module.device == DEVICE
    assert not any(isinstance(each, There) for each in found)
    assert all(map(torch.equal, found, expected))
    assert score == judged
    assert all(map(torch.equal, shown, model.reanchor(2, inputs[0, :1]).prototypes()))


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "cuda:99", "mps"])
def test_a_device_that_is_not_there_is_one_sentence(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError, match=rf"device '{name}' is not available here: [^\n]*; use cpu or auto"):
        launched(Hardware(device=name))


def test_a_numbered_device_is_the_one_that_fabric_is_asked_for(monkeypatch):
    asked = []

    class Asked(Exception):
        pass

    def fabric(**given):
        asked.append((given["accelerator"], given["devices"]))
        raise Asked

    monkeypatch.setattr("lightning_fabric.Fabric", fabric)
    for device, processes in (("cuda:1", 1), ("cuda", 1), ("cuda", 2), ("auto", 1)):
        with pytest.raises(InputError):
            launched(Hardware(device=device, processes=processes))
    assert asked == [("cuda", [1]), ("cuda", 1), ("cuda", 2), ("auto", 1)]


@pytest.mark.parametrize("name", ["cuda:", "cuda:-1", "cuda:x", "cpu:1", "tpu", 1, "cuda:1\n"])
def test_what_is_no_device_is_one_sentence(name):
    with pytest.raises(InputError, match=r"setting device is .*, expected cpu, cuda, cuda:1 for the second"):
        Hardware(device=name).check()


def test_one_device_is_not_for_several_processes():
    with pytest.raises(InputError, match="device is 'cuda:1', expected no number with 2 processes"):
        Hardware(device="cuda:1", processes=2).check()


def test_a_model_goes_to_a_device_that_is_there(monkeypatch):
    model = sp.Learner(summed())
    with pytest.raises(InputError, match="not trained yet"):
        model.to("cpu")
    model.module = nn.Linear(1, 1)
    assert model.to("cpu") is model
    monkeypatch.setattr(torch, "zeros", lambda *_, device: (_ for _ in ()).throw(AssertionError("no\nsuch thing.")))
    with pytest.raises(InputError, match="device 'cuda:3' is not available here: no such thing; use cpu or auto"):
        model.to("cuda:3")
