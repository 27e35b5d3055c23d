"""The figures: what is in them is what was learned, seen and weighed, and the same inputs give the same bytes."""

import copy
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from softpnet import Anchors, ConceptSpace, Data, Examples, Group, InputError, Learner, Settings, Task
from softpnet.experiments.anchors import ANCHORS
from softpnet.experiments.rows import SEEDS, TABLES, Row
from softpnet.report import accuracy, anchor_curves, canvas, figures, filmstrip, pipeline, samples, seeds
from softpnet.report.summary import Summary, summarise
from softpnet.task.task import Corruption

GENERATOR = torch.Generator().manual_seed(0)
CONCEPTS = torch.randint(3, (24, 2), generator=GENERATOR)
SHADES = torch.linspace(0.1, 0.9, 3)[:, None, None, None].expand(3, 1, 8, 8)  # what each value looks like
SETTINGS = dict(epochs=3, batch_size=8, warmup_steps=2, episodes=3, working_set=2, targets="cache")


def pictured(concepts):
    return SHADES[concepts] + 0.1 * torch.rand(*concepts.shape, 1, 8, 8, generator=torch.Generator().manual_seed(1))


EXAMPLES = Examples(pictured(CONCEPTS), CONCEPTS.sum(1), CONCEPTS)
DATA = Data(EXAMPLES, Anchors(SHADES, torch.arange(3)), {"test": EXAMPLES})


def adding(**changes):
    given = {"space": ConceptSpace(slots=2, values=3), "rule": lambda c: c.sum(-1), "settings": SETTINGS}
    return Task(**given | {"name": "adding", "data": lambda streams: DATA} | changes)


def flat(channels):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8))


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Few pixels, for speed."""
    monkeypatch.setattr(canvas, "DPI", 60)


def words(path):
    """The texts of a picture: matplotlib repeats them as comments beside their outlines."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.parse(path.with_suffix(".svg"), parser)
    return [line.strip() for e in tree.iter() if e.tag is ElementTree.Comment for line in (e.text or "").splitlines()]


# Accuracy over epochs

WATCHED = [{"concept_accuracy": c, "label_accuracy": y} for c, y in ((0.3, 0.5), (0.6, 0.7), (0.9, 0.82))]


def panel(epochs):
    axes = Figure().add_axes((0, 0, 1, 1))
    accuracy._panel(axes, "run", epochs)
    return axes


def test_the_panel_has_both_accuracies_in_percent_and_shades_exactly_the_gap():
    axes = panel(WATCHED)
    assert {line.get_label(): line.get_ydata().tolist() for line in axes.lines} == {
        "concept": [30, 60, 90], "label": [50, 70, 82]}  # fmt: skip
    (shade,) = axes.collections
    corners = {(x, round(y)) for x, y in shade.get_paths()[0].vertices.tolist()}
    assert {(1, 30), (1, 50), (3, 90), (3, 82)} <= corners
    assert axes.get_title() == "run\ngap at the end −8.0 points"
    assert (axes.get_ylim()[0], round(axes.get_ylim()[1])) == (20, 102)  # 30 is the least that is shown
    one, other = axes.lines
    assert one.get_linestyle() != other.get_linestyle() and one.get_marker() != other.get_marker()


def test_epochs_that_were_not_watched_are_gaps_and_unknown_concepts_leave_one_line():
    axes = panel([{"label_accuracy": 0.5, "concept_accuracy": 0.4}, {"loss": 1.0}, {"label_accuracy": None}])
    assert [math.isnan(y) for y in axes.lines[0].get_ydata()] == [False, True, True]
    assert "+10.0" in axes.get_title()
    alone = panel([{"label_accuracy": 0.99}])
    assert alone.get_ylim()[0] == 90 and [tick for tick in alone.get_xticks() if 0.5 < tick < 1.5] == [1]
    assert len(alone.lines) == 1 and not alone.collections and alone.get_title() == "run"


def test_a_run_that_was_not_watched_is_named(tmp_path):
    with pytest.raises(InputError, match="no accuracy in the 1 epochs of 'plain'; train with --watch"):
        accuracy.accuracies(tmp_path / "a.png", {"seen": WATCHED, "plain": [{"loss": 1.0}]})


# Every seed


def summary(task, title, **values):
    count = len(next(iter(values.values())))
    return Summary(Row(title, title, task), [*range(count)], {f"{name}_accuracy": v for name, v in values.items()}, [])


def test_every_seed_is_a_mark_at_its_accuracy_in_the_line_of_its_row():
    axes = Figure().add_axes((0, 0, 1, 1))
    rows = [summary("a", "one", concept=[30.0, 99.0], label=[90.0, 97.0]), summary("a", "two", label=[50.0])]
    seeds._panel(axes, rows)
    found = [
        (line.get_marker(), round(y), x)
        for line in axes.lines
        if line.get_linewidth() == 0
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]
    assert found == [("o", 0, 30.0), ("o", 0, 99.0), ("s", 0, 90.0), ("s", 0, 97.0), ("s", 1, 50.0)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert [text.get_text().split() for text in axes.texts] == [["64.50", "93.50"], ["50.00"]]


def test_half_of_the_error_is_the_same_step_along_the_axis():
    places = seeds._place([80, 90, 95])
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.01)
    assert seeds._accuracy(seeds._place(99.9)) == pytest.approx(99.9)


def test_tasks_stand_in_panels_of_their_own_and_the_marks_are_explained_once(tmp_path):
    given = [summary(row[0], row, concept=[30.0], label=[90.0]) for row in ("a, one", "b, one", "a, two")]
    seeds.seed_marks(tmp_path / "seeds.png", given)
    said = words(tmp_path / "seeds.png")
    assert [word for word in said if word[1:] in (", one", ", two")] == ["a, one", "a, two", "b, one"]
    assert [said.count(word) for word in ("concept", "label", "100")] == [1, 1, 1]
    assert said.count("mean of seeds, %") == said.count("concept   label") == 1  # over the first panel's numbers


def test_names_take_the_room_that_the_longest_one_needs(monkeypatch, tmp_path):
    lefts = []
    place = seeds._panel
    monkeypatch.setattr(seeds, "_panel", lambda axes, rows: (lefts.append(axes.get_position().x0), place(axes, rows)))
    for title in ("a, one", "a, one with a name that is long"):
        seeds.seed_marks(tmp_path / "seeds.png", [summary("a", title, concept=[30.0], label=[90.0])])
    assert lefts[0] < 0.1 < 0.25 < lefts[1]


def test_the_picture_of_the_readme_has_the_means_of_the_records(tmp_path):
    root = Path(__file__).parents[2]
    seeds.seed_marks(tmp_path / "seeds.png", summarise(TABLES["short"], SEEDS, root / "results"))
    made = words(tmp_path / "seeds.png")
    assert made and made == words(root / "docs/figures/seeds.png")


# Accuracy against the number of anchors


def with_anchors(name, **values):
    row = next(row for row in ANCHORS if row.name == name)
    values = {f"{metric}_accuracy": found for metric, found in values.items()}
    return Summary(row, [*range(len(next(iter(values.values()))))], values, [])


def test_accuracy_is_drawn_against_anchors_and_where_none_is_refused_the_panel_says_so(tmp_path, monkeypatch):
    given = [
        with_anchors("anchors-sudoku-10", concept=[90.0], label=[80.0]),
        with_anchors("sudoku-100-best", concept=[70.0, 60.0], label=[50.0, 40.0]),
    ]
    drawn = []
    panel = anchor_curves._panel
    monkeypatch.setattr(anchor_curves, "_panel", lambda axes, *of: (panel(axes, *of), drawn.append(axes)))
    anchor_curves.anchor_curves(tmp_path / "a.png", given)
    (axes,) = drawn
    means, marks = axes.lines[:2]
    assert (list(means.get_xdata()), list(means.get_ydata())) == ([1, 4], [65, 90])  # places of 1 and 10
    assert (list(marks.get_xdata()), list(marks.get_ydata())) == ([1, 1, 4], [70, 60, 90])
    said = words(tmp_path / "a.png")
    assert {"100 boards", "anchors per value", "refused:", "0", "10"} <= set(said)


def test_a_panel_of_a_task_that_may_do_without_anchors_says_nothing_of_refusal(tmp_path):
    given = [with_anchors("anchors-evenodd-0", concept=[50.0], label=[40.0])]
    anchor_curves.anchor_curves(tmp_path / "a.png", given)
    assert "1,600 pairs" in words(tmp_path / "a.png") and "refused:" not in words(tmp_path / "a.png")


def test_rows_that_say_nothing_of_anchors_are_not_drawn_against_them(tmp_path):
    with pytest.raises(InputError, match="none of these rows says how many anchors"):
        anchor_curves.anchor_curves(tmp_path / "a.png", [summary("task", "row", concept=[1.0])])


# Data samples


def test_examples_are_taken_label_by_label():
    assert samples.in_turn(torch.tensor([5, 5, 5, 2, 2, 7]), 5) == [0, 3, 5, 1, 4]
    assert samples.in_turn(torch.tensor([[0, 1], [0, 1], [1, 1]]), 2) == [0, 2]


def test_a_sample_shows_label_and_concepts_of_every_slot_in_all_groups(tmp_path):
    colour = Group([0, 1], 2, name="colour", value_names=[["red", "blue"]])
    shape = Group([1], (2, 2), name="shape", value_names=[["disc", "bar"], ["big", "small"]])
    space = ConceptSpace(colour, shape)
    assert samples.slot_names(space, torch.tensor([0, 1, 1, 0])) == ["red", "blue\nbar\nbig"]
    examples = Examples(torch.rand(1, 2, 5, 8, 8), torch.tensor([4]), torch.tensor([[0, 1, 1, 0]]))
    samples.samples(tmp_path / "s.png", space, examples, "mine")
    assert {"mine", "label 4", "red", "blue", "bar", "big"} <= set(words(tmp_path / "s.png"))
    with pytest.raises(InputError, match="no true concepts"):
        samples.samples(tmp_path / "s.png", space, examples._replace(concepts=None))


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (6, 3), (8, 4), (9, 3), (16, 4)])
def test_images_are_laid_out_nearly_square(count, columns):
    assert canvas.columns_of(count) == columns


# The filmstrip


def film(example=0, task=None, **settings):
    task = task or adding()
    camera, states = filmstrip.Camera(task, EXAMPLES, example), []

    def watch(model, state):
        states.append((copy.deepcopy(state), model))
        return camera.look(model, state)

    model = Learner(task, preset="paper", encoder=flat, threads=1, **settings)
    model.fit(EXAMPLES.inputs, EXAMPLES.labels, DATA.anchors, watch=watch)
    return camera, states


def test_a_frame_is_the_working_set_of_that_epoch_with_the_weights_of_that_model():
    example = int((EXAMPLES.labels == 2).nonzero()[0])  # three rows give 2, of which two are kept
    camera, states = film(example, target="soft")
    assert [frame.epoch for frame in camera.frames] == [1, 2, 3]
    for frame, (state, model) in zip(camera.frames, states, strict=True):
        kept = {tuple(row) for row in state.rows[example].tolist()}
        assert {tuple(row) for row in frame.rows.tolist()} == kept and len(frame.rows) == len(kept)
        p = model.module.log_p(EXAMPLES.inputs[example][None])[0].detach().double().exp()  # [k, h]
        each = torch.stack([p[0, a] * p[1, b] for a, b in frame.rows.tolist()]) ** (1 / frame.gamma)
        torch.testing.assert_close(frame.weights.double(), each / each.sum(), rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(frame.scores.double(), each.log() * frame.gamma, rtol=1e-3, atol=1e-4)
        assert frame.weights.diff().le(0).all()
    assert [frame.gamma for frame in camera.frames] == pytest.approx([1.0, 0.95, 0.95**2])


def test_with_the_best_candidate_as_target_all_weight_is_on_it():
    camera, _ = film(int((EXAMPLES.labels == 2).nonzero()[0]), target="best")
    assert all(frame.weights.tolist() == [1.0, 0.0][: len(frame.rows)] for frame in camera.frames)


def test_what_keeps_no_working_set_cannot_be_filmed():
    with pytest.raises(InputError, match="targets='kbest' keeps no working sets to film"):
        film(targets="kbest")
    task = adding(corrupt=Corruption(int(EXAMPLES.labels[0]), 1, lambda rows, generator: rows))
    with pytest.raises(InputError, match=r"example 0 has label \d, whose candidates are corrupted"):
        filmstrip.Camera(task, EXAMPLES, 0)
    with pytest.raises(InputError, match="nothing was filmed"):
        filmstrip.filmstrip("f.png", filmstrip.Camera(adding(), EXAMPLES), [SHADES], CONCEPTS[0])


def test_the_strip_says_where_the_true_assignment_stands_and_strikes_out_wrong_slots(tmp_path):
    camera = filmstrip.Camera(adding(), EXAMPLES)
    rows = torch.tensor([[0, 2], [1, 1], [2, 0]])
    weights = torch.tensor([0.7, 0.297, 0.003])
    scores = torch.tensor([-1.25, -2.0, -9.0])
    camera.frames = [
        filmstrip.Frame(1, 1.0, rows, weights, scores),
        filmstrip.Frame(2, 0.5, rows[1:], weights[1:], scores[1:]),
    ]
    filmstrip.filmstrip(tmp_path / "f.png", camera, [SHADES], torch.tensor([0, 2]))
    found = words(tmp_path / "f.png")
    assert {"epoch 1", "γ = 1.00", "true: no. 1 of 3", "log p = −9.0", "70 %", "&lt;1 %"} <= set(found)
    assert {"epoch 2", "γ = 0.50", "true: not in it"} <= set(found)

    space = camera.task.space
    assert filmstrip.wrong_slots(space, rows[1], rows[0]) == [0, 1]
    assert filmstrip.wrong_slots(space, torch.tensor([0, 1]), rows[0]) == [1]
    seen = filmstrip.pictures_of(space, rows[0], [SHADES])
    assert torch.equal(seen[0], SHADES[0]) and torch.equal(seen[1], SHADES[2])


def test_a_long_film_keeps_its_first_and_last_frame():
    frames = [filmstrip.Frame(i, 1.0, CONCEPTS[:1], torch.ones(1), torch.zeros(1)) for i in range(20)]
    chosen = [frame.epoch for frame in filmstrip.spread(frames, 6)]
    assert chosen == [0, 4, 8, 11, 15, 19]


# The pipeline


def test_texts_of_the_pipeline_stay_in_their_boxes(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(pipeline, "_draw", lambda axes, box, draw=pipeline._draw: drawn.append((axes, draw(axes, box))))
    pipeline.pipeline(tmp_path / "p.png")
    axes = drawn[0][0]
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    boxes = [patch.get_window_extent(renderer) for patch in axes.patches]
    said = {words for box in pipeline.BOXES.values() for words in (box.title, box.text)}
    texts = [text for text in axes.texts if text.get_text() in said]
    assert len(boxes) == len(pipeline.BOXES) and len(texts) == 2 * len(boxes)
    for text in texts:
        inside = text.get_window_extent(renderer)
        assert any(box.contains(*inside.min) and box.contains(*inside.max) for box in boxes), text.get_text()


# All of them

TASK_FILE = """
import torch
from softpnet import Anchors, ConceptSpace, Data, Examples, Settings, Task

def data(streams):
    concepts = torch.randint(3, (24, 2), generator=streams("train data"))
    looks = torch.eye(3).repeat_interleave(24, 1)[:, :64].reshape(3, 1, 8, 8)
    examples = Examples(looks[concepts], concepts.sum(1), concepts)
    return Data(examples, Anchors(looks, torch.arange(3)), {"test": examples})

def encoder(channels):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8))

task = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="tiny", data=data, encoder=encoder)
"""


def test_all_figures_are_drawn_in_both_formats_and_again_with_the_same_bytes(tmp_path, monkeypatch):
    (tmp_path / "tiny.py").write_text(TASK_FILE)
    monkeypatch.setattr(figures.tasks, "names", lambda: [])
    settings = {"epochs": 2, "batch_size": 8, "warmup_steps": 1, "episodes": 2, "working_set": 2, "targets": "cache"}
    run = figures.SmallRun(str(tmp_path / "tiny.py"), {}, settings, watched=7, filmed=0)
    threads = torch.get_num_threads()
    first, second = (figures.draw_all(tmp_path / name, [run]) for name in ("one", "two"))
    assert torch.get_num_threads() == threads
    of_run = [f"tiny/{name}" for name in ("accuracy", "curves", "filmstrip", "learned", "sample")]
    expected = sorted(f"{name}.{kind}" for name in ["accuracy", "pipeline", *of_run] for kind in ("png", "svg"))
    assert sorted(path.relative_to(tmp_path / "one").as_posix() for path in first) == expected
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
        if one.suffix == ".png":
            with Image.open(one) as image:
                assert image.format == "PNG" and image.width > 100
    assert "14 of 14 test images, by true concept" in words(tmp_path / "one/tiny/learned.png")


def test_every_run_is_of_a_built_in_task_whose_filmed_example_keeps_a_working_set():
    for run in figures.RUNS:
        task = figures.tasks.load(run.task, run.options)
        Settings().override(**task.settings_in("paper") | run.settings)
        assert run.filmed is None or Settings().override(**task.settings_in("paper") | run.settings).targets == "cache"


def test_ctrl_c_in_a_small_training_ends_the_drawing(tmp_path, monkeypatch):
    """`fit` returns when it is stopped, and what it leaves is not to be drawn."""

    def stopped(model, *args, **kwargs):
        model.interrupted = True
        return model

    monkeypatch.setattr(figures.Learner, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        figures.draw_all(tmp_path, [figures.SmallRun("kand_logic", {"train": "8", "test": "4", "cached": "50"})])
    assert not (tmp_path / "accuracy.png").exists()
