"""A task that keeps the contract passes every check; one that breaks it in one place fails the check of that place."""

import dataclasses
import random
import re
import warnings

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet import tasks
from softpnet.checks import moves
from softpnet.checks import rows as rows_of_a_task
from softpnet.checks.check_task import CHECKS
from softpnet.rules import compile as compiling

SPACE = sp.ConceptSpace(slots=2, values=3)
EVERY = SPACE.all()
SUMS = torch.arange(5)


def label(c):
    return c[..., 0] + c[..., 1]


def picture(values):
    """Values `[...]` -> inputs `[..., 1, 8, 8]`: two bright rows at a place that depends on the value."""
    bright = torch.arange(8)[:, None] // 2 == values[..., None, None, None]  # [..., 1, 8, 1]
    return bright.float().expand(*bright.shape[:-1], 8).clone()


def examples(count, generator):
    concepts = torch.randint(3, (count, 2), generator=generator)
    return sp.Examples(picture(concepts), label(concepts), concepts)


def data(streams):
    anchors = sp.Anchors(picture(torch.arange(3)), torch.arange(3))
    return sp.Data(examples(20, streams("train data")), anchors, {"test": examples(10, streams("test data"))})


def with_data(**changes):
    """The data with some parts of the training set, or the anchors or tests, replaced by what a function makes."""

    def change(streams):
        made = data(streams)
        own = {name: make(made) for name, make in changes.items() if name in made._fields}
        train = {name: make(made) for name, make in changes.items() if name in made.train._fields}
        return made._replace(train=made.train._replace(**train))._replace(**own)

    return change


def shifted(rows, step):
    """Add step to one concept, take it from the other; stay where that leaves the space."""
    proposal = rows + torch.stack([step, -step], dim=-1)
    return torch.where(SPACE.contains(proposal)[..., None], proposal, rows)


def sign(shape, generator):
    return 2 * torch.randint(2, shape, generator=generator) - 1


def move(rows, generator):
    return shifted(rows, sign(rows.shape[:-1], generator))


def to_zero(rows, generator):
    return torch.zeros_like(rows)


def encoder(channels):
    return nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16 * channels, 4))


GOOD = sp.Task(
    space=SPACE,
    rule=label,
    name="adding",
    rows=lambda generator: sp.Rows(EVERY, complete=SUMS),
    move=move,
    corrupt=sp.Corruption(label=0, source=1, apply=to_zero),
    data=data,
    encoder=encoder,
)


def check(targets="cache", **changes):
    """With the source of targets that uses every part of a task, unless another one is named."""
    return sp.check_task(dataclasses.replace(GOOD, **changes), targets=targets)


def failed(report):
    return [result.name for result in report if result.outcome == "failed"]


def test_a_task_that_keeps_the_contract_passes_every_check():
    report = check()
    assert [result.name for result in report] == list(CHECKS)
    assert {result.outcome for result in report} == {"passed"}, report
    assert report.ok and report.raise_if_failed() is report


SMALL = {
    "mnist_evenodd": {"train": 64},
    "visual_sudoku": {"train": 20},
    "kand_logic": {"train": 60, "test": 10, "cached": 5000},
}


@pytest.mark.parametrize("name", tasks.names())
def test_every_built_in_task_passes(name):
    report = sp.check_task(tasks.load(name, SMALL.get(name)), preset="paper")
    assert {r.name for r in report if r.outcome not in ("passed", "not applicable")} <= {"shortcuts", "relabelings"}, (
        report
    )
    assert report["relabelings"].outcome == "warning", "each of the three has shortcuts"
    assert {"move label", "move symmetric", "training", "concepts"} <= {r.name for r in report if r.outcome == "passed"}


KBEST = dict(targets="kbest")


@pytest.mark.parametrize(
    ("space", "rule", "said"),
    [
        (SPACE, label, r"each of 3 exchanges of two values changes some label \(on 9 assignments\)"),
        (
            sp.ConceptSpace(slots=2, values=4),
            lambda c: c.prod(-1) % 2,
            r"2 of 6 exchanges of two values change no label \(.*\): 0 and 2, 1 and 3; only",
        ),
        (
            sp.ConceptSpace(slots=2, values=4),
            lambda c: (c[..., 0] == c[..., 1]).long(),
            "6 of 6 .*, 1 and 3, ...; only",
        ),
        (
            sp.ConceptSpace(slots=2, values=(2, 3), value_names=[["a", "b"], ["x", "y", "z"]]),
            lambda c: c[..., 1] + c[..., 3],
            "1 of 4 exchanges .*: attribute 0: a and b; only the anchors tell these apart",
        ),
    ],
)
def test_values_that_only_anchors_tell_apart_are_named(space, rule, said):
    found = sp.check_task(sp.Task(space, rule), targets="cache")["shortcuts"]
    assert re.search(said, found.message), found
    assert found.outcome == ("passed" if found.message.startswith("each of") else "warning")


def test_the_values_that_must_be_anchored_are_named():
    space = sp.ConceptSpace(sp.Group([0, 1], 4, name="digit"), sp.Group([2], 2, name="sign"))
    parity = sp.Task(space, lambda c: (c[..., 0] + c[..., 1]) % 2 * (1 + (c[..., 0] == 3)) + 4 * c[..., 2])
    found = sp.check_task(parity)["needed anchors"]
    assert found.outcome == "passed" and found.message.endswith("must be anchored: digit 0 and digit 2")
    assert sp.check_task(sp.Task(SPACE, label))["needed anchors"].message.startswith("no value must be anchored")


def test_a_needed_anchor_that_the_data_lack_fails_by_name():
    parity = dataclasses.replace(GOOD, rule=lambda c: label(c) % 2, rows=None, move=None, corrupt=None)
    made = with_data(
        labels=lambda made: made.train.labels % 2,
        anchors=lambda made: sp.Anchors(picture(torch.tensor([1, 1])), torch.tensor([1, 1])),
        tests=lambda made: {"test": made.tests["test"]._replace(labels=made.tests["test"].labels % 2)},
    )
    report = sp.check_task(dataclasses.replace(parity, data=made))
    assert report["needed anchors"].message.endswith(
        "anchored: 0 and 2; no anchor shows 0 and 2: label an input of each"
    )
    assert failed(report) == ["needed anchors"] and report["training"].outcome == "not run"
    assert report["anchors"].message == "2 inputs of 1 primitive"


def tour(c):
    """No two values can be exchanged, but 1, 2 and 3 may be taken for each other in a circle."""
    a, b = c[..., 0], c[..., 1]
    return torch.where((a == 0) & (b == 0), 6, torch.where(a == 0, 4, torch.where(b == 0, 5, (b - a) % 3)))


def shown(rule, values, anchored):
    """A task with that rule whose anchors show these values."""
    task = sp.Task(sp.ConceptSpace(slots=2, values=values), rule)
    known = sp.Anchors(torch.rand(len(anchored), 6), torch.tensor(anchored))
    inputs, rows = torch.rand(8, 2, 6), torch.zeros(8, task.space.k, dtype=torch.int64)
    examples = sp.Examples(inputs, rule(rows), rows)
    return dataclasses.replace(task, data=lambda streams: sp.Data(examples, known, {"test": examples}))


@pytest.mark.parametrize(
    "task, outcome, part",
    [
        (
            shown(tour, 4, [0]),
            "failed",
            "neither rule nor anchors tell all values apart: to take '1' for '2', '2' for '3' and '3' for '1' changes "
            "no label; label an input of '1'",
        ),
        (
            shown(tour, 4, [0, 1, 2, 3]),
            "passed",
            "the rule cannot tell all values apart: to take '1' for '2', '2' for '3' and '3' for '1' changes no label; "
            "an anchor of '1' is enough",
        ),
        (
            shown(lambda c: (c[..., 0] ^ c[..., 1]) * 2 + (c[..., 2] ^ c[..., 3]), (2, 2), [0, 3]),
            "warning",
            "neither rule nor anchors tell all values apart: to take '",
        ),
    ],
)
def test_values_that_only_a_longer_exchange_mistakes_are_found(task, outcome, part):
    found = sp.check_task(task)["needed anchors"]
    assert found.outcome == outcome and found.message.startswith(part)


def two_groups(rule, shapes, colours, others=None):
    """A task whose shapes and colours are read from the same two slots, and whose anchors show these values."""
    space = sp.ConceptSpace(sp.Group([0, 1], 3, name="shape"), sp.Group([0, 1], 3, name="colour"))
    shapes, colours = torch.tensor(shapes), torch.tensor(colours)
    images = (3 * shapes + colours)[:, None] + torch.zeros(1, 6)
    anchors = {"shape": sp.Anchors(images, shapes), "colour": sp.Anchors(images if others is None else others, colours)}
    rows = space.all()
    inputs = (3 * rows[:, :2] + rows[:, 2:])[..., None] + torch.zeros(6)
    made = sp.Examples(inputs, rule(rows), rows)
    return sp.Task(space, rule, data=lambda streams: sp.Data(made, anchors, {"test": made}))


def shared(c):
    """How many of shape and colour two things have in common; the two groups may change places."""
    return (c[..., 0] == c[..., 1]).long() + (c[..., 2] == c[..., 3])


def weighed(c):
    return 2 * (c[..., 0] == c[..., 1]).long() + (c[..., 2] == c[..., 3])


OTHERS = torch.arange(3)[:, None] + torch.full((1, 6), 20.0)  # other images than those that show the shapes


@pytest.mark.parametrize(
    "task, outcome",
    [
        (two_groups(shared, [0, 1, 2], [2, 0, 1]), "warning"),
        (two_groups(shared, [0, 1, 2, 0], [2, 0, 1, 2]), "warning"),
        (two_groups(shared, [0, 1, 2, 0], [2, 0, 1, 0]), "passed"),
        (two_groups(shared, [0, 1, 2], [2, 0, 1], OTHERS), "passed"),
        (two_groups(weighed, [0, 1, 2], [2, 0, 1]), "passed"),
    ],
    ids=["confounded", "one of them twice", "one that shows them apart", "anchors of their own", "the rule tells"],
)
def test_groups_that_anchors_show_in_fixed_pairs_are_named_with_an_input_that_shows_them_apart(task, outcome):
    found = sp.check_task(task)["needed anchors"]
    assert found.outcome == outcome, found
    assert outcome == "passed" or found.message == (
        "neither rule nor anchors tell shape from colour: anchors show '0' with '2', '1' with '0' and '2' with '1' "
        "only, and to read one group for the other changes no label; label an input of '0' with '0' too"
    )


def test_training_warns_of_groups_that_anchors_show_in_fixed_pairs_unless_concepts_are_taught():
    task = two_groups(shared, [0, 1, 2], [2, 0, 1])
    train, anchors, _ = task.data(None)
    quick = dict(epochs=1, warmup_steps=1, batch_size=81)
    with pytest.warns(UserWarning, match="neither rule nor anchors tell shape from colour"):
        sp.Learner(task, **quick).fit(train.inputs, train.labels, anchors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        taught = sp.Learner(task, method="supervised", **quick)
        taught.fit(train.inputs, train.labels, anchors, concepts=train.concepts)


def test_it_is_said_where_not_all_ways_to_mistake_values_were_tried():
    many = sp.Task(sp.ConceptSpace(slots=2, values=40), lambda c: c[..., 0] * 40 + c[..., 1])
    found = sp.check_task(many)["needed anchors"]
    assert found.outcome == "passed" and found.message.endswith("but not all ways to take one for another were tried")


def test_labels_that_differ_are_counted_and_label_noise_is_named():
    def wrong(streams):
        made = data(streams)
        labels = made.train.labels.clone()
        labels[0] = (labels[0] + 1) % 5
        return made._replace(train=made.train._replace(labels=labels))

    noisy = dataclasses.replace(GOOD, data=wrong)
    said = sp.check_task(noisy)["concepts"]
    assert said.outcome == "failed" and "(1 of 20 examples differ)" in said.message
    assert said.message.endswith("or the rule, or say how many may be wrong: --label-noise 0.05")
    said = sp.check_task(noisy, label_noise=0.1, targets="exact")["concepts"]
    assert said.outcome == "passed" and "the rule gives the label of 29 examples" in said.message
    assert said.message.endswith("1 of 20 differ, 5.0 %, and label_noise allows 10 %")


def test_where_only_one_label_is_seen_nothing_is_said_of_shortcuts():
    rare = sp.Task(sp.ConceptSpace(slots=12, values=10), lambda c: (c == 7).all(-1).long(), settings=KBEST)
    assert sp.check_task(rare)["shortcuts"].outcome == "not applicable"


def test_a_rule_that_random_assignments_hardly_ever_satisfy_is_tried_on_rows_too():
    report = sp.check_task(tasks.load("visual_sudoku", {"train": 20}))
    assert report["shortcuts"].message.startswith("6 of 6 exchanges")
    first_is_one = sp.Task(
        tasks.load("visual_sudoku").space,
        lambda c: (c == torch.tensor([0] + [1] * 15)).all(-1).long(),
        rows=lambda generator: sp.Rows(torch.tensor([[0] + [1] * 15, [2] * 16]), torch.tensor([1])),
    )
    assert sp.check_task(first_is_one)["shortcuts"].message.startswith("1 of 6 exchanges")


# What is broken, which check says so, and what it says.


class Calls:
    """A rule that changes its mind."""

    def __init__(self):
        self.count = 0

    def __call__(self, c):
        self.count += 1
        return label(c) + self.count


def forgets_its_input(c):
    result = label(c)
    c.zero_()
    return result


def to_a_feasible_neighbour(rows, generator):
    """The usual mistake: choose among the neighbours that there are, so that a row with fewer gives each more."""
    step = sign(rows.shape[:-1], generator)
    there = shifted(rows, step)
    stays = (there == rows).all(-1, keepdim=True)
    return torch.where(stays, shifted(rows, -step), there)


def one_choice_for_all(rows, generator):
    return shifted(rows, sign((1,), generator).expand(rows.shape[:-1]))


def global_draws(rows, generator):
    return move(rows, None)


def in_place(rows, generator):
    rows.copy_(move(rows, generator))
    return rows


BROKEN = {
    "no space": (dict(space=(3, 3)), "space", "is tuple, expected a softpnet.ConceptSpace"),
    "no epochs": (dict(settings=dict(epochs=0)), "settings", "epochs is 0, expected at least 1"),
    "settings as a list": (dict(settings=[3]), "settings", "are list [3], expected a dict by name"),
    "rule fails": (dict(rule=lambda c: c.total()), "rule runs", "no attribute 'total'"),
    "float labels": (dict(rule=lambda c: label(c) / 2), "rule integers", "returns torch.float32"),
    "one label for all": (dict(rule=lambda c: c.sum()), "rule shape", "to [], expected [64] or [64, m]"),
    "fickle rule": (dict(rule=Calls()), "rule repeatable", "differs between two calls"),
    "rule for one batch shape": (dict(rule=lambda c: c[:, 0] + c[:, 1]), "rule vectorised", "use c[..., i]"),
    "rule looks around": (
        dict(rule=lambda c: (c[..., 0] == c.max()).long()),
        "rule rows apart",
        "look at each row by itself",
    ),
    "rule writes": (dict(rule=forgets_its_input), "rule input", "is [0, 0] afterwards; work on a copy"),
    "data fails": (dict(data=lambda streams: 1 / 0), "data", "raised ZeroDivisionError: division by zero"),
    "data exits": (dict(data=lambda streams: exit("no files")), "data", "raised SystemExit: no files"),
    "data of another type": (dict(data=lambda streams: (1, 2)), "data", "is tuple, expected a softpnet.Data"),
    "no test set": (dict(data=with_data(tests=lambda d: {})), "data", "has no test set"),
    "tests as a list": (dict(data=with_data(tests=lambda d: [d.train])), "data", "are list, expected a dict by name"),
    "test set of another type": (
        dict(data=with_data(tests=lambda d: {"hard": d.train.inputs})),
        "data",
        "test set 'hard' is Tensor, expected softpnet.Examples",
    ),
    "irreproducible inputs": (
        dict(data=with_data(inputs=lambda d: torch.rand(d.train.inputs.shape))),
        "data repeatable",
        "training inputs differ between two calls with the same seed; draw every random number with generator=",
    ),
    "irreproducible order": (
        dict(data=with_data(anchors=lambda d: sp.Anchors(d.anchors.inputs + random.random() / 9, torch.arange(3)))),
        "data repeatable",
        "anchor inputs differ",
    ),
    "complex numbers": (
        dict(data=with_data(inputs=lambda d: d.train.inputs + 0j)),
        "inputs",
        "training set: inputs are complex64, expected real or whole numbers",
    ),
    "inputs as a list": (dict(data=with_data(inputs=lambda d: [1])), "data", "training set: example 0 has shape []"),
    "a slot too few": (dict(data=with_data(inputs=lambda d: d.train.inputs[:, :1])), "inputs", "have 1 slots"),
    "infinite pixels": (dict(data=with_data(inputs=lambda d: d.train.inputs / 0)), "inputs", "NaN, infinity"),
    "another size in the test set": (
        dict(data=with_data(tests=lambda d: {"large": d.train._replace(inputs=torch.zeros(20, 2, 1, 9, 9))})),
        "inputs",
        "test set 'large': inputs have size [1, 9, 9], but the training inputs have [1, 8, 8]",
    ),
    "labels one short": (dict(data=with_data(labels=lambda d: d.train.labels[1:])), "labels", "19 labels for 20"),
    "label vectors": (dict(data=with_data(labels=lambda d: d.train.labels[:, None])), "labels", "the rule gives [N]"),
    "wrong label": (
        dict(data=with_data(labels=lambda d: d.train.labels.roll(1))),
        "concepts",
        "but the rule gives",
    ),
    "concepts outside": (
        dict(data=with_data(concepts=lambda d: d.train.concepts + 1)),
        "concepts",
        "outside the space",
    ),
    "concepts of another shape": (
        dict(data=with_data(concepts=lambda d: d.train.concepts[:, :1])),
        "concepts",
        "are torch.int64 [20, 1], expected an integer tensor [20, 2]",
    ),
    "an anchor of no value": (
        dict(data=with_data(anchors=lambda d: sp.Anchors(d.anchors.inputs, torch.arange(3) + 1))),
        "anchors",
        "anchor 2 of group 'concept' has concept 3, which is outside the space",
    ),
    "encoder without vectors": (dict(encoder=lambda channels: nn.Conv2d(channels, 2, 3)), "encoder", "expected [2, D]"),
    "default encoder too deep": (dict(encoder=None), "encoder", "do not fit the encoder"),
    "rows fail": (dict(rows=lambda generator: EVERY[99]), "rows", "raised IndexError"),
    "rows of another type": (dict(rows=lambda generator: EVERY), "rows", "are Tensor, expected softpnet.Rows"),
    "float rows": (dict(rows=lambda generator: sp.Rows(EVERY / 2, SUMS)), "rows", "are torch.float32, expected an int"),
    "complete as a list": (dict(rows=lambda generator: sp.Rows(EVERY, [1])), "rows", "complete labels", "are list"),
    "rows outside": (dict(rows=lambda generator: sp.Rows(EVERY + 1, SUMS[1:])), "rows", "outside the space"),
    "rows with false labels": (
        dict(rows=lambda generator: sp.Rows(EVERY, SUMS, label(EVERY).flip(0))),
        "rows",
        "is stored with label",
    ),
    "complete without rows": (dict(rows=lambda g: sp.Rows(EVERY, SUMS + 1)), "rows", "complete for label 5"),
    "complete and not": (
        dict(rows=lambda generator: sp.Rows(EVERY[[0, 1, 2, 3, 4, 5, 7, 8]], SUMS)),
        "complete",
        "complete for label 2, but [2, 0] has it too",
    ),
    "impossible label": (
        dict(data=with_data(labels=lambda d: d.train.labels + 9 * (SUMS.repeat(4) == 3), concepts=lambda d: None)),
        "training",
        "(example ids 3)",
    ),
    "move fails": (dict(move=lambda rows, generator: rows[99]), "move", "in <lambda>, raised IndexError"),
    "move of another type": (dict(move=lambda rows, generator: rows.tolist()), "move", "into list, expected the same"),
    "move drops a dimension": (
        dict(move=lambda rows, generator: rows.flatten(0, 1)),
        "move",
        "expected the same shape",
    ),
    "float move": (dict(move=lambda rows, generator: rows.float()), "move", "torch.float32"),
    "move writes": (dict(move=in_place), "move", "writes into its input", "rows.clone()"),
    "move draws elsewhere": (dict(move=global_draws), "move", "again with a generator of the same seed"),
    "one choice per batch": (dict(move=one_choice_for_all), "move", "one random choice for a whole batch"),
    "move leaves the label": (dict(move=lambda rows, g: rows // 2), "move label", "which has label", "unchanged"),
    "move leaves the space": (dict(move=lambda rows, g: 5 - rows), "move label", "outside the space"),
    "feasible neighbours": (dict(move=to_a_feasible_neighbour), "move symmetric", "the way back"),
    "steps of two": (
        dict(move=lambda rows, generator: shifted(rows, 2 * sign(rows.shape[:-1], generator))),
        "move connected",
        "does not connect the rows of label",
    ),
    "corruption of nothing": (
        dict(corrupt=sp.Corruption(0, 1, lambda rows, generator: rows)),
        "corruption",
        "which has label 1, expected 0",
    ),
    "corruption of some": (
        dict(corrupt=sp.Corruption(0, 1, lambda rows, g: rows * (torch.rand(rows.shape, generator=g) < 0.01))),
        "corruption",
        "expected 0",
        "draw again until the rule gives that label",
    ),
    "corruption of itself": (dict(corrupt=sp.Corruption(1, 1, to_zero)), "corruption", "two different labels"),
    "corruption that cannot do nothing": (
        dict(corrupt=sp.Corruption(0, 1, lambda rows, generator: rows * int(rows.max() < 0))),
        "corruption",
        "max()",
    ),
}


@pytest.mark.parametrize("which", BROKEN)
def test_a_broken_task_fails_the_check_of_what_is_broken_and_no_other(which):
    changes, name, *parts = BROKEN[which]
    report = check(**changes)
    assert failed(report) == [name], report
    assert not report.ok
    for part in parts:
        assert part in report[name].message
    assert "\n" not in report[name].message and "Traceback" not in report[name].message


def test_every_check_has_a_task_that_fails_it():
    # a rule may leave as much open as it likes; what needs an anchor has a test above
    tells_only = {"shortcuts", "needed anchors", "relabelings", "idle settings"}
    assert {name for _, name, *_ in BROKEN.values()} == set(CHECKS) - tells_only


def test_the_sum_at_the_end_is_in_order_and_counts_warnings():
    report = check(background=-1.0, encoder=None, corrupt=None)
    assert str(report).endswith(
        f"task 'adding': {len(report) - 4} passed, 1 warning, 1 failed, 1 not applicable, 1 not run"
    )
    assert ", 2 warnings, " in str(check(background=-1.0, settings={"rule_weight": 0}, corrupt=None))


def test_checks_that_build_on_a_failed_one_say_so_and_the_others_run():
    report = check(data=lambda streams: 1 / 0)
    assert report["inputs"].outcome == "not run" and "builds on 'data', which failed" in report["inputs"].message
    assert report["labels"].outcome == "not run" and "builds on 'inputs', which was not run" in report["labels"].message
    assert report["move symmetric"].outcome == report["corruption"].outcome == "passed"


def test_two_faults_are_reported_at_once_and_raised_together():
    report = check(move=to_a_feasible_neighbour, settings=dict(epochs=-1))
    assert failed(report) == ["settings"], "the walk depends on the settings"
    report = check(move=to_a_feasible_neighbour, encoder=None)
    assert failed(report) == ["encoder", "move symmetric"]
    with pytest.raises(
        sp.TaskError, match=rf"(?s)'adding' fails 2 checks of {len(report)}:.*encoder: .*move symmetric: "
    ):
        report.raise_if_failed()


def test_an_error_names_the_line_of_the_user_s_own_code():
    def broken(rows, generator):
        return torch.cat([rows, rows[..., :1, :, :, None]])

    line = broken.__code__.co_firstlineno + 1
    assert f"test_check_task.py, line {line}, in broken, raised" in check(move=broken)["move"].message


# Odd, but not wrong


@pytest.mark.parametrize(
    "changes, name, part",
    [
        (dict(data=with_data(inputs=lambda d: 2 * d.train.inputs)), "inputs", "pixels go from 0 to 2, expected 0 to 1"),
        (dict(background=-1.0), "inputs", "background is -1.0, but pixels go from 0 to 1"),
        (
            dict(settings=dict(epochs=3, rule_delay=3)),
            "idle settings",
            "rule_delay is 3 of 3 epochs: only the anchors",
        ),
        (dict(settings=dict(views=True, views_delay=10)), "idle settings", "views never begin"),
        (dict(settings=dict(epochs=4, walk_every=4)), "idle settings", "the walk never takes a step"),
        (dict(augment=None), "idle settings", "no augmentation: all copies of an anchor are alike"),
        (dict(augment=None, settings=dict(views=True)), "idle settings", "no augmentation: views are the inputs"),
    ],
)
def test_what_is_odd_is_a_warning_and_no_failure(changes, name, part):
    report = check(**changes)
    assert report.ok and [r.name for r in report if r.outcome == "warning"] == [name], report
    assert part in report[name].message


def test_a_background_matters_only_where_the_default_augmentation_uses_it():
    assert check(background=-1.0, augment=lambda inputs, generator: inputs)["inputs"].outcome == "passed"


def test_a_method_without_episodes_misses_no_augmentation():
    still = dataclasses.replace(GOOD, augment=None)
    assert sp.check_task(still, method="supervised", preset="paper")["idle settings"].outcome == "passed"
    report = sp.check_task(still, method="supervised", preset="paper", views=True)
    assert report["idle settings"].message == "there is no augmentation: views are the inputs themselves"


def test_inputs_that_the_default_augmentation_does_not_know_are_warned_of():
    matrices = shown(lambda c: c.sum(-1), 2, [0, 1])
    made = matrices.data(None)
    wide = made._replace(
        train=made.train._replace(inputs=torch.rand(8, 2, 3, 6)),
        anchors=made.anchors._replace(inputs=torch.rand(2, 3, 6)),
    )
    assert "no augmentation" not in sp.check_task(matrices)["idle settings"].message
    found = sp.check_task(dataclasses.replace(matrices, data=lambda streams: wide))["idle settings"]
    assert found.outcome == "warning" and "there is no augmentation: all copies of an anchor are alike" in found.message


def test_balance_without_exact_targets_is_warned_of_where_it_is_asked_for():
    said = "balance is 1, but there are no exact targets, which alone are balanced"
    assert sp.check_task(GOOD, targets="cache", balance=1.0)["idle settings"].message == said
    assert sp.check_task(GOOD, targets="exact", balance=1.0)["idle settings"].outcome == "passed"
    assert sp.check_task(GOOD, targets="cache")["idle settings"].outcome == "passed", "the preset's, not the user's"


def test_a_pool_smaller_than_the_working_set_is_warned_of_where_it_is_used(uncompiled):
    small = dict(targets="kbest", kbest_pool=5)
    found = sp.check_task(uncompiled(sp.Task(SPACE, label)), **small)["idle settings"]
    assert found.outcome == "warning" and "at most kbest_pool = 5" in found.message
    assert sp.check_task(sp.Task(SPACE, label), **small)["idle settings"].outcome == "passed"


def test_a_slot_that_no_group_reads_and_a_concept_without_a_choice_are_warned_of():
    space = sp.ConceptSpace(sp.Group((0, 2), (3, 1)))
    message = sp.check_task(sp.Task(space, lambda c: c.sum(-1)))["space"].message
    assert "no group reads slot 1" in message and "a concept with one value" in message


def test_examples_that_show_what_has_no_prototype_are_warned_of():
    space = sp.ConceptSpace(sp.Group((0, 1), (2, 2), primitives=[(0, 0), (1, 1)]))
    concepts = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]])
    shown = sp.Examples(torch.rand(3, 2, 1, 16, 16), concepts.sum(-1), concepts)
    made = sp.Data(shown, sp.Anchors(torch.rand(2, 1, 16, 16), torch.arange(2)), {"test": shown})
    report = sp.check_task(sp.Task(space, lambda c: c.sum(-1), data=lambda streams: made))
    assert report["concepts"].outcome == "warning"
    assert "training set: example 1 has concepts [0, 0, 0, 1]" in report["concepts"].message
    assert "no primitive (1 of 3 examples)" in report["concepts"].message


def test_a_move_that_never_moves_is_warned_of_and_connects_nothing():
    report = check(move=lambda rows, generator: rows.clone())
    assert report["move"].outcome == "warning" and "stands still" in report["move"].message
    assert report["move symmetric"].outcome == "not applicable"
    assert failed(report) == ["move connected"]


# Tasks that have less, or other things


ROWS = {"rows", "move", "move label", "move symmetric", "move connected"}


@pytest.mark.parametrize("settings, unused", [(dict(targets="cache"), set()), ({}, ROWS)], ids=["cache", "default"])
def test_a_space_and_a_rule_are_enough(settings, unused):
    report = sp.check_task(sp.Task(SPACE, label), **settings)
    assert report.ok
    without = {r.name for r in report if r.outcome == "not applicable"}
    assert report["data"].outcome == "warning" and "`softpnet train` refuses it" in report["data"].message
    assert without == {
        "data repeatable", "inputs", "labels", "concepts", "anchors", "encoder", "training", "complete",
        "relabelings", "corruption", *unused,
    }  # fmt: skip


LARGE = sp.ConceptSpace(slots=13, values=3)


def test_the_cache_of_a_space_too_large_to_list_needs_rows_or_a_compiled_rule(uncompiled, monkeypatch):
    monkeypatch.setattr(moves, "PROPOSALS", 200_000)  # a fifth of the usual ones, still enough to tell
    task = sp.Task(LARGE, lambda c: c.sum(-1).clamp_max(2))
    refused = sp.check_task(uncompiled(task), targets="cache")
    assert failed(refused) == ["rows"] and "targets='kbest'" in refused["rows"].message
    report = sp.check_task(uncompiled(task), targets="kbest")
    assert report.ok and report["rows"].outcome == report["move"].outcome == "not applicable"
    drawn = sp.check_task(task, targets="cache", cache_rows=100)
    assert drawn.ok and {drawn[name].outcome for name in ("move label", "move symmetric", "move connected")} == {
        "passed"
    }
    # of sums 0, 1 and more there are 1, 13 and very many
    assert drawn["rows"].message == "114 distinct rows of 3 labels, each verified by the rule"


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("missing, outcome", [(0, "passed"), (1, "failed")])
def test_completeness_is_counted_or_in_a_space_too_large_held_against_neighbours(
    missing, outcome, counted, monkeypatch
):
    if not counted:
        monkeypatch.setattr(compiling, "TABLE", 1_000)
        monkeypatch.setattr(rows_of_a_task, "TABLE", 1_000)
    few = torch.cat([torch.zeros(1, 13, dtype=torch.int64), torch.eye(13, dtype=torch.int64)])  # sums 0 and 1

    def small(c):
        return c.sum(-1).clamp_max(2)

    rows = few[: len(few) - missing]
    task = sp.Task(LARGE, small, rows=lambda generator: sp.Rows(rows, complete=torch.tensor([0, 1])))
    result = sp.check_task(task, targets="cache")["complete"]
    assert result.outcome == outcome, result
    if outcome == "passed":
        assert ("as many rows as the rule counts" if counted else "too many to list, but none") in result.message
    else:
        assert f"complete for label 1, but {few[-1].tolist()} has it too and is not among them" in result.message
        assert ("(1 of 13 are missing)" if counted else "that were tried are missing") in result.message


def test_a_rare_label_that_k_best_may_not_find_is_a_warning_where_nothing_is_compiled(uncompiled):

    def rare(streams):
        made = data(streams)
        inputs = made.train.inputs[:, :1].expand(-1, 13, -1, -1, -1)
        train = sp.Examples(inputs, torch.full((20,), 26))
        return made._replace(train=train, tests={"test": train})

    task = sp.Task(LARGE, lambda c: c.sum(-1), data=rare, encoder=encoder, settings=dict(targets="kbest", epochs=1))
    report = sp.check_task(uncompiled(task))
    assert report.ok and report["training"].outcome == "warning" and " 26 (20 times" in report["training"].message
    assert sp.check_task(task)["training"].outcome == "passed"


def test_label_vectors_and_groups_pass_every_check():
    space = sp.ConceptSpace(sp.Group((0,), 3, name="left"), sp.Group((1,), (2, 2), name="right"))

    def vector(c):
        return torch.stack([c[..., 0], c[..., 1] ^ c[..., 2]], dim=-1)

    def grouped(streams):
        def some(count, generator):
            concepts = (torch.rand(count, 3, generator=generator) * torch.tensor([3, 2, 2])).long()
            seen = torch.stack([concepts[:, 0], 2 * concepts[:, 1] + concepts[:, 2]], dim=-1)
            return sp.Examples(picture(seen), vector(concepts), concepts)

        anchors = {
            name: sp.Anchors(picture(torch.arange(p)), torch.arange(p)) for name, p in (("left", 3), ("right", 4))
        }
        return sp.Data(some(20, streams("train")), anchors, {"test": some(10, streams("test"))})

    report = sp.check_task(sp.Task(space, vector, data=grouped, encoder=encoder), targets="cache")
    assert report.ok and report["move connected"].outcome == report["training"].outcome == "passed", report
    refused = sp.check_task(sp.Task(space, vector, corrupt=sp.Corruption(0, 1, to_zero)), targets="cache")
    assert failed(refused) == ["rows"] and "corruption is for integer labels only" in refused["rows"].message


# The report, and manners


def test_the_report_reads_as_a_table_with_a_sum_at_the_end():
    report = check(encoder=None)
    lines = str(report).splitlines()
    assert len(lines) == len(CHECKS) + 1 and repr(report) == str(report)
    assert any(line.split(maxsplit=2)[:2] == ["failed", "encoder"] for line in lines)
    assert lines[-1] == f"task 'adding': {len(CHECKS) - 2} passed, 1 failed, 1 not run"
    with pytest.raises(KeyError, match=r"no check is named 'shape'; the checks are space, settings"):
        report["shape"]


def test_what_is_no_task_is_refused():
    with pytest.raises(sp.InputError, match="was given ConceptSpace, expected a softpnet"):
        sp.check_task(SPACE)


def test_checking_leaves_the_global_generator_alone_and_says_the_same_twice():
    before = torch.random.get_rng_state()
    assert str(check()) == str(check())
    check(data=with_data(inputs=lambda d: torch.rand(d.train.inputs.shape)))
    assert torch.equal(before, torch.random.get_rng_state())


def test_ctrl_c_is_no_failure_of_the_task():
    def interrupted(streams):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(data=interrupted)
