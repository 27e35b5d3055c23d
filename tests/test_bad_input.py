"""Wrong input is refused before training starts, by one error that names it and says what to do."""

import copy
import re
import warnings

import numpy
import pytest
import torch
from torch import nn

from softpnet import (
    Anchors,
    ConceptSpace,
    Corruption,
    Data,
    Examples,
    Group,
    InputError,
    Learner,
    Rows,
    Settings,
    SoftPNetError,
    Task,
    TaskError,
    TrainingError,
    check_task,
    tasks,
)
from softpnet import targets as sources
from softpnet.data.rows import read_rows
from softpnet.networks.make_encoders import check_evaluation
from softpnet.report.judge import data_fingerprint
from softpnet.rules import compile as compiling
from softpnet.rules.make_cache import make_cache
from softpnet.task.data import make_data
from softpnet.task.inputs import check_data
from softpnet.training.streams import Streams

QUICK = {"epochs": 1, "warmup_steps": 1, "episodes": 2, "copies": 1, "batch_size": 8}
CACHE = {"targets": "cache"}
NO_LABELS = torch.zeros(0, dtype=torch.int64)


class Small(nn.Module):
    """16x16 -> 4; tells `forwards` of each forward in training mode."""

    def __init__(self, channels=1, forwards=None):
        super().__init__()
        self.net = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, 4))
        self.forwards = forwards

    def forward(self, inputs):
        if self.training and self.forwards is not None:
            self.forwards.append(len(inputs))
        return self.net(inputs)


class BrokenBy(Small):
    """NaN for every image that is brighter than 5."""

    def forward(self, inputs):
        return super().forward(inputs) * torch.where(inputs.amax((1, 2, 3)) > 5, torch.nan, 1.0)[:, None]


def add(c):
    return c[..., 0] + c[..., 1]


def picture(values):
    """Values `[...]` -> inputs `[..., 1, 16, 16]`: four bright rows at a place that depends on the value."""
    bright = torch.arange(16)[:, None] // 4 == values[..., None, None, None]  # [..., 1, 16, 1]
    return bright.float().expand(*bright.shape[:-1], 16).clone()


SPACE = ConceptSpace(slots=2, values=3)
CONCEPTS = torch.randint(3, (16, 2), generator=torch.Generator().manual_seed(0))
IMAGES, LABELS = picture(CONCEPTS), add(CONCEPTS)
ANCHORS = Anchors(picture(torch.arange(3)), torch.arange(3))
NOISE = torch.rand(IMAGES.shape, generator=torch.Generator().manual_seed(1))


def adding(**changes):
    return Task(**{"space": SPACE, "rule": add, "name": "adding"} | changes)


def in_order(*parts):
    """A pattern of the parts, one after the other, with anything between."""
    return "(?s)" + ".*".join(map(re.escape, parts))


def assert_refused(*parts, error=InputError, task=None, inputs=IMAGES, labels=LABELS, anchors=ANCHORS, **settings):
    """`fit` raises `error`, which says the parts in order, before anything is trained."""
    assert issubclass(error, SoftPNetError)
    forwards, steps = [], []
    settings = {**QUICK, "encoder": lambda channels: Small(channels, forwards), **settings}
    with pytest.raises(error, match=in_order(*parts)):
        Learner(task or adding(), **settings).fit(inputs, labels, anchors, progress=steps.append)
    assert not forwards and not steps, "training had begun"


def test_the_input_that_the_refusals_start_from_is_fine():
    forwards = []
    Learner(adding(), encoder=lambda channels: Small(channels, forwards), **QUICK).fit(IMAGES, LABELS, ANCHORS)
    assert forwards, "the spy that the refusals rely on sees no training"


# Augmentation


def augmented(function):
    return adding(augment=function)


@pytest.mark.parametrize("value", ["photometric", 0.3, torch.zeros(2)])
def test_an_augmentation_that_is_no_function_is_refused(value):
    assert_refused(
        "augment of task 'adding' is ",
        "expected a function",
        "'auto'",
        "None",
        error=TaskError,
        task=augmented(value),
    )


@pytest.mark.parametrize(
    "function, found",
    [
        (lambda inputs, generator: inputs[..., :8], "torch.float32 [2, 3, 1, 16, 8]"),
        (lambda inputs, generator: inputs.flatten(0, 1), "torch.float32 [6, 1, 16, 16]"),
        (lambda inputs, generator: inputs.double(), "torch.float64 [2, 3, 1, 16, 16]"),
        (lambda inputs, generator: None, "NoneType"),
    ],
)
def test_an_augmentation_that_changes_shape_or_type_is_refused(function, found):
    assert_refused(
        f"augment of task 'adding' maps inputs torch.float32 [2, 3, 1, 16, 16] to {found}",
        "expected the same type and shape",
        "from the last one",
        error=TaskError,
        task=augmented(function),
    )


@pytest.mark.parametrize("function, what", [(lambda inputs: inputs, "TypeError"), (lambda *_: 1 / 0, "ZeroDivision")])
@pytest.mark.parametrize("method", ["softpnet", "abduction"])
def test_an_augmentation_that_fails_is_refused(function, what, method):
    assert_refused(
        "augment of task 'adding' failed when called with inputs [2, 3, 1, 16, 16] and a generator",
        f"raised {what}",
        error=TaskError,
        task=augmented(function),
        method=method,
    )


@pytest.mark.parametrize(
    "function, parts",
    [
        (lambda inputs, generator: inputs.mul_(0.5), ("writes into its inputs", "inputs.clone()")),
        (lambda inputs, generator: inputs / 0, ("gives NaN or infinite pixels", "correct it")),
    ],
)
def test_an_augmentation_that_harms_its_inputs_is_refused(function, parts):
    assert_refused("augment of task 'adding'", *parts, error=TaskError, task=augmented(function))


@pytest.mark.parametrize("function", [None, "auto", lambda inputs, generator: inputs.clamp(0.1)])
@pytest.mark.parametrize("method", ["softpnet", "abduction_anchored", "supervised"])
def test_any_other_augmentation_trains_and_none_does_too(function, method, tmp_path):
    settings = {**QUICK, "views": True, "method": method, "encoder": Small}
    model = Learner(augmented(function), **settings).fit(IMAGES, LABELS, ANCHORS, concepts=CONCEPTS)
    model.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", task=model.task, encoder=Small)
    assert torch.equal(model.predict(IMAGES).probabilities, again.predict(IMAGES).probabilities)


# Labels and the rule


@pytest.mark.parametrize("candidates", ["cache", "kbest", "auto"])
def test_a_label_that_no_assignment_gives_is_named_with_its_examples(candidates):
    labels = LABELS.clone()
    labels[[3, 7]] = 99
    assert_refused(
        "2 of 16 examples have labels that no",
        "values of the concepts give in task 'adding': 99 (example ids 3, 7);",
        "correct the labels or the rule",
        labels=labels,
        targets=candidates,
    )


@pytest.mark.parametrize("candidates", ["cache", "kbest", "auto"])
def test_a_label_vector_that_no_assignment_gives_is_named_with_its_examples(candidates):
    vectors = torch.stack([LABELS, CONCEPTS[:, 0]], dim=-1)
    vectors[5] = torch.tensor([0, 2])
    task = adding(rule=lambda c: torch.stack([c.sum(-1), c[..., 0]], dim=-1))
    assert_refused(
        "1 of 16 examples has a label that no",
        "values of the concepts give",
        ": [0, 2] (example ids 5);",
        task=task,
        labels=vectors,
        targets=candidates,
    )


def test_many_examples_with_an_infeasible_label_are_cut_short():
    assert_refused("example ids 0, 1, 2, 3, 4, ...)", labels=torch.full((16,), -1))


def test_a_label_function_that_returns_floats_is_refused():
    assert_refused(
        "rule of task 'adding'",
        "torch.float32",
        "expected an integer tensor",
        ".long()",
        error=TaskError,
        task=adding(rule=lambda c: c.float().sum(-1)),
    )


def test_a_label_function_that_returns_no_tensor_is_refused():
    assert_refused("returns list", "expected an integer tensor", error=TaskError, task=adding(rule=lambda c: [1]))


@pytest.mark.parametrize(
    "label, shape",
    [
        (lambda c: c.sum(), "[]"),
        (lambda c: c.sum(0), "[2]"),
        (lambda c: c[:, :, None], "[64, 2, 1]"),
        (lambda c: c[..., :0], "[64, 0]"),
    ],
)
def test_a_label_function_that_returns_the_wrong_shape_is_refused(label, shape):
    assert_refused(
        f"maps rows of shape [64, 2] to {shape}",
        "expected [64] or [64, m]",
        "c[..., i]",
        error=TaskError,
        task=adding(rule=label),
    )


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(lambda c: c[:, 0] + c[:, 1], id="indexes dim 1"),
        pytest.param(lambda c: c.sum(1), id="reduces dim 1"),
        pytest.param(lambda c: torch.tensor([sum(row) for row in c.tolist()]), id="loops over rows"),
        pytest.param(lambda c: torch.tensor([add(row) for row in c]), id="takes one row at a time"),
    ],
)
def test_a_label_function_that_is_not_vectorised_over_leading_dimensions_is_refused(label):
    assert_refused("rule of task 'adding'", "[8, 8, k]", "c[..., i]", error=TaskError, task=adding(rule=label))


def test_a_label_function_that_fails_on_a_batch_is_refused():
    def label(c):
        return c.sum(-1) if c[0] == 0 else c[..., 0]

    assert_refused(
        "failed on rows of shape [64, 2]",
        "whole batch",
        "c[..., 0] + c[..., 1]",
        error=TaskError,
        task=adding(rule=label),
    )


def test_a_label_function_that_differs_between_two_calls_is_refused():
    calls = []

    def label(c):
        calls.append(c)
        return add(c) + len(calls)

    assert_refused("differs between two calls", "fixed function", error=TaskError, task=adding(rule=label))


@pytest.mark.parametrize(
    "label, parts",
    [
        (lambda c: (c[..., 0] == c.max()).long(), ("gives row [", "among 64 rows", "alone")),
        (lambda c: add(c) - c.sum(-1).min(), ("gives row [", "among 64 rows", "alone")),
        (lambda c: torch.arange(c[..., 0].numel()).view(c.shape[:-1]), ("label 0 among 64 rows, 63 in another order",)),
        (lambda c: c.sum(-1).squeeze(), ("fails when rows come alone or in another order",)),
    ],
)
def test_a_label_function_that_looks_at_the_rest_of_the_batch_is_refused(label, parts):
    assert_refused(
        "rule of task 'adding'",
        *parts,
        "look at each row by itself",
        error=TaskError,
        task=adding(rule=label),
    )


def test_a_label_function_that_writes_into_its_input_is_refused():
    def label(c):
        c[..., 0] += c[..., 1]
        return c[..., 0].clone()

    assert_refused("writes into its input", "afterwards", "c.clone()", error=TaskError, task=adding(rule=label))


def test_float_labels_are_refused():
    assert_refused(
        "labels are torch.float32 [16]", "expected an integer tensor", "labels.long()", labels=LABELS.float()
    )


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.uint16, torch.uint32, torch.uint64])
def test_labels_of_any_whole_type_are_trained_and_scored_like_int64(dtype):
    """torch stores the larger unsigned types, but hardly computes with them."""
    task = adding(rule=lambda c: (add(c) > 1).long())
    labels = task.rule(CONCEPTS)
    plain, other = (
        Learner(task, encoder=Small, **QUICK).fit(IMAGES, given, ANCHORS) for given in (labels, labels.to(dtype))
    )
    assert torch.equal(plain.predict(IMAGES).probabilities, other.predict(IMAGES).probabilities)
    concepts = CONCEPTS.to(torch.uint16)
    assert plain.score(IMAGES, labels, CONCEPTS) == other.score(IMAGES, labels.to(dtype), concepts)


def test_labels_beyond_63_bits_are_refused():
    labels = LABELS.numpy().astype("uint64")
    labels[3] = 2**64 - 5
    assert_refused(f"labels hold {2**64 - 5}", "expected", "63 bits", labels=torch.from_numpy(labels))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_a_label_function_that_returns_what_torch_cannot_compute_with_is_refused(dtype):
    assert_refused(str(dtype), "best int64", ".long()", error=TaskError, task=adding(rule=lambda c: add(c).to(dtype)))


def test_labels_that_are_no_tensor_are_refused():
    parts = "labels are list", "expected an integer tensor", "use torch.as_tensor(labels)"
    assert_refused(*parts, labels=["one"] * 16)


def test_labels_concepts_and_anchors_may_be_lists_or_arrays():
    given = Anchors(ANCHORS.inputs.numpy(), [0, 1, 2])
    one, other = (
        Learner(adding(), encoder=Small, threads=1, **QUICK).fit(IMAGES, labels, anchors)
        for labels, anchors in ((LABELS, ANCHORS), (LABELS.tolist(), given))
    )
    assert all(map(torch.equal, one.module.state_dict().values(), other.module.state_dict().values()))
    tensors, plain = (LABELS, CONCEPTS), (LABELS.numpy(), CONCEPTS.tolist())
    assert one.score(IMAGES, *tensors) == one.score(IMAGES, *plain)
    examples = [Examples(IMAGES, *truth) for truth in (tensors, plain)]
    made = [
        make_data(adding(data=lambda streams, e=each, a=anchors: Data(e, a, {"test": e})), Streams(0))
        for each, anchors in zip(examples, (ANCHORS, given), strict=True)
    ]
    assert data_fingerprint(made[0]) == data_fingerprint(made[1])


def test_anchors_that_are_no_numbers_are_not_told_of_sources():
    with pytest.raises(InputError, match=r"anchors of group 'concept' are str, expected a tensor \[P, ...\]$"):
        Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, Anchors("abc", torch.arange(3)))


def test_another_number_of_labels_than_examples_is_refused():
    assert_refused("5 labels for 16 examples", "expected one per example", labels=LABELS[:5])


@pytest.mark.parametrize("candidates", ["cache", "kbest", "auto"])
def test_label_vectors_for_a_rule_that_gives_numbers_are_refused(candidates):
    assert_refused("labels have shape [16, 1]", "the rule gives [N]", labels=LABELS[:, None], targets=candidates)


def test_label_vectors_for_a_rule_that_gives_numbers_are_refused_where_nothing_is_listed():
    """k-best on a space too large to enumerate has no list of labels to compare with."""
    space = ConceptSpace(slots=13, values=3)
    task = adding(space=space)
    inputs = picture(CONCEPTS[:, :1].expand(-1, 13))
    assert_refused(
        "labels have shape [16, 1]",
        "the rule gives",
        task=task,
        inputs=inputs,
        labels=LABELS[:, None],
        targets="kbest",
    )


# Rows


def rows_of(*args, **kwargs):
    return adding(rows=lambda generator: Rows(*args, **kwargs), settings=CACHE)


def test_rows_whose_stored_label_is_not_the_rule_s_are_refused():
    labels = add(SPACE.all())
    labels[4] = 0
    assert_refused(
        "cached row [1, 1]",
        "stored with label 0",
        "'adding' gives 2",
        "make the cache again",
        error=TaskError,
        task=rows_of(SPACE.all(), NO_LABELS, labels),
    )


@pytest.mark.parametrize("candidates", ["cache", "exact"])
def test_a_cache_file_written_under_another_rule_is_refused(tmp_path, candidates, monkeypatch):
    monkeypatch.setattr(compiling, "TABLE", 0)  # the rule is then compiled from its rows
    multiplying = adding(rule=lambda c: c[..., 0] * c[..., 1])
    make_cache(multiplying, torch.Generator().manual_seed(0)).save(tmp_path / "rows.safetensors")
    stored = read_rows(tmp_path / "rows.safetensors")
    Learner(adding(rule=multiplying.rule, rows=lambda g: stored), encoder=Small, targets=candidates, **QUICK).fit(
        IMAGES, multiplying.rule(CONCEPTS), ANCHORS
    )
    assert_refused(
        "cached row",
        "stored with label",
        "the rule of task 'adding' gives",
        "make the cache again with this rule",
        error=TaskError,
        task=adding(rows=lambda g: stored),
        targets=candidates,
    )


def test_another_number_of_stored_labels_than_rows_is_refused():
    task = rows_of(SPACE.all(), NO_LABELS, torch.arange(3))
    assert_refused("labels of shape [3]", "9 rows", "expected [9]", error=TaskError, task=task)


def test_rows_outside_the_space_are_refused():
    assert_refused(
        "cached row [0, 3]",
        "outside the space of task 'adding'",
        "expected",
        "[3, 3]",
        error=TaskError,
        task=rows_of(torch.tensor([[0, 1], [0, 3]]), NO_LABELS),
    )


def test_negative_rows_are_refused():
    assert_refused("cached row [-1, 1]", "outside", error=TaskError, task=rows_of(torch.tensor([[-1, 1]]), NO_LABELS))


@pytest.mark.parametrize("rows", [torch.zeros(4, 3), torch.zeros(0, 2), torch.zeros(4)])
def test_rows_of_the_wrong_shape_are_refused(rows):
    assert_refused(
        f"shape {list(rows.shape)}", "expected [M, 2]", error=TaskError, task=rows_of(rows.long(), NO_LABELS)
    )


@pytest.mark.parametrize(
    "rows, parts",
    [
        (SPACE.all(), ("the rows", "are Tensor", "expected softpnet.Rows")),
        (Rows(SPACE.all() / 2, NO_LABELS), ("the rows", "torch.float32", "expected an integer tensor")),
        (Rows(SPACE.all().tolist(), NO_LABELS), ("the rows", "are list", "expected an integer tensor")),
        (Rows(SPACE.all(), [0, 1]), ("complete labels", "are list", "expected an integer tensor")),
        (Rows(SPACE.all(), NO_LABELS, [0]), ("labels of the rows", "are list", "expected an integer tensor")),
        (Rows(SPACE.all(), NO_LABELS, add(SPACE.all()) + 0.5), ("labels of the rows", "torch.float32")),
    ],
)
def test_rows_of_the_wrong_type_are_refused(rows, parts):
    assert_refused(*parts, error=TaskError, task=adding(rows=lambda generator: rows, settings=CACHE))


def test_rows_and_labels_of_any_whole_type_are_read():
    every, labels = SPACE.all().to(torch.uint16), add(SPACE.all()).to(torch.uint32)
    task = rows_of(every, labels.long().unique().to(torch.uint64), labels)
    Learner(task, encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)


def test_rows_called_complete_for_a_label_that_none_has_are_refused():
    assert_refused(
        "complete for label 9",
        "none has it",
        "leave it out",
        error=TaskError,
        task=rows_of(SPACE.all(), complete=torch.tensor([0, 9])),
    )


def test_a_file_that_is_no_cache_is_refused(tmp_path):
    path = tmp_path / "rows.safetensors"
    path.write_bytes(b"not a cache")
    with pytest.raises(InputError, match=in_order(str(path), "is damaged")):
        read_rows(path)


def test_a_missing_cache_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=in_order(str(tmp_path / "none.safetensors"))):
        read_rows(tmp_path / "none.safetensors")


def test_a_space_too_large_to_enumerate_without_rows_or_a_compiled_rule_says_to_use_kbest(uncompiled):
    space = ConceptSpace(slots=13, values=3)
    assert_refused(
        "1,594,323 assignments",
        "too many",
        "1,000,000",
        "none can be drawn, since its rule is not compiled",
        "rows=...",
        "targets='kbest'",
        error=TaskError,
        task=uncompiled(adding(space=space, rule=lambda c: c.sum(-1))),
        inputs=picture(CONCEPTS[:, :1].expand(-1, 13)),
        labels=13 * CONCEPTS[:, 0],
        targets="cache",
    )


@pytest.mark.parametrize("candidates", ["kbest", "cache"])
def test_a_compiled_rule_needs_no_rows_where_the_space_is_too_large(candidates):
    task = adding(space=ConceptSpace(slots=13, values=3), rule=lambda c: c.sum(-1))
    model = Learner(task, encoder=Small, targets=candidates, kbest_pool=8, cache_rows=50, **QUICK)
    first = model.fit(picture(CONCEPTS[:, :1].expand(-1, 13)), 13 * CONCEPTS[:, 0], ANCHORS).history[0]
    assert first["found"] == 1 if candidates == "kbest" else first["distinct"] >= 1


# Anchors


BLANK = Anchors(ANCHORS.inputs[[0, 2]], torch.tensor([0, 2]))


def test_a_value_without_an_anchor_is_refused_where_prototypes_are_means():
    assert_refused(
        "'concept' has no anchor for '1'",
        "means of anchors need one of each",
        "'learned'",
        anchors=BLANK,
        preset="paper",
    )


def test_a_value_that_neither_an_anchor_nor_the_rule_tells_apart_is_refused():
    blind = adding(rule=lambda c: (c[..., 0] == 2).long())
    assert_refused(
        "'concept' has no anchor for '1'",
        "the rule cannot tell '0' from '1'",
        "label an input of '1'",
        task=blind,
        labels=LABELS % 2,
        anchors=BLANK,
    )


def test_values_that_can_be_taken_for_each_other_in_a_circle_are_refused_although_no_two_can_be_exchanged():
    def tour(c):
        a, b = c[..., 0], c[..., 1]
        return torch.where((a == 0) & (b == 0), 6, torch.where(a == 0, 4, torch.where(b == 0, 5, (b - a) % 3)))

    circle = Task(ConceptSpace(slots=2, values=4), tour, encoder=Small)
    changes = {"task": circle, "labels": LABELS % 3}
    only_0 = Anchors(ANCHORS.inputs[:1], torch.tensor([0]))
    assert_refused(
        "the rule cannot tell apart all that has no anchor",
        "to take '1' for '2', '2' for '3' and '3' for '1' changes no label",
        "label an input of '1'",
        **changes,
        anchors=only_0,
    )
    told = Anchors(ANCHORS.inputs[:2], torch.tensor([0, 1]))
    Learner(circle, **QUICK).fit(IMAGES, changes["labels"], told)


def test_combinations_of_values_that_nothing_tells_apart_are_warned_of_unless_concepts_are_taught():
    pairs = ConceptSpace(slots=2, values=(2, 2))
    xor = Task(pairs, lambda c: (c[..., 0] ^ c[..., 1]) * 2 + (c[..., 2] ^ c[..., 3]), encoder=Small)
    ends = Anchors(ANCHORS.inputs[:2], torch.tensor([[0, 0], [1, 1]]))
    labels, truth = LABELS % 3, torch.zeros(len(LABELS), 4, dtype=torch.int64)
    with pytest.warns(UserWarning, match="the rule cannot tell apart all that has no anchor: to take '"):
        Learner(xor, **QUICK).fit(IMAGES, labels, ends)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Learner(xor, method="supervised", **QUICK).fit(IMAGES, labels, ends, concepts=truth)


@pytest.mark.parametrize("concept", [3, -1])
def test_an_anchor_of_a_concept_outside_the_space_is_named(concept):
    assert_refused(
        "anchor 2 of group 'concept'",
        str(concept),
        "outside the space",
        "expected one of its 3 primitives",
        "'0'",
        "'2'",
        anchors=Anchors(ANCHORS.inputs, torch.tensor([0, 1, concept])),
    )


@pytest.mark.parametrize("concepts", [[[0, 0], [0, 1], [1, 0], [0, 2]], [0, 1, 2, 4], [0, 1, 2, -1]])
def test_an_anchor_outside_a_space_of_two_attributes_is_named(concepts):
    task = adding(space=ConceptSpace(slots=1, values=(2, 2)), rule=lambda c: c.sum(-1))
    assert_refused(
        "anchor 3 of group 'concept'",
        "outside the space",
        "4 primitives",
        "'0 0'",
        "'1 1'",
        task=task,
        inputs=IMAGES[:, :1],
        labels=LABELS.clamp_max(2),
        anchors=Anchors(picture(torch.arange(4)), torch.tensor(concepts)),
    )


@pytest.mark.parametrize(
    "concepts, kind",
    [
        ([0.0, 1.0, 2.0], "float32"),
        ([[0.0], [1.0], [2.0]], "float32"),
        ([0, 1.5, 2], "float32"),
        ([True, False, True], "bool"),
        ([[True], [False], [True]], "bool"),
        ([0j, 1, 2], "complex64"),
    ],
)
def test_anchor_concepts_that_are_no_whole_numbers_are_named(concepts, kind):
    anchors = Anchors(ANCHORS.inputs, torch.tensor(concepts))
    assert_refused(f"anchor concepts of group 'concept' are torch.{kind}, expected whole", anchors=anchors)


@pytest.mark.parametrize(
    "concepts, wrong",
    [(["a", "b", "c"], "cannot be read"), ([[[0]], [[1]], [[2]]], "have shape"), (0, "shape []"), (None, "cannot be")],
)
def test_anchor_concepts_that_are_no_numbers_are_refused(concepts, wrong):
    anchors = Anchors(ANCHORS.inputs, concepts)
    assert_refused("anchor concepts of group 'concept'", wrong, "[P], or", "[P, a]", anchors=anchors)


def test_another_number_of_anchor_concepts_than_images_is_refused():
    assert_refused("3 anchor inputs but 2 anchor concepts", anchors=Anchors(ANCHORS.inputs, torch.arange(2)))


def test_anchor_images_without_their_concepts_are_refused():
    assert_refused("anchors", "expected", "Anchors(inputs, concepts)", anchors=ANCHORS.inputs)


def test_anchors_of_other_groups_are_refused():
    assert_refused("given for groups ['digit']", "expected ['concept']", anchors={"digit": ANCHORS})


def test_anchors_of_several_groups_must_come_by_name():
    task = adding(space=ConceptSpace(Group([0], 3, name="left"), Group([1], 3, name="right")))
    assert_refused("['left', 'right']", "dict by group name", task=task)
    assert_refused("given for groups ['left']", "expected ['left', 'right']", task=task, anchors={"left": ANCHORS})


def test_anchor_images_of_another_size_are_refused():
    anchors = Anchors(torch.zeros(3, 1, 8, 8), torch.arange(3))
    assert_refused("anchors of group 'concept'", "[1, 8, 8]", "the inputs have [1, 16, 16]", anchors=anchors)


def test_anchor_images_of_the_wrong_rank_or_type_are_refused():
    flat = Anchors(ANCHORS.inputs[:, 0], ANCHORS.concepts)
    assert_refused("anchors of group", "size [16, 16]", "the inputs have [1, 16, 16]", anchors=flat)
    imaginary = Anchors(ANCHORS.inputs.to(torch.complex64), ANCHORS.concepts)
    assert_refused("anchors of group", "complex64", "expected real or whole numbers", anchors=imaginary)


def test_nan_in_an_anchor_is_named():
    inputs = ANCHORS.inputs.clone()
    inputs[2, 0, 3, 4] = torch.nan
    assert_refused(
        "anchors of group 'concept'",
        "NaN",
        "1 of 3",
        "number 2",
        anchors=Anchors(inputs, torch.arange(3)),
    )


# Images and encoders


def test_inputs_without_slots_are_refused():
    assert_refused("inputs have 1 slots (shape [16, 1, 16, 16])", "one input per slot", inputs=IMAGES[:, 0])
    assert_refused("inputs have rank 1", "expected [N, n, ...]", "unsqueeze", inputs=IMAGES[:, 0, 0, 0, 0])


@pytest.mark.parametrize(
    "inputs, sentence",
    [
        (IMAGES.to(torch.complex64), "inputs are complex64, expected real or whole numbers"),
        (3.5, "inputs are float, expected a tensor [N, n, ...], or a source of inputs with len()"),
        ({"left": IMAGES}, "inputs are dict, expected a tensor [N, n, ...]"),
    ],
    ids=["complex", "number", "dict"],
)
def test_what_no_inputs_can_be_read_from_is_refused(inputs, sentence):
    assert_refused(sentence, inputs=inputs)


@pytest.mark.parametrize("images", [IMAGES.to_sparse(), IMAGES.to("meta")], ids=["sparse", "meta"])
def test_images_without_a_number_in_every_place_are_refused(images):
    assert_refused("inputs are a tensor", "expected a plain one [N, n, ...]", inputs=images)


def test_no_images_are_refused():
    assert_refused("inputs are empty", "expected at least one", inputs=IMAGES[:0], labels=LABELS[:0])


@pytest.mark.parametrize("slots", [1, 3])
def test_another_number_of_slots_is_refused(slots):
    inputs = IMAGES[:, [0, 1, 0][:slots]]
    assert_refused(f"inputs have {slots} slots", "2", "space", "one input per slot", inputs=inputs)


def test_images_too_small_for_the_encoder_are_refused():
    assert_refused(
        "1x8x8",
        "do not fit the encoder of group 'concept'",
        "resize them or pass an encoder",
        inputs=torch.zeros(16, 2, 1, 8, 8),
        anchors=Anchors(torch.zeros(3, 1, 8, 8), torch.arange(3)),
        encoder=None,
    )


@pytest.mark.parametrize(
    "encoder, shape",
    [(nn.Conv2d(1, 2, 3), "[2, 2, 14, 14]"), (nn.Flatten(0), "[512]"), (nn.Flatten(2), "[2, 1, 256]")],
)
def test_an_encoder_that_gives_no_vectors_is_refused(encoder, shape):
    assert_refused(
        "encoder of group 'concept' maps [2, 1, 16, 16]",
        f"to {shape}",
        "expected [2, D]",
        "nn.Flatten()",
        encoder=encoder,
    )


@pytest.mark.parametrize("encoder, kind", [(4, "int"), (lambda channels: "conv4", "str")])
def test_an_encoder_that_is_no_module_is_refused(encoder, kind):
    assert_refused("encoder", "'concept'", kind, "expected", "nn.Module", encoder=encoder)


def test_encoders_by_name_that_leave_one_out_are_refused():
    assert_refused("no encoder for 'concept'", "left, right", encoder={"left": Small, "right": Small})


def test_an_encoder_of_no_group_is_refused():
    parts = "no group has 'left'", "the encoders given are concept, left, expected one for each of concept"
    assert_refused(*parts, encoder={"concept": Small, "left": Small})


class Then(nn.Module):
    """What a function makes of a layer's vectors, in evaluation mode alone."""

    def __init__(self, layer, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, inputs):
        vectors = self.layer(inputs)
        return vectors if self.training else self.function(vectors)


def centred(z):
    return z - z.mean(0)


def beside_a_large_one(z):
    return torch.cat([centred(z), torch.full((len(z), 1), 60.0)], 1)


def normed(z):
    return nn.functional.batch_norm(z, None, None, training=True)


@pytest.mark.parametrize(
    "function",
    [centred, beside_a_large_one, normed, lambda z: z.flip(0), lambda z: z - z[:1], lambda z: z / z.norm()],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_an_encoder_that_depends_on_the_rest_of_the_batch_is_refused(function, frozen):
    parts = "the encoder of group 'concept' gives the same input different vectors in different batches", "nn.LayerNorm"
    encoder = Then(Small(), function).requires_grad_(not frozen)
    assert_refused(*parts, encoder=encoder)
    examples = Examples(IMAGES, LABELS)
    task = adding(encoder=encoder, data=lambda streams: Data(examples, ANCHORS, {"test": examples}))
    found = check_task(task)["encoder"]
    assert found.outcome == "failed" and parts[0] in found.message


def test_each_of_several_encoders_must_read_its_input_alone_and_tokens_are_no_exception():
    space = ConceptSpace(Group([0], 3, name="one", encoder="left"), Group([1], 3, name="two", encoder="right"))
    both, anchors = {"left": Small, "right": Then(Small(), centred)}, {"one": ANCHORS, "two": ANCHORS}
    refused = "encoder of group 'right'", "different batches"
    assert_refused(*refused, task=adding(space=space), encoder=both, anchors=anchors)
    tokens = Anchors(torch.arange(3), torch.arange(3))
    encoder = Then(nn.Embedding(3, 4), centred)
    assert_refused("encoder of group 'concept'", "different batches", inputs=CONCEPTS, anchors=tokens, encoder=encoder)


def test_one_anchor_is_enough_to_see_that_an_encoder_depends_on_the_batch():
    space, shown = ConceptSpace(slots=2, values=3), Anchors(ANCHORS.inputs[1:2], torch.tensor([1]))
    assert_refused("different batches", task=Task(space, add), anchors=shown, encoder=Then(Small(), centred))


def test_trying_an_encoder_leaves_modes_statistics_and_random_streams_as_they_were():
    drawing = Then(nn.Identity(), lambda z: z + 0 * torch.rand_like(z))
    encoder = nn.Sequential(nn.BatchNorm2d(1).eval(), nn.Flatten(), nn.Linear(256, 4), drawing)
    modes, held = [part.training for part in encoder.modules()], copy.deepcopy(encoder.state_dict())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        check_evaluation(SPACE, {"concept": encoder}, [ANCHORS.inputs])
        then = torch.get_rng_state()
        torch.manual_seed(0)
        torch.rand(3, 4)  # what it draws for its anchors, read once
        assert torch.equal(then, torch.get_rng_state())
    assert [part.training for part in encoder.modules()] == modes
    assert all(map(torch.equal, encoder.state_dict().values(), held.values()))


@pytest.mark.parametrize("size", [1, 1000])  # of an entry that all vectors share
def test_rounding_that_another_batch_brings_is_no_dependence_on_it(size):
    def rounded(z):
        z = torch.cat([z, torch.full((len(z), 1), float(size))], 1)
        return z + 1e-6 * size * z.mean(0)

    check_evaluation(SPACE, {"concept": Then(Small(), rounded)}, [ANCHORS.inputs])


WHOLE = (100 * IMAGES).long()


@pytest.mark.parametrize("inputs", [WHOLE, WHOLE.to(torch.uint16), WHOLE.numpy().astype("uint32"), list(WHOLE)])
def test_whole_inputs_beside_real_anchors_are_named(inputs):
    assert_refused(
        "inputs are whole numbers (", "'concept' are real ones (float32)", "convert them to float32", inputs=inputs
    )


def test_whole_anchors_beside_real_inputs_are_named():
    parts = "anchors of group 'concept' are whole numbers (int64), but inputs are real ones", "convert them to float32"
    assert_refused(*parts, anchors=Anchors(ANCHORS.inputs.long(), ANCHORS.concepts))


def test_whole_inputs_of_an_encoder_of_real_ones_are_not_to_be_resized():
    parts = "whole-number inputs of size 1x16x16 do not fit", "convert them by .float()"
    assert_refused(*parts, inputs=WHOLE, anchors=Anchors(ANCHORS.inputs.long(), ANCHORS.concepts))


def test_validation_and_test_inputs_are_of_the_kind_of_the_training_inputs():
    held, sentence = Examples(WHOLE, LABELS), "are whole numbers .*, but the training inputs are real ones"
    with pytest.raises(InputError, match=f"inputs of the validation set {sentence}"):
        Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS, validation=held)
    task = adding(data=lambda streams: Data(Examples(IMAGES, LABELS), ANCHORS, {"test": held}))
    with pytest.raises(InputError, match=f"test set 'test': inputs {sentence}"):
        check_data(task, task.data(None))
    assert "inputs are whole numbers" in check_task(task)["inputs"].message


def test_whole_inputs_are_refused_by_a_model_of_real_ones_but_bytes_are_not(tmp_path):
    model = Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)
    model.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved", task=adding(), encoder=Small)
    for ask in (model.predict, loaded.predict, model.embed, lambda given: next(model.stream(given))):
        with pytest.raises(InputError, match=r"inputs are whole numbers .*, but those of training are real ones"):
            ask(WHOLE)
    same = model.predict((255 * IMAGES).to(torch.uint8)), model.predict(IMAGES)
    assert torch.equal(same[0].probabilities, same[1].probabilities)


def test_one_number_a_slot_is_read_by_an_encoder_that_takes_it_and_refused_for_others():
    tokens = Anchors(torch.arange(3), torch.arange(3))
    model = Learner(adding(), encoder=nn.Embedding(3, 4), **QUICK).fit(CONCEPTS, LABELS, tokens)
    assert model.predict(CONCEPTS).labels.shape == LABELS.shape
    parts = "inputs of one number a slot do not fit", "give each slot a vector by inputs.unsqueeze(-1)"
    real = Anchors(1.0 * tokens.inputs, tokens.concepts)
    assert_refused(*parts, inputs=1.0 * CONCEPTS, anchors=real, encoder="mlp")


@pytest.mark.parametrize(
    "value, kind",
    # the last is infinite in float32
    [(torch.nan, torch.float64), (torch.inf, torch.float16), (-torch.inf, torch.bfloat16), (-1e300, torch.float64)],
)
def test_pixels_that_are_no_numbers_are_named(value, kind):
    inputs = IMAGES.to(kind)
    inputs[5, 1, 0, 3, 3] = inputs[9, 0, 0, 0, 0] = value
    parts = "2 of 16", f"first {value:g} in number 5", "clean or drop"
    assert_refused("inputs hold NaN, infinity", *parts, inputs=inputs)


BYTES = 255 * IMAGES
FLAT = Anchors(ANCHORS.inputs[:, 0], ANCHORS.concepts)


def warned(run, *given, **named):
    """What it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(*given, **named)
    return [str(warning.message) for warning in caught]


def plain(encoder=lambda channels: nn.Sequential(nn.Flatten(), nn.Linear(256, 4)), **changes):
    return Learner(adding(**changes), encoder=encoder, **QUICK)


@pytest.mark.parametrize("inputs", [BYTES, list(BYTES), BYTES.double()], ids=["tensor", "source", "double"])
@pytest.mark.parametrize("anchors", [ANCHORS, Anchors(255 * ANCHORS.inputs, ANCHORS.concepts)])
def test_fit_warns_once_of_real_pixels_of_0_to_255(inputs, anchors):
    (said,) = warned(plain().fit, inputs, LABELS, anchors)
    assert "look like pixels of 0 to 255, expected 0 to 1; divide them by 255" in said


def test_fit_warns_once_of_images_without_a_channel():
    (said,) = warned(plain().fit, IMAGES[:, :, 0], LABELS, FLAT)
    assert "size 16x16 look like images without a channel, which are not augmented" in said
    assert "inputs.unsqueeze(2)" in said
    assert warned(plain(augment=None).fit, IMAGES[:, :, 0], LABELS, FLAT) == []
    assert any("without a channel" in each for each in warned(plain().fit, IMAGES[:, :, 0].bool(), LABELS, FLAT))


def signals(values, *size):
    """Inputs of that size by which values can be told, and anchors for them."""
    made = (values(CONCEPTS.flatten(), *size).unflatten(0, CONCEPTS.shape), values(torch.arange(3), *size))
    return made[0], Anchors(made[1], torch.arange(3))


def noisy(v, *size):
    return v.reshape(-1, *[1] * len(size)) + torch.randn(len(v), *size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "values, size",
    [
        (noisy, (256,)),  # standardised vectors
        (lambda v, *size: (100 * noisy(v, *size)).round().abs().clamp(0, 255), (256,)),  # counts in a table
        (noisy, (16, 16)),  # standardised windows of sensors, square by chance
        (lambda v, *size: noisy(v, *size).abs(), (128, 2)),  # windows of sensors that are never negative
        (lambda v, *size: 20 * noisy(v, *size) - 60, (1, 16, 16)),  # spectrograms in dB
        (lambda v, *size: 40 * noisy(v, *size).abs(), (1, 16, 16)),  # spectrograms as magnitudes
        (lambda v, *size: noisy(v, *size).abs().round().clamp(0, 12), (1, 16, 16)),  # boards
        (lambda v, *size: (100 * noisy(v, *size)).abs().clamp(0, 255).byte(), (1, 16, 16)),  # bytes
        (lambda v, *size: noisy(v, *size).sigmoid(), (1, 16, 16)),  # images as they should be
    ],
)
def test_what_is_no_image_of_0_to_255_is_not_warned_of(values, size):
    inputs, anchors = signals(values, *size)
    model = plain()
    assert warned(model.fit, inputs, LABELS, anchors) == []
    assert warned(model.score, inputs, LABELS) == []


def test_a_model_of_pixels_of_0_to_1_warns_once_of_others(tmp_path):
    model = plain().fit(IMAGES, LABELS, ANCHORS)
    model.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved", task=adding(), encoder=plain()._encoder)
    sentence = "inputs go up to 255, but those of training are pixels of 0 to 1; divide them by 255"
    for each in (model, loaded):
        for ask in (each.predict, each.embed, lambda given, each=each: list(each.stream(given))):
            assert [warned(ask, given) for given in (BYTES, list(BYTES))] == [[sentence]] * 2
            assert warned(ask, IMAGES) == warned(ask, 1.5 * IMAGES + NOISE) == []
        assert warned(each.score, BYTES, LABELS) == [sentence]


def test_fit_warns_once_where_inputs_and_anchors_differ_in_scale():
    resized = (BYTES - 0.4).clamp(min=0)  # no longer whole
    sentence = "{} go up to .*, but {} are pixels of 0 to 1; divide them by 255"
    (one,) = warned(plain().fit, resized, LABELS, ANCHORS)
    (other,) = warned(plain().fit, IMAGES, LABELS, Anchors((255 * ANCHORS.inputs - 0.4).clamp(min=0), ANCHORS.concepts))
    assert re.fullmatch(sentence.format("inputs", "the anchors"), one)
    assert re.fullmatch(sentence.format("anchors", "the inputs"), other)


def test_a_model_of_other_pixels_takes_them_without_a_word():
    anchors = Anchors(255 * ANCHORS.inputs, ANCHORS.concepts)
    with pytest.warns(UserWarning, match="0 to 255"):
        model = plain().fit(BYTES, LABELS, anchors)
    assert warned(model.predict, BYTES) == []


# Settings and names


@pytest.mark.parametrize(
    "name", ["working_set", "kbest_pool", "epochs", "batch_size", "episodes", "draw_factor", "walk_every", "walk_steps"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_counts_below_one_are_refused(name, value):
    assert_refused(f"setting {name} is {value}", "expected at least 1", **{name: value})


def test_no_copies_leave_an_episode_without_queries():
    assert_refused("setting copies is 0", "expected at least 1", "queries", copies=0)


@pytest.mark.parametrize("name", ["learning_rate", "gamma", "gamma_decay", "gamma_floor"])
@pytest.mark.parametrize("value", [0.0, -1.0, 1e-46])  # the last is 0 in single precision
def test_rates_and_temperatures_must_be_above_zero(name, value):
    assert_refused(f"setting {name} is {value}", "expected above 0", **{name: value})


@pytest.mark.parametrize("name", ["learning_rate", "gamma", "rule_weight"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e38])
def test_numbers_must_be_finite_in_single_precision_too(name, value):
    assert_refused(f"setting {name} is {value}", "expected a finite number, of a size up to 1e+30", **{name: value})


def test_a_word_is_no_switch():
    assert_refused("setting views is 'yes'", "expected true or false", views="yes")


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("threads", True, "a whole number or null"),
        ("processes", True, "a whole number"),
        ("workers", torch.tensor(1), "a whole number"),
        ("epochs", True, "a whole number"),
        ("learning_rate", True, "a number"),
        ("learning_rate", "1", "a number"),
        ("views", 1, "true or false"),
        ("keep", ["last"], "one of 'last', 'best'"),
        ("precision", None, "one of '32-true', "),
        ("targets", ["exact"], "a name or a class"),
        ("targets", None, "a name or a class"),
    ],
)
def test_a_value_of_another_type_is_refused_when_a_learner_is_made(name, value, expected):
    with pytest.raises(InputError, match=in_order(f"setting {name} is {value!r}, expected {expected}")):
        Learner(adding(), **{name: value})


def test_numbers_of_any_library_are_settings():
    chosen = Learner(adding(), epochs=numpy.int64(3), learning_rate=numpy.float32(0.5), threads=numpy.int32(1))
    assert (chosen.settings.epochs, chosen.settings.learning_rate, chosen.hardware.threads) == (3, 0.5, 1)


@pytest.mark.parametrize("method", [None, True, ["softpnet"], b"softpnet"])
def test_what_is_no_method_is_refused_as_an_unknown_one(method):
    with pytest.raises(InputError, match=in_order(f"unknown method {method!r}; ", "softpnet")):
        Learner(adding(), method=method)


@pytest.mark.parametrize("name", ["method", "targets"])
def test_a_class_of_another_kind_is_refused(name):
    assert_refused("<class 'int'> does not define a", "expected a subclass of softpnet", **{name: int})


def test_a_seed_is_a_whole_number_of_any_library():
    assert Learner(adding(), seed=numpy.int64(3)).seed == 3
    for seed in (0.5, True):
        with pytest.raises(InputError, match=f"seed is {seed}, expected a whole number"):
            Learner(adding(), seed=seed)


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, pytest.param(10**5000, id="very long")])
def test_a_seed_of_too_many_bits_is_refused_at_the_start(seed):
    for made in (lambda: Learner(adding(), seed=seed), lambda: check_task(adding(), seed=seed)):
        with pytest.raises(InputError, match=f"seed has {seed.bit_length()} bits, expected at most 63"):
            made()


@pytest.mark.parametrize("name", ["m.pt", "m.PTH", "m.pkl"])
def test_what_could_not_be_loaded_again_is_not_saved(tmp_path, name):
    model = Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)
    cache = make_cache(adding(), torch.Generator().manual_seed(0))
    for save in (model.save, cache.save):
        with pytest.raises(InputError, match=in_order(name, "usually pickles", "give a run folder, safetensors")):
            save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_encoder_that_could_not_be_saved_is_refused_before_training():
    class Odd(torch.nn.Sequential):
        def get_extra_state(self):
            return {"a": 1}

    encoder = Odd(torch.nn.Flatten(), torch.nn.Linear(256, 4))
    assert_refused("holds what cannot be saved", "keep tensors", encoder=encoder)


@pytest.mark.parametrize(
    "name", ["halve_every", "warmup_steps", "rule_delay", "rule_ramp", "rule_weight", "weight_decay"]
)
def test_delays_and_weights_must_not_be_negative(name):
    assert_refused(f"setting {name} is -1", "expected 0 or more", **{name: -1})


@pytest.mark.parametrize("value", ["3", 2.5])
def test_a_count_that_is_no_whole_number_is_refused(value):
    assert_refused(f"setting working_set is {value!r}", "expected", "whole number", working_set=value)


def test_unknown_candidates_and_targets_list_the_valid_ones():
    assert_refused("unknown target source 'oracle'", "auto, cache, exact, kbest", ".py file", targets="oracle")
    assert_refused("setting target is 'hard'", "expected one of 'soft', 'best'", target="hard")


def test_an_unknown_setting_lists_the_valid_ones():
    assert_refused("unknown setting 'passes'", "epochs", "batch_size", "targets", "rule_ramp", passes=3)
    assert_refused("unknown setting 'epoch'; did you mean epochs?", epoch=3)


@pytest.mark.parametrize(
    "name, value",
    [
        ("device", "abacus"),
        ("precision", "3"),
        ("threads", 0),
        ("threads", 100_000),  # a segmentation fault
        ("threads", 1.5),
        ("processes", 0),
        ("processes", 100_000),
    ],
)
def test_hardware_that_cannot_be_is_refused(name, value):
    assert_refused(name, repr(value), "expected", **{name: value})


def test_an_unknown_method_lists_the_valid_ones():
    assert_refused("unknown method 'magic'", "the methods are", "softpnet", method="magic")


def test_an_unknown_task_lists_the_valid_ones():
    with pytest.raises(
        InputError, match=in_order("'mnist'", "kand_logic", "mnist_evenodd", "visual_sudoku", ".py file")
    ):
        tasks.load("mnist")


def test_an_unknown_task_option_lists_the_valid_ones():
    with pytest.raises(
        InputError, match=in_order("kand_logic has no option 'color'", "crop", "train", "cached", "split")
    ):
        tasks.load("kand_logic", {"color": "1"})


@pytest.mark.parametrize(
    "name, options, parts",
    [
        ("kand_logic", {"crop": "round"}, ("crop", "'round'", "'box', 'window'")),
        ("kand_logic", {"train": "many"}, ("train", "'many'", "whole number")),
        ("visual_sudoku", {"valid_only": "maybe"}, ("valid_only", "'maybe'", "true or false")),
    ],
)
def test_a_wrong_value_of_a_task_option_names_what_is_expected(name, options, parts):
    with pytest.raises(InputError, match=in_order("option", *parts)):
        tasks.load(name, options)


# Before, at and after training


@pytest.mark.parametrize("task", ["kand_logic", None, tasks])
def test_what_is_no_task_is_refused(task):
    for made in (lambda: Learner(task), lambda: check_task(task)):
        with pytest.raises(InputError, match=in_order("was given", "expected a softpnet.Task", "tasks.load(NAME)")):
            made()


@pytest.mark.parametrize("name", ["progress", "watch"])
def test_what_is_called_between_steps_must_be_a_function(name):
    with pytest.raises(InputError, match=f"{name} is 3, expected a function, or None"):
        Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS, **{name: 3})


def test_a_task_whose_rule_fails_is_refused_when_a_model_is_loaded(tmp_path):
    Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS).save(tmp_path / "model")
    with pytest.raises(TaskError, match="the rule of task 'adding' failed on rows"):
        Learner.load(tmp_path / "model", task=adding(rule=lambda c: c.nothing), encoder=Small)
    with pytest.raises(InputError, match=r"load was given str, expected a softpnet.Task"):
        Learner.load(tmp_path / "model", task="adding", encoder=Small)


def test_predict_before_fit_says_to_call_fit():
    model = Learner(adding(), encoder=Small, **QUICK)
    for ask in (model.predict, model.embed, lambda inputs: model.score(inputs, LABELS)):
        with pytest.raises(InputError, match=in_order("not trained yet", "call fit(inputs, labels, anchors) first")):
            ask(IMAGES)


def test_predict_and_save_after_a_refused_fit_say_to_call_fit(tmp_path):
    model = Learner(adding(), encoder=Small, **QUICK)
    with pytest.raises(InputError, match="values of the concepts give"):
        model.fit(IMAGES, LABELS + 99, ANCHORS)
    with pytest.raises(InputError, match="not trained yet"):
        model.predict(IMAGES)
    with pytest.raises(InputError, match="not trained yet"):
        model.save(tmp_path)


def test_a_refused_fit_leaves_its_run_folder_free_for_the_next_try(tmp_path):
    model = Learner(adding(), encoder=Small, **QUICK)
    with pytest.raises(InputError, match="values of the concepts give"):
        model.fit(IMAGES, LABELS + 99, ANCHORS, run=tmp_path / "run")
    model.fit(IMAGES, LABELS, ANCHORS, run=tmp_path / "run")


def test_images_of_another_size_than_trained_on_are_refused_at_predict():
    model = Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)
    with pytest.raises(InputError, match=in_order("size [1, 8, 8]", "[1, 16, 16]", "resize")):
        model.predict(torch.zeros(2, 2, 1, 8, 8))
    with pytest.raises(InputError, match=in_order("3 slots", "2")):
        model.predict(torch.zeros(2, 3, 1, 16, 16))


def test_labels_and_concepts_of_the_wrong_shape_are_refused_at_score():
    model = Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)
    with pytest.raises(InputError, match=in_order("5 labels for 16 examples")):
        model.score(IMAGES, LABELS[:5])
    with pytest.raises(InputError, match=in_order("labels have shape [16, 1]", "the rule gives")):
        model.score(IMAGES, LABELS[:, None])
    with pytest.raises(InputError, match=in_order("concepts", "[16, 1]", "expected", "[16, 2]")):
        model.score(IMAGES, LABELS, CONCEPTS[:, :1])


@pytest.mark.parametrize(
    "concepts, parts",
    [
        ("low, high", ("concepts are str", "expected an integer tensor [16, 2]")),
        (CONCEPTS.float(), ("concepts are torch.float32 [16, 2]", "concepts.long()")),
        (CONCEPTS + 1, ("concepts [", "of example", "outside the space", "below [3, 3]", "of 16 examples")),
        (CONCEPTS - 1, ("outside the space", "values from 0")),
    ],
)
def test_concepts_outside_the_space_are_refused_at_score_and_not_counted_as_wrong(concepts, parts):
    model = Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)
    with pytest.raises(InputError, match=in_order(*parts)):
        model.score(IMAGES, LABELS, concepts)


def test_inputs_that_are_no_tensor_are_refused_at_score():
    model = Learner(adding(), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)
    with pytest.raises(InputError, match="inputs are int, expected a tensor"):
        model.score(3, LABELS)


class Detaching(Small):
    def forward(self, inputs):
        return super().forward(inputs).detach()


@pytest.mark.parametrize(
    "encoder, method, error, parts",
    [
        (Small().requires_grad_(False), "softpnet", InputError, ("nothing to train", "all 68 weights", "frozen")),
        (nn.Flatten(), "softpnet", InputError, ("nothing to train", "all 0 weights")),
        (Small().requires_grad_(False), "softpnet_head_scoring", TrainingError, ("depends on no weight", "frozen")),
        (Detaching, "softpnet", TrainingError, ("depends on no weight", "warm-up step 1", "detaches")),
    ],
)
def test_an_encoder_that_cannot_learn_is_refused_before_anything_is_trained(encoder, method, error, parts):
    model, steps = Learner(adding(), encoder=encoder, method=method, preset="paper", **QUICK), []
    with pytest.raises(error, match=in_order(*parts)):
        model.fit(IMAGES, LABELS, ANCHORS, progress=steps.append)
    assert not steps


@pytest.mark.parametrize("method", ["abduction", "softpnet"])  # a linear layer, and learned prototypes
def test_a_frozen_encoder_below_what_learns_is_fine(method):
    frozen = Small().requires_grad_(False)
    assert Learner(adding(), encoder=frozen, method=method, **QUICK).fit(IMAGES, LABELS, ANCHORS).history


def test_a_group_may_bear_the_name_of_a_module_s_attribute():
    space = ConceptSpace(Group([0, 1], 3, name="type"))
    model = Learner(adding(space=space), encoder=Small, **QUICK).fit(IMAGES, LABELS, ANCHORS)
    assert model.predict(IMAGES).concepts.shape == (16, 2)


@pytest.mark.parametrize("names", [{"name": "a.b"}, {"name": "a/b"}, {"name": ""}, {"name": "a", "encoder": "a.b"}])
def test_a_group_whose_name_can_be_no_file_or_module_is_refused(names):
    with pytest.raises(TaskError, match=in_order("named", repr(list(names.values())[-1]), "expected")):
        Group([0], 3, **names)


def ids_in(error):
    return [int(i) for i in re.search(r"examples \[([\d, ]+)\]", str(error)).group(1).split(",")]


@pytest.mark.parametrize("target", ["soft", "best"])
@pytest.mark.parametrize("candidates", ["cache", "kbest", "auto"])
def test_an_example_that_makes_the_loss_nan_stops_the_run_in_its_step_and_is_named(candidates, target):
    inputs, steps = IMAGES.clone(), []
    inputs[11] *= 10
    settings = QUICK | {"batch_size": 4, "targets": candidates, "target": target, "encoder": BrokenBy}
    model = Learner(adding(), **settings)
    with pytest.raises(TrainingError, match=in_order("nan", "epoch 1, step", "look at these examples")) as caught:
        model.fit(inputs, LABELS, ANCHORS, progress=steps.append)
    assert 11 in ids_in(caught.value) and len(ids_in(caught.value)) == 4
    assert f"step {sum(not step.warming_up for step in steps) + 1}," in str(caught.value)


def test_a_loss_that_diverges_stops_the_run_in_that_step_and_names_the_batch(tmp_path):
    steps = []
    model = Learner(adding(), encoder=Small, **QUICK | {"warmup_steps": 0, "learning_rate": 1e30})
    with pytest.raises(TrainingError, match=in_order("nan", "epoch 1, step 2", "lower learning_rate")) as caught:
        model.fit(IMAGES, LABELS, ANCHORS, run=tmp_path / "run", progress=steps.append)
    assert len(steps) == 1
    assert len(set(ids_in(caught.value))) == 8 and set(ids_in(caught.value)) < set(range(16))
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_loss_that_diverges_while_warming_up_names_the_warm_up_step():
    model = Learner(adding(), encoder=Small, **QUICK | {"warmup_steps": 3, "learning_rate": 1e30})
    with pytest.raises(TrainingError, match=in_order("nan", "warm-up step 2", "anchors", "lower learning_rate")):
        model.fit(IMAGES, LABELS, ANCHORS)


@pytest.mark.parametrize("candidates", ["kbest", "auto", "exact", "cache"])
def test_an_impossible_label_in_a_space_too_large_to_list_is_refused(candidates):
    task = tasks.load("kand_logic", {"cached": 100})
    source = sources.make(task, Settings(targets=candidates), torch.Generator().manual_seed(0))
    with pytest.raises(
        InputError, match=r"no (known )?values of the concepts give in task 'kand_logic': 7 \(example ids 1, 2\)"
    ):
        source.start(torch.tensor([1, 7, 7]))


@pytest.mark.parametrize("candidates", ["kbest", "auto"])
def test_where_nothing_is_compiled_an_impossible_label_is_warned_of(candidates, uncompiled):
    """Nothing proves then that no assignment has it, and a rare one may still be found."""
    task = uncompiled(tasks.load("kand_logic"))
    source = sources.make(task, Settings(targets=candidates), torch.Generator().manual_seed(0))
    with pytest.warns(
        UserWarning, match=r"none of many random assignments .* gave: 7 \(example ids 1, 2\).*as a Machine"
    ):
        source.start(torch.tensor([1, 7, 7]))


def test_an_unavailable_device_is_named():
    model = Learner(adding(), encoder=Small, device="cuda", **QUICK)
    with pytest.raises(InputError, match=r"device 'cuda' is not available here: .*; use cpu or auto"):
        model.fit(IMAGES, LABELS, ANCHORS)


def test_corruption_with_label_vectors_is_refused():
    corrupt = Corruption(label=0, source=1, apply=lambda rows, generator: rows)
    task = Task(ConceptSpace(slots=2, values=3), lambda c: c, corrupt=corrupt, settings=CACHE)
    with pytest.raises(TaskError, match="corruption is for integer labels only"):
        Learner(task, encoder=Small, **QUICK).fit(IMAGES, CONCEPTS, ANCHORS)
