"""Facts of the three tasks."""

import itertools
import re

import pytest
import torch

from softpnet.data import mnist
from softpnet.data.digits import Digits
from softpnet.errors import InputError, SoftPNetError
from softpnet.task.concepts import ConceptSpace
from softpnet.task.settings import Settings
from softpnet.tasks import kand_logic, load, mnist_evenodd, visual_sudoku
from softpnet.training.streams import Streams


def test_there_are_288_valid_boards():
    boards = visual_sudoku.boards()
    assert boards.shape == (288, 16) and len(boards.unique(dim=0)) == 288
    for board in boards.view(288, 4, 4).tolist():
        lines = [*board, *zip(*board, strict=True)]
        blocks = [[board[r + i][c + j] for i in (0, 1) for j in (0, 1)] for r in (0, 2) for c in (0, 2)]
        assert all(sorted(unit) == [0, 1, 2, 3] for unit in [*lines, *blocks])


def test_no_single_change_keeps_a_board_valid():
    boards = visual_sudoku.boards()
    for cell, step in itertools.product(range(16), (1, 2, 3)):
        changed = boards.clone()
        changed[:, cell] = (changed[:, cell] + step) % 4
        assert (visual_sudoku.label(changed) == 0).all()


def test_diagonal_blocks_determine_the_board_and_diagonal_swaps_lead_nowhere():
    boards = visual_sudoku.boards()
    assert len(boards[:, visual_sudoku.KEPT].unique(dim=0)) == 288
    kept = {tuple(row) for row in boards[:, visual_sudoku.KEPT].tolist()}
    diagonals = [(0, 3), (1, 2), (4, 7), (5, 6)]  # positions among the kept cells
    for row, (a, b) in itertools.product(kept, diagonals):
        swapped = list(row)
        swapped[a], swapped[b] = swapped[b], swapped[a]
        assert tuple(swapped) not in kept


@pytest.mark.parametrize("name", ["visual_sudoku", "kand_logic"])
def test_corruption_is_always_invalid(name, generator):
    task = load(name)
    valid = task.rows(generator).rows
    valid = valid[task.rule(valid) == 1]
    rows = valid[torch.randint(len(valid), (3000, 4), generator=generator)]
    corrupted = task.corrupt.apply(rows, generator)
    assert corrupted.shape == rows.shape and (task.rule(corrupted) == 0).all()
    changes = (corrupted != rows).sum(-1)
    assert changes.min() == 1 and changes.max() <= 2


def test_a_scene_that_agrees_in_both_attributes_needs_two_switches(generator):
    scene = torch.zeros(200, 18, dtype=torch.int64)  # nine red squares
    corrupted = kand_logic.corrupt(scene, generator)
    assert (kand_logic.label(corrupted) == 0).all() and ((corrupted != scene).sum(-1) == 2).all()


def test_sudoku_corruption_repeats_a_value_of_a_unit_in_each_kind_of_unit(generator):
    board = visual_sudoku.boards()[:1].expand(5000, -1)
    corrupted = visual_sudoku.corrupt(board, generator)
    assert ((corrupted != board).sum(-1) == 1).all()
    assert len(corrupted.unique(dim=0)) == 48  # 16 cells, each with three other values


def test_there_are_202242825_valid_scenes():
    """Counted by the factorised way: one attribute at a time, then inclusion and exclusion."""
    per_attribute = torch.cartesian_prod(*[torch.arange(3)] * 9)  # [19683, 9]: one attribute of all nine objects
    scenes = torch.stack([per_attribute, per_attribute], dim=-1).flatten(1)
    agree = int(kand_logic.agreements(scenes)[:, 0].sum())
    every = 3**9
    assert agree == 6075
    assert every**2 - (every - agree) ** 2 == 202_242_825


def test_sampled_scenes_have_the_exact_class_shares(generator):
    """Valid scenes fall into classes by what agrees; rejection must hit their exact probabilities."""
    rows = kand_logic.sample(60_000, 1, generator)
    assert (kand_logic.label(rows) == 1).all()
    shape, colour = kand_logic.agreements(rows).unbind(-1)
    one, other = 6075, 3**9 - 6075
    exact = torch.tensor([one * one, one * other, other * one], dtype=torch.double) / 202_242_825
    found = torch.stack([shape & colour, shape & ~colour, ~shape & colour]).double().mean(1)
    chi_square = (60_000 * (found - exact).square() / exact).sum()
    assert chi_square < 16  # two degrees of freedom
    invalid = kand_logic.sample(1000, 0, generator)
    assert (kand_logic.label(invalid) == 0).all()


def test_scene_labels_follow_the_definition(generator):
    def kind(values):
        return {1: "equal", 2: "two", 3: "distinct"}[len(set(values))]

    rows = torch.randint(3, (500, 18), generator=generator)
    for row, found in zip(rows.view(-1, 3, 3, 2).tolist(), kand_logic.label(rows).tolist(), strict=True):
        types = [{kind([thing[a] for thing in figure]) for figure in row} for a in (0, 1)]
        assert found == int(any(len(kinds) == 1 for kinds in types))


def test_two_anchored_digits_leave_only_the_identity():
    """35 shortcuts keep every training sum; anchoring one even and one odd digit rules them all out."""
    support = mnist_evenodd.SUPPORT.tolist()
    keep = {}
    for parity in (0, 1):
        digits = [d for d in range(10) if any(d in pair for pair in support) and d % 2 == parity]
        pairs = [pair for pair in support if pair[0] % 2 == parity]
        keep[parity] = [
            dict(zip(digits, values, strict=True))
            for values in itertools.product(range(10), repeat=len(digits))
            if all(values[digits.index(a)] + values[digits.index(b)] == a + b for a, b in pairs)
        ]
    assert len(keep[0]) * len(keep[1]) == 36
    for maps in keep.values():
        for digit in maps[0]:
            fixed = [m for m in maps if m[digit] == digit]
            assert fixed == [{d: d for d in maps[0]}]


def test_evenodd_data_is_built_as_in_the_paper():
    data = load("mnist_evenodd").data(Streams(0))
    assert data.train.inputs.shape == (6720, 2, 1, 28, 28)
    pairs, counts = data.train.concepts.unique(dim=0, return_counts=True)
    assert len(pairs) == 16 and (counts == 420).all()
    assert data.train.labels.unique().tolist() == [6, 10, 12]
    test = data.tests["test"].concepts
    assert len(test) == 960 and (test.sum(1) % 2 == 1).all() and len(test.unique(dim=0)) == 50
    assert len(data.tests["in_distribution"].labels) == 960
    other = data.tests["out_of_distribution"].concepts
    assert len(other) == 5040 and len(other.unique(dim=0)) == 84


def test_evenodd_images_show_their_digits_and_anchors_are_the_first_of_each_class():
    from softpnet.data import mnist

    data, train = load("mnist_evenodd").data(Streams(0)), mnist.load("train")
    first = [1, 3, 5, 7, 2, 0, 13, 15, 17, 4]
    assert torch.equal(data.anchors.inputs, train.images[first])
    table = {image.numpy().tobytes(): int(label) for image, label in zip(train.images, train.labels, strict=True)}
    for images, digits in zip(data.train.inputs[::97], data.train.concepts[::97], strict=True):
        assert [table[image.numpy().tobytes()] for image in images] == digits.tolist()


def test_sudoku_data_is_half_valid_and_valid_only_drops_the_rest():
    data = load("visual_sudoku").data(Streams(0))
    assert data.train.inputs.shape == (300, 16, 1, 28, 28) and data.train.labels.sum() == 150
    assert len(data.tests["test"].labels) == 1000 and data.tests["test"].labels.sum() == 500
    assert torch.equal(visual_sudoku.label(data.train.concepts), data.train.labels)
    only = load("visual_sudoku", {"valid_only": "true"}).data(Streams(0))
    assert only.train.labels.tolist() == [1] * 150
    assert torch.equal(only.anchors.inputs, data.anchors.inputs)


def test_the_train_support_cache_holds_only_the_16_training_pairs(generator):
    rows = load("mnist_evenodd", {"support": "train"}).rows(generator)
    assert len(rows.rows) == 16 and len(rows.complete) == 0


def test_kand_anchors_are_the_first_of_each_primitive():
    data = load("kand_logic", {"train": 40, "test": 10}).data(Streams(0))
    ids = (3 * data.train.concepts.view(-1, 2)[:, 0] + data.train.concepts.view(-1, 2)[:, 1]).tolist()
    images = data.train.inputs.flatten(0, 1)
    for primitive in range(9):
        assert torch.equal(data.anchors.inputs[primitive], images[ids.index(primitive)])


def test_methods_and_options_see_the_same_data_for_the_same_seed():
    one = load("kand_logic", {"train": 20, "test": 10}).data(Streams(5))
    two = load("kand_logic", {"train": 20, "test": 10}).data(Streams(5))
    other = load("kand_logic", {"train": 20, "test": 10}).data(Streams(6))
    assert torch.equal(one.train.inputs, two.train.inputs)
    assert not torch.equal(one.train.concepts, other.train.concepts)


def test_validation_splits_hold_no_test_image():
    from softpnet.data import mnist
    from softpnet.data.digits import pools

    held = pools("validation")
    train = mnist.load("train")
    assert torch.equal(torch.cat([held.train.images, held.test.images]), train.images)


def test_spaces_are_what_the_tasks_say():
    assert mnist_evenodd.SPACE.sizes == (10, 10)
    assert visual_sudoku.SPACE.sizes == (4,) * 16
    assert kand_logic.SPACE.sizes == (3,) * 18 and isinstance(kand_logic.SPACE, ConceptSpace)
    assert kand_logic.SPACE.groups[0].primitive_names[5] == "circle blue"


PAPER = {
    "mnist_evenodd": dict(
        epochs=10, working_set=20, draw_factor=10, copies=3, rule_weight=5.0, target="best", walk_every=1
    ),
    "visual_sudoku": dict(
        epochs=20, working_set=100, draw_factor=10, copies=9, rule_weight=10.0, target="soft", walk_every=2
    ),
    "kand_logic": dict(
        epochs=20,
        working_set=20,
        draw_factor=1000,
        copies=3,
        rule_weight=1.0,
        rule_delay=3,
        rule_ramp=5,
        target="soft",
        walk_every=1,
        halve_every=3,
        weight_decay=1e-4,
    ),
}
EVERYWHERE = dict(batch_size=64, learning_rate=1e-3, episodes=50, gamma=1.0, gamma_decay=0.95, gamma_floor=0.01)


@pytest.mark.parametrize("name", PAPER)
def test_settings_are_those_of_the_paper(name):
    settings = Settings(**load(name).settings_in("paper"))
    for key, value in (PAPER[name] | EVERYWHERE).items():
        assert getattr(settings, key) == value, key


def test_backgrounds_are_black_for_digits_and_white_for_scenes():
    assert [load(name).background for name in PAPER] == [0.0, 0.0, 1.0]


def test_too_few_scenes_for_an_anchor_of_each_primitive_are_refused():
    task = load("kand_logic", {"train": 1, "test": 2})
    with pytest.raises(InputError, match=r"no training scene shows a .*; make option train larger"):
        for seed in range(10):
            task.data(Streams(seed))


def test_a_number_of_pairs_that_does_not_divide_is_refused():
    with pytest.raises(InputError, match="train is 100, expected a multiple of the 16"):
        load("mnist_evenodd", {"train": "100"})


def test_mnist_can_come_from_a_folder_named_by_an_option(tmp_path):
    with pytest.raises(SoftPNetError, match=re.escape(str(tmp_path))):
        load("visual_sudoku", {"mnist": str(tmp_path)}).data(Streams(0))


@pytest.mark.parametrize("name", ["mnist_evenodd", "visual_sudoku", "kand_logic"])
def test_more_anchors_show_their_values_and_leave_all_else_as_it_was(name):
    small = {"kand_logic": {"train": 40, "test": 2, "anchors": 3}}.get(name, {"train": 32, "anchors": 3})
    one = load(name, small | {"anchors": 1}).data(Streams(0))
    more = load(name, small).data(Streams(0))
    assert torch.equal(one.train.inputs, more.train.inputs) and torch.equal(
        one.tests["test"].inputs, more.tests["test"].inputs
    )
    assert more.anchors.concepts.bincount().tolist() == [3] * len(one.anchors.inputs)
    assert len(more.anchors.inputs.unique(dim=0)) == 3 * len(one.anchors.inputs)
    first = (more.anchors.concepts == one.anchors.concepts[:, None]).int().argmax(1)
    assert torch.equal(more.anchors.inputs[first], one.anchors.inputs)


def test_evenodd_anchors_of_each_digit_are_its_first_images_and_none_means_two_digits_alone():
    images, labels = mnist.load("train")
    shown = load("mnist_evenodd", {"train": 16, "anchors": 3}).data(Streams(0)).anchors
    sevens = images[labels == 7][:3]
    assert torch.equal(shown.inputs[shown.concepts == 7], sevens)
    none = load("mnist_evenodd", {"train": 16, "anchors": 0}).data(Streams(0)).anchors
    assert none.concepts.tolist() == [0, 1] and torch.equal(none.inputs, shown.inputs[[0, 3]])


def test_too_few_objects_for_so_many_anchors_of_each_primitive_are_refused():
    with pytest.raises(
        InputError, match=r"training scenes show a .* \d+ times, expected 30 for its anchors; make option train"
    ):
        load("kand_logic", {"train": 20, "test": 2, "anchors": 30}).data(Streams(0))


def test_more_anchors_than_images_of_a_digit_are_refused():
    digits = Digits(torch.zeros(3, 1, 2, 2), torch.tensor([0, 0, 1]))
    with pytest.raises(InputError, match="2 images are wanted of each digit, but of one there are 1"):
        digits.first(torch.arange(2), 2)
