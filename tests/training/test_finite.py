"""Nothing that is not finite is saved, judged or predicted from."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from softpnet import Anchors, ConceptSpace, Data, Examples, InputError, Learner, Task, TrainingError, check_task

GENERATOR = torch.Generator().manual_seed(0)
CONCEPTS = torch.randint(3, (16, 2), generator=GENERATOR)
INPUTS = torch.rand(16, 2, 1, 8, 8, generator=GENERATOR)
ANCHORS = Anchors(torch.rand(3, 1, 8, 8, generator=GENERATOR), torch.arange(3))
TASK = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="sums")
QUICK = {"epochs": 1, "batch_size": 8, "warmup_steps": 0, "episodes": 2, "copies": 1, "threads": 1}


class Plain(nn.Module):
    def __init__(self, channels=1):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, 8))

    def forward(self, images):
        return self.net(2 * images)  # 3e38 is a number, twice that is none


class Masked(Plain):
    """Holds a constant that is made of infinities."""

    def __init__(self, channels=1):
        super().__init__(channels)
        self.register_buffer("mask", torch.tensor([0.0] * 7 + [-torch.inf]))

    def forward(self, images):
        return super().forward(images) * self.mask.exp()


class Overflowing(Plain):
    """A statistic that leaves the numbers in the third step and that no step looks at, as batch norm's are."""

    def __init__(self, channels=1):
        super().__init__(channels)
        self.register_buffer("seen", torch.ones(()))

    def forward(self, images):
        if self.training:
            self.seen *= 1e15
        return super().forward(images)


class Steep(torch.autograd.Function):
    """The same forward, 10^25 times the gradient: its square is more than single precision holds."""

    @staticmethod
    def forward(context, vectors):
        return vectors.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * 1e25


class Exploding(Plain):
    def forward(self, images):
        return Steep.apply(super().forward(images))


class LostInEvaluation(Plain):
    def forward(self, images):
        return super().forward(images) * (1.0 if self.training else torch.nan)


def fit(encoder=Plain, method="softpnet", run=None, **changes):
    model = Learner(TASK, encoder=encoder, method=method, **QUICK | changes)
    return model, lambda: model.fit(INPUTS, CONCEPTS.sum(1), ANCHORS, run=run, checkpoint_steps=1)


@pytest.mark.parametrize("method", ["softpnet", "softg_k"])
@pytest.mark.parametrize(
    "encoder, changes, named",
    [
        (Plain, {"learning_rate": 1e30, "batch_size": 16}, r"what is read"),  # one update, which no loss comes after
        (Overflowing, {"epochs": 2}, "seen"),
        (Exploding, {}, "exp_avg_sq of"),
    ],
)
def test_a_training_that_diverged_ends_with_a_sentence_and_without_a_model(method, encoder, changes, named, tmp_path):
    model, train = fit(encoder, method, tmp_path / "run", **changes)
    with pytest.raises(TrainingError, match=rf"diverged by epoch \d.*{named}.*nothing of it is saved.*learning_rate"):
        train()
    with pytest.raises(InputError, match="not trained yet"):
        model.predict(INPUTS)
    kept = {path.name: load_file(path) for path in (tmp_path / "run").glob("*.safetensors")}
    assert "model.safetensors" not in kept
    assert all(torch.isfinite(value).all() for tensors in kept.values() for value in tensors.values())


def test_a_training_without_a_folder_that_diverged_has_no_model_either():
    model, train = fit(Overflowing, epochs=2)
    with pytest.raises(TrainingError, match=r"diverged by epoch 2: .*seen"):
        train()
    assert model.module is None


def test_infinities_that_an_encoder_is_made_with_are_its_own_business(tmp_path):
    model, train = fit(Masked, run=tmp_path / "run")
    train()
    again = Learner.load(tmp_path / "run", task=TASK, encoder=Masked)
    assert torch.equal(again.predict(INPUTS).probabilities, model.predict(INPUTS).probabilities)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize(
    "part, message",
    [("prototypes", r"1 of its \d tensors, 'prototypes.* hold NaN"), ("anchors", "anchors hold NaN or infinite")],
)
def test_a_stored_model_that_is_not_finite_is_refused(part, message, value, tmp_path, list_again):
    fit(run=tmp_path)[1]()
    stored = load_file(tmp_path / "model.safetensors")
    spoilt = next(name for name in stored if part in name)
    stored[spoilt].view(-1)[3] = value
    save_file(stored, tmp_path / "model.safetensors", {"finished": "true"})
    list_again(tmp_path)
    with pytest.raises(InputError, match=message):
        Learner.load(tmp_path, task=TASK, encoder=Plain)


@pytest.mark.parametrize("method", ["softpnet", "softg_k"])
def test_an_encoder_that_is_nan_in_evaluation_mode_is_refused_before_training(method):
    steps = []
    model = Learner(TASK, encoder=LostInEvaluation, method=method, **QUICK)
    with pytest.raises(
        InputError, match=r"encoder of group .* NaN or infinite vectors for 3 of 3 anchors in evaluation"
    ):
        model.fit(INPUTS, CONCEPTS.sum(1), ANCHORS, progress=steps.append)
    assert not steps


def test_the_check_of_a_task_tries_the_encoder_in_evaluation_mode_too():
    examples = Examples(INPUTS, CONCEPTS.sum(1), CONCEPTS)
    task = Task(
        TASK.space,
        TASK.rule,
        data=lambda streams: Data(examples, ANCHORS, {"test": examples}),
        encoder=LostInEvaluation,
    )
    assert [result.name for result in check_task(task).failures()] == ["encoder"]


@pytest.mark.parametrize("method", ["softpnet", "softg_k"])
@pytest.mark.parametrize("ask", ["predict", "embed", "score"])
def test_inputs_that_the_network_makes_nothing_finite_of_are_named(method, ask):
    model, train = fit(method=method)
    train()
    bright = INPUTS.clone()
    bright[5, 1] = 3e38
    given = [bright, CONCEPTS.sum(1), CONCEPTS] if ask == "score" else [bright]
    with pytest.raises(
        InputError, match=r"1 of 16 examples cannot be read, number 5 first: .* to 3e\+38, .* scale them"
    ):
        getattr(model, ask)(*given)
