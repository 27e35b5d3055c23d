"""Other anchors move one prototype, and nothing else."""

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Group, InputError, Learner, Task

SPACE = ConceptSpace(Group([0], 3, "digit", value_names=[["zero", "one", "two"]]), Group([1], (2, 2), "look"))
ANCHORS = {"digit": Anchors(torch.eye(4)[:3], torch.arange(3)), "look": Anchors(torch.eye(4), torch.arange(4))}


def trained(**settings):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(12, 2, 4, generator=generator)
    task = Task(SPACE, lambda c: c.sum(-1), encoder=lambda channels: nn.Linear(4, 5), augment=None)
    labels = torch.randint(5, (12,), generator=generator)
    return Learner(task, epochs=1, warmup_steps=2, batch_size=6, threads=1, **settings).fit(inputs, labels, ANCHORS)


NEW = torch.tensor([[0.0, 1, 1, 0], [0.0, 1, 0, 1]])


@pytest.mark.parametrize("prototypes", ["mean", "learned"])
def test_swapped_anchors_give_the_prototype_and_added_ones_count_beside_the_old(prototypes):
    model = trained(prototypes=prototypes)
    digit, look = (each.clone() for each in model.prototypes())
    mean = model.encoder("digit")(NEW).detach().mean(0)
    assert model.reanchor("one", NEW) is model
    swapped = model.prototypes()[0]
    torch.testing.assert_close(swapped[1], mean)
    assert torch.equal(swapped[[0, 2]], digit[[0, 2]]) and torch.equal(model.prototypes()[1], look)
    assert model.anchors[0].primitives.tolist() == [0, 1, 1, 2]
    assert torch.equal(model.anchors[0].inputs[1:3], NEW)
    model.reanchor((1, 0), NEW[0], add=True)  # one beside one: half way
    other = model.encoder("look")(NEW[:1]).detach()[0]
    torch.testing.assert_close(model.prototypes()[1][2], (look[2] + other) / 2)
    assert model.anchors[1].primitives.tolist() == [0, 1, 2, 2, 3]


def test_the_new_anchors_are_read_as_the_value_and_saved_with_the_model(tmp_path):
    model = trained()
    odd = torch.full((4,), 7.0)
    model.reanchor("two", odd)
    assert int(model.predict(torch.stack([odd, odd])[None]).concepts[0, 0]) == 2
    model.save(tmp_path / "run")
    read = Learner.load(tmp_path / "run", task=model.task)
    assert torch.equal(read.prototypes()[0], model.prototypes()[0])
    assert torch.equal(read.anchors[0].inputs[-1], odd)


@pytest.mark.parametrize(
    "value, inputs, options, said",
    [
        ("nine", NEW, {}, "there is no value 'nine'; the values are zero, one, two"),
        (1, NEW, {}, "value 1 is in several groups; name one with group=, of digit, look"),
        (1, NEW, {"group": "size"}, "there is no group 'size'; the groups are digit, look"),
        ("one", NEW[:, :3], {}, r"anchors are torch.float32 \[2, 3\], expected torch.float32 \['A', 4\]"),
        ("one", NEW.long(), {}, r"anchors are torch.int64 \[2, 4\], expected torch.float32"),
        ("one", NEW * torch.nan, {}, "anchors hold NaN"),
    ],
)
def test_what_cannot_be_an_anchor_is_named(value, inputs, options, said):
    model = trained()
    before = [each.clone() for each in model.prototypes()]
    with pytest.raises(InputError, match=said):
        model.reanchor(value, inputs, **options)
    assert all(map(torch.equal, before, model.prototypes()))


def test_a_method_without_prototypes_says_so():
    with pytest.raises(InputError, match=r"this model has no prototypes .* train with method='softpnet'"):
        trained(method="abduction").reanchor("one", NEW)
