"""init=: encoders and prototypes begin as those of another run or model."""

import json
import runpy
import signal
from pathlib import Path

import pytest
import torch

from softpnet import Anchors, ConceptSpace, Group, InputError, Learner, Task
from softpnet.networks.reader import read

QUICK = dict(epochs=1, warmup_steps=1, episodes=2, copies=1, batch_size=8)
CONCEPTS = torch.randint(2, (16, 2), generator=torch.Generator().manual_seed(0))


def pictures(concepts, seed=0):
    """[...] -> [..., 1, 4, 4]: a noisy pattern per value."""
    patterns = torch.rand(10, 1, 4, 4, generator=torch.Generator().manual_seed(7))
    noise = torch.rand(*concepts.shape, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    return patterns[concepts] + 0.1 * noise


def anchors(values):
    return Anchors(pictures(torch.arange(values)), torch.arange(values))


def adding(values=2, **changes):
    return Task(**dict(space=ConceptSpace(slots=2, values=values), rule=lambda c: c.sum(-1), settings=QUICK) | changes)


def fit(model, values=2, **chosen):
    return model.fit(pictures(CONCEPTS), CONCEPTS.sum(1), anchors(values), **chosen)


def prepared(model, values=2):
    """The network before its first step."""
    return model.prepared(pictures(CONCEPTS), CONCEPTS.sum(1), anchors(values)).module


def weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_more_digits_begin_with_what_two_digits_taught():
    """Two-digit addition, then three: at step 0 the digits are read already."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/addition.py"))

    def addition(digits):
        rule, space = example["machine"](digits), ConceptSpace(slots=2 * digits, values=10)
        return Task(space, rule, encoder="mlp", augment=None, settings=dict(epochs=6, batch_size=16, warmup_steps=30))

    def examples(digits, count):
        concepts = torch.randint(10, (count, 2 * digits), generator=torch.Generator().manual_seed(digits))
        return pictures(concepts, seed=digits), example["add"](concepts), concepts

    inputs, labels, _ = examples(2, 320)
    small = Learner(addition(2)).fit(inputs, labels, anchors(10))
    inputs, labels, concepts = examples(3, 100)
    right = {}
    for name, init in (("fresh", None), ("warm", small)):
        module = Learner(addition(3), init=init).prepared(inputs, labels, anchors(10)).module.eval()
        right[name] = (read(module, inputs).argmax(-1) == concepts).float().mean().item()
    assert right["warm"] > 0.9 and right["fresh"] < 0.5


def test_a_run_and_the_model_in_memory_are_the_same_start(tmp_path):
    model = fit(Learner(adding(), encoder="mlp"), run=tmp_path / "first")
    starts = [Learner(adding(), encoder="mlp", seed=3, init=init) for init in (model, tmp_path / "first")]
    for start in starts:
        assert same(weights(prepared(start)), weights(model.module))
    told = "starts from a model of task 'task': encoder 'concept', prototypes of 'concept'"
    assert told in starts[0].notes
    assert starts[0].init.sha256 == starts[1].init.sha256
    assert not same(weights(prepared(Learner(adding(), encoder="mlp", seed=3))), weights(model.module))


def test_the_start_is_recorded_and_belongs_to_the_run(tmp_path):
    first, other = (fit(Learner(adding(), encoder="mlp", seed=seed)) for seed in (0, 1))
    fit(Learner(adding(), encoder="mlp", init=first), run=tmp_path / "run")
    recorded = json.loads((tmp_path / "run/config.json").read_text())["init"]
    assert recorded["source"] == "a model of task 'task'" and len(recorded["sha256"]) == 64
    for init in (None, other):
        with pytest.raises(InputError, match="holds another run: weights of init"):
            fit(Learner(adding(), encoder="mlp", init=init), run=tmp_path / "run", resume=True)
    assert Learner.load(tmp_path / "run", task=adding()).config().init.sha256 == recorded["sha256"]


@pytest.mark.parametrize("after", [1, 3])
def test_a_warm_started_run_resumes_to_the_same_bits(tmp_path, after):
    def stop(step):
        if step.step + 1 == after or not step.warming_up:
            signal.raise_signal(signal.SIGINT)

    first = fit(Learner(adding(), encoder="mlp"))

    def run(**chosen):
        return fit(Learner(adding(), encoder="mlp", seed=1, init=first, warmup_steps=4), **chosen)

    assert run(run=tmp_path / "run", progress=stop).interrupted
    assert same(weights(run(run=tmp_path / "run", resume=True).module), weights(run().module))


def test_another_number_of_values_takes_the_encoder_and_names_what_it_leaves():
    first = fit(Learner(adding(), encoder="mlp"))
    with pytest.warns(
        UserWarning, match=r"afresh.*prototypes of 'concept', since .* is \[2, 64\] there and \[3, 64\] "
    ):
        module = prepared(Learner(adding(3), encoder="mlp", init=first), 3)
    assert same(weights(module.encoder()), weights(first.encoder()))


def test_prototypes_that_the_other_method_does_not_have_are_named():
    first = fit(Learner(adding(), encoder="mlp", method="abduction"))
    with pytest.warns(UserWarning, match="afresh.*prototypes of 'concept', which init does not have"):
        prepared(Learner(adding(), encoder="mlp", init=first))
    again = prepared(Learner(adding(), encoder="mlp", method="abduction", seed=1, init=first))
    assert same(weights(again), weights(first.module))


def test_groups_are_matched_by_name():
    def two(first, second):
        space = ConceptSpace(Group([0], 2, name=first), Group([1], 2, name=second))
        return Learner(adding(space=space), encoder="mlp")

    model = two("left", "right")
    model.fit(pictures(CONCEPTS), CONCEPTS.sum(1), {"left": anchors(2), "right": anchors(2)})
    space = ConceptSpace(Group([0], 2, name="right"), Group([1], 2, name="other"))
    start = Learner(adding(space=space), encoder="mlp", init=model)
    said = "afresh.*prototypes of 'other', whose encoder init does not have; encoder 'other'"
    with pytest.warns(UserWarning, match=said):
        training = start.prepared(pictures(CONCEPTS), CONCEPTS.sum(1), {"right": anchors(2), "other": anchors(2)})
    assert same(weights(training.module.encoder("right")), weights(model.encoder("right")))
    assert torch.equal(training.module.settled()[0], model.prototypes()[1])


def test_an_encoder_of_other_shapes_is_refused():
    first = fit(Learner(adding(), encoder="mlp"))
    said = (
        r"encoder 'concept' of init does not fit \(a model of task 'task'\): .* there and .* here; give both the same"
    )
    with pytest.raises(InputError, match=said):
        prepared(Learner(adding(), encoder=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)), init=first))


def test_a_model_without_any_encoder_of_the_same_name_is_refused():
    first = fit(Learner(adding(), encoder="mlp"))
    other = adding(space=ConceptSpace(Group([0, 1], 2, name="digit")))
    with pytest.raises(InputError, match=r"init has encoder 'concept' .* but this task has encoder 'digit'; give one"):
        prepared(Learner(other, encoder="mlp", init=first))
    with pytest.raises(InputError, match=r"init has encoder 'concept' .* but this task has no encoder with weights"):
        prepared(Learner(adding(), encoder=torch.nn.Flatten(), init=first))


def test_what_is_no_trained_model_is_refused(tmp_path):
    for init in (3, Learner(adding())):
        with pytest.raises(InputError, match=r"init is .*, expected the folder of a run, or a Learner that is trained"):
            Learner(adding(), init=init)
    with pytest.raises(InputError, match="is not a run folder"):
        Learner(adding(), init=tmp_path)


def test_weights_that_are_no_numbers_are_refused():
    first = fit(Learner(adding(), encoder="mlp"))
    next(first.module.parameters()).data[0] = torch.nan
    with pytest.raises(InputError, match=r"init holds NaN or infinite numbers .*'encoders\.of_concept.* first; choose"):
        prepared(Learner(adding(), encoder="mlp", init=first))


def test_a_frozen_start_is_kept(tmp_path):
    first = fit(Learner(adding(), encoder="mlp"))
    model = fit(Learner(adding(), encoder="mlp:frozen", seed=1, init=first))
    assert same(weights(model.encoder()), weights(first.encoder()))
    assert not torch.equal(model.prototypes()[0], first.prototypes()[0])
