"""Frozen encoders: their features are computed once, are those of this encoder and these inputs, and are enough."""

import copy
import functools
import signal

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Group, InputError, Learner, Task
from softpnet.networks.frozen import check_frozen

QUICK = dict(epochs=3, warmup_steps=2, episodes=2, copies=2, batch_size=8, learning_rate=0.1)
CONCEPTS = torch.randint(2, (24, 2), generator=torch.Generator().manual_seed(0))
NOISE = torch.rand(24, 2, 1, 4, 4, generator=torch.Generator().manual_seed(1))
IMAGES = CONCEPTS[:, :, None, None, None] + 0.1 * NOISE
ANCHORS = Anchors(torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)]), torch.arange(2))


class Counting(nn.Module):
    """Counts the inputs that it reads, in a list that copies of it share."""

    def __init__(self, seen=None, scale=1.0):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Dropout(0.5))
        with torch.no_grad():
            self.net[1].weight.copy_(torch.linspace(-1, 1, 64).view(4, 16))
            self.net[1].bias.zero_()
        self.seen, self.scale = [] if seen is None else seen, scale
        self.requires_grad_(False)

    def forward(self, inputs):
        self.seen.append(len(inputs))
        return self.scale * self.net(inputs)

    def __deepcopy__(self, memo):
        made = Counting(self.seen, self.scale)
        made.load_state_dict(self.state_dict())
        return made.requires_grad_(self.net[1].weight.requires_grad)


def adding(**changes):
    given = dict(space=ConceptSpace(slots=2, values=2), rule=lambda c: c.sum(-1), settings=QUICK)
    return Task(**given | changes)


def fit(task, encoder, inputs=IMAGES, run=None, resume=False, progress=None, **settings):
    model = Learner(task, encoder=encoder, **settings)
    return model.fit(inputs, CONCEPTS.sum(1), ANCHORS, run=run, resume=resume, progress=progress, checkpoint_steps=1)


def read_in_steps(task, encoder, **settings):
    """Inputs that the encoder has read after each step."""
    counts = []
    fit(task, encoder, progress=lambda step: counts.append(sum(encoder.seen)), **settings)
    return counts


@pytest.mark.parametrize("method", ["softpnet", "abduction_anchored"])
def test_a_step_of_a_frozen_encoder_costs_no_pass_of_it(method):
    counts = read_in_steps(adding(), Counting(), method=method)
    assert len(counts) == 2 + 3 * 3 and len(set(counts)) == 1


def test_with_frozen_views_it_runs_in_every_step_on_new_views():
    counts = read_in_steps(adding(), Counting(), frozen_views=True)
    assert (torch.tensor(counts).diff() > 0).all()


def test_what_is_learned_from_features_is_what_is_learned_from_the_encoder():
    """Without augmentation there is no other difference."""
    read = []
    for frozen_views in (False, True):
        model = fit(adding(augment=None), Counting(), frozen_views=frozen_views)
        read.append(model.predict(IMAGES).probabilities)
    torch.testing.assert_close(*read)


def test_a_frozen_encoder_is_as_it_was_and_concepts_are_learned_on_top_of_it():
    encoder = Counting()
    model = fit(adding(), encoder)
    trained = model.encoder().state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in encoder.state_dict().items())
    assert model.score(IMAGES, CONCEPTS.sum(1), CONCEPTS)["concept_accuracy"] > 0.95


def cost(task, encoder, inputs=IMAGES):
    """Inputs that the encoder reads before the first step."""
    encoder.seen.clear()
    counts = []
    fit(task, encoder, inputs, progress=lambda step: counts.append(sum(encoder.seen)))
    return counts[0]


def test_features_are_used_again_only_for_the_same_encoder_and_inputs():
    task, encoder = adding(), Counting()
    first = cost(task, encoder)
    assert cost(task, encoder) == first - IMAGES[:, :, 0, 0, 0].numel()
    other_inputs = IMAGES.clone()
    other_inputs[-1, -1, -1, -1, -1] += 0.5
    other_weights, other_code = Counting(), Counting(scale=2.0)
    other_weights.net[1].bias.data[0] = 1.0
    for changed, inputs in ((encoder, other_inputs), (other_weights, IMAGES), (other_code, IMAGES)):
        assert cost(task, changed, inputs) == first


def test_a_run_with_a_frozen_encoder_resumes_to_the_same_bits(tmp_path):
    def stop(step):
        if step.epoch == 1:
            signal.raise_signal(signal.SIGINT)

    whole = fit(adding(), Counting())
    cut = fit(adding(), Counting(), run=tmp_path / "run", progress=stop)
    assert cut.interrupted
    resumed = fit(adding(), Counting(), run=tmp_path / "run", resume=True)
    for name, value in whole.module.state_dict().items():
        assert torch.equal(value, resumed.module.state_dict()[name])


def test_of_two_encoders_the_frozen_one_alone_is_read_ahead():
    space = ConceptSpace(Group([0], 2, name="left"), Group([1], 2, name="right"))
    frozen, trained = Counting(), Counting().requires_grad_(True)
    counts = []
    model = Learner(adding(space=space), encoder={"left": frozen, "right": trained})
    model.fit(
        IMAGES,
        CONCEPTS.sum(1),
        {"left": ANCHORS, "right": ANCHORS},
        progress=lambda step: counts.append((sum(frozen.seen), sum(trained.seen))),
    )
    left, right = torch.tensor(counts).diff(dim=0).T
    assert (left == 0).all() and (right > 0).all()
    before = Counting().net[1].weight
    assert torch.equal(model.encoder("left").net[1].weight, before)
    assert not torch.equal(model.encoder("right").net[1].weight, before)


class Source:
    """The images, read one by one; some cannot be."""

    def __init__(self, lost=()):
        self.lost, self.asked = lost, []

    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, number):
        self.asked.append(number)
        return None if number in self.lost else IMAGES[number]


def test_inputs_that_are_read_lazily_are_read_once_and_give_the_same():
    source, asked = Source(), []
    model = fit(adding(), Counting(), source, progress=lambda step: asked.append(len(source.asked)))
    assert len(set(asked)) == 1
    whole = fit(adding(), Counting())
    for name, value in whole.module.state_dict().items():
        assert torch.equal(value, model.module.state_dict()[name])


def test_of_lazy_inputs_those_that_cannot_be_read_are_skipped():
    training = Learner(adding(), encoder=Counting()).prepared(Source(lost=(3,)), CONCEPTS.sum(1), ANCHORS)
    with pytest.warns(UserWarning, match=r"inputs \[3\] cannot be read, and are skipped"):
        for _ in training.steps():
            pass
    assert len(training.records) == 3


def test_several_anchors_of_a_value_and_none_of_another_are_known_too():
    shown = torch.cat([ANCHORS.inputs[:1], ANCHORS.inputs[:1] + 0.1, ANCHORS.inputs[1:]])
    for anchors in (Anchors(shown, torch.tensor([0, 0, 1])), Anchors(shown[:2], torch.tensor([0, 0]))):
        encoder, counts = Counting(), []
        note = functools.partial(lambda seen, counts, step: counts.append(sum(seen)), encoder.seen, counts)
        Learner(adding(), encoder=encoder).fit(IMAGES, CONCEPTS.sum(1), anchors, progress=note)
        assert len(counts) == 11 and len(set(counts)) == 1


def test_notes_say_what_a_frozen_encoder_means():
    notes = {name: fit(adding(**changes), encoder, **settings).notes for name, changes, encoder, settings in (
        ("still", {}, Counting(), {}),
        ("views", {}, Counting(), dict(frozen_views=True)),
        ("none", dict(augment=None), Counting(), {}),
        ("free", {}, Counting().requires_grad_(True), {}),
    )}  # fmt: skip
    found = {name: [note for note in lines if "frozen" in note] for name, lines in notes.items()}
    once = "encoder concept is frozen: its features of the training inputs are computed once"
    assert found == {
        "still": [f"{once}, so that these are not augmented (frozen_views=True augments them)"],
        "views": ["encoder concept is frozen, and runs in every step, on new views (frozen_views)"],
        "none": [once],
        "free": [],
    }


def normed():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.BatchNorm1d(4))


def test_a_frozen_encoder_with_batch_norm_in_training_mode_is_refused():
    encoder = normed().requires_grad_(False)
    said = "encoder of group 'concept' is frozen, but its batch norm '2' is in training mode, .*; call encoder.eval()"
    with pytest.raises(InputError, match=said):
        fit(adding(), encoder)
    assert fit(adding(), copy.deepcopy(encoder).eval()).history


def test_an_encoder_frozen_but_for_its_batch_norm_is_refused():
    encoder = normed().requires_grad_(False)
    encoder[2].requires_grad_(True)
    said = "is frozen but for its batch norm, 2 tensors of weights; call encoder.requires_grad_"
    with pytest.raises(InputError, match=said):
        fit(adding(), encoder)
    check_frozen("concept", nn.BatchNorm1d(4))  # nothing of it is frozen
    check_frozen("concept", normed())
