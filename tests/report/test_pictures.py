"""Pictures: valid files, same bytes for same inputs, nothing global touched, odd inputs drawn or refused."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from PIL import Image

from softpnet.report import canvas, pictures
from softpnet.report.pictures import curves, learned
from softpnet.report.plane import flattened


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pixels, for speed."""
    monkeypatch.setattr(canvas, "DPI", 60)


def run(primitives: int = 3, images: int = 40, size: int = 8, channels: int = 1, noise: float = 0.5) -> dict[str, Any]:
    """What `learned` needs, with images scattered around their prototypes."""
    g = torch.Generator().manual_seed(0)
    prototypes = torch.randn(primitives, size, generator=g)
    true = torch.randint(primitives, (images,), generator=g)
    embeddings = prototypes[true] + noise * torch.randn(images, size, generator=g)
    return {
        "anchors": torch.rand(primitives, channels, 6, 6, generator=g),
        "names": [str(i) for i in range(primitives)],
        "prototypes": prototypes,
        "embeddings": embeddings,
        "true": true,
        "predicted": torch.cdist(embeddings, prototypes).argmin(1),
    }


EPOCHS: list[dict[str, float | None]] = [
    {"epoch": 1, "loss_proto": 1.0, "loss_kl": 0.5, "gamma": 1.0, "rule_weight": 0.0, "acceptance": None},
    {"epoch": 2, "loss_proto": 0.8, "loss_kl": float("nan"), "gamma": 2.0, "rule_weight": 0.5, "acceptance": 0.4},
    {"epoch": 3, "loss_proto": 0.7, "loss_kl": 0.2, "gamma": 3.0, "rule_weight": 1.0},
]


def words(path: Path) -> str:
    """The texts of a picture, a line each: matplotlib repeats them as comments beside their outlines."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.parse(path.with_suffix(".svg"), parser)
    return "\n".join((e.text or "").strip() for e in tree.iter() if e.tag is ElementTree.Comment)


def check_files(path: Path) -> None:
    assert path.stat().st_size > 5_000
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.width > 300
        assert len(np.unique(np.asarray(image.convert("L")))) > 20
    assert path.with_suffix(".svg").stat().st_size > 5_000
    assert ElementTree.parse(path.with_suffix(".svg")).getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize(("primitives", "channels"), [(1, 1), (2, 3), (10, 1), (24, 3)])
def test_learned_writes_png_and_svg(tmp_path: Path, primitives: int, channels: int) -> None:
    learned(tmp_path / "a.png", **run(primitives, 30, channels=channels), title="a $title")
    check_files(tmp_path / "a.png")
    text = words(tmp_path / "a.png")
    assert "a $title" in text
    assert "t-SNE" in text
    assert "30 of 30 test images, by true concept" in text


def test_curves_writes_png_and_svg_with_a_panel_per_quantity(tmp_path: Path) -> None:
    curves(tmp_path / "c.png", EPOCHS)
    check_files(tmp_path / "c.png")
    for title in ("loss", "kl", "proto", "gamma γ", "weight λ", "acceptance"):
        assert title in words(tmp_path / "c.png").splitlines()


def test_curves_of_one_epoch_have_one_tick_and_constants_an_axis_from_zero(tmp_path: Path) -> None:
    curves(tmp_path / "c.png", [{"loss": 0.7, "gamma": 1.0}])
    said = words(tmp_path / "c.png").splitlines()
    assert "0.75" not in said and "1.25" not in said  # epochs
    assert not {"0.95", "0.96", "0.98", "1.05"} & {*said} and "0.0" in said


def test_curves_leaves_out_what_was_never_recorded(tmp_path: Path) -> None:
    curves(tmp_path / "c.png", [{"loss": 1.0, "acceptance": None}, {"loss": 0.5, "acceptance": float("nan")}])
    assert "acceptance" not in words(tmp_path / "c.png")
    assert "gamma" not in words(tmp_path / "c.png")


def test_same_inputs_give_the_same_bytes_whatever_the_users_style(tmp_path: Path) -> None:
    learned(tmp_path / "a.png", **run())
    curves(tmp_path / "c.png", EPOCHS)
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "none"}):
        learned(tmp_path / "b.png", **run())
        curves(tmp_path / "d.png", EPOCHS)
    for kind in (".png", ".svg"):
        assert (tmp_path / f"a{kind}").read_bytes() == (tmp_path / f"b{kind}").read_bytes()
        assert (tmp_path / f"c{kind}").read_bytes() == (tmp_path / f"d{kind}").read_bytes()


def test_globals_are_untouched(tmp_path: Path) -> None:
    def state() -> tuple[Any, ...]:
        style = {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != "backend"}
        kind, keys, *rest = np.random.get_state()
        return style, kind, list(keys), rest, torch.get_rng_state().tolist(), random.getstate()

    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "mine"}):
        before = state()
        learned(tmp_path / "a.png", **run())
        curves(tmp_path / "c.png", EPOCHS)
        assert state() == before


def test_import_is_cheap_and_pyplot_is_never_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from softpnet.report.pictures import curves\n"
        "assert not {'matplotlib', 'sklearn'} & set(sys.modules)\n"
        f"curves(Path({str(tmp_path / 'c.png')!r}), [{{'loss': 1.0}}])\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


ALIKE = {"embeddings": torch.zeros(40, 8), "prototypes": torch.zeros(3, 8)}


@pytest.mark.parametrize("case", [run(1, 1), run(2, 5), run(3, 30, size=1), run() | ALIKE])
def test_few_flat_or_equal_points_fall_back_to_pca(tmp_path: Path, case: dict[str, Any]) -> None:
    learned(tmp_path / "a.png", **case)
    check_files(tmp_path / "a.png")
    assert "PCA" in words(tmp_path / "a.png")


def test_pca_keeps_distances_of_points_in_a_plane() -> None:
    g = np.random.default_rng(0)
    plane, _ = np.linalg.qr(g.normal(size=(5, 2)))
    x = g.normal(size=(9, 2)) @ plane.T
    flat, how = flattened(x, 0)
    assert how == "PCA"
    np.testing.assert_allclose(
        np.linalg.norm(flat[:, None] - flat, axis=2), np.linalg.norm(x[:, None] - x, axis=2), atol=1e-9
    )


@pytest.mark.parametrize("seed", [-1, 2**32, 5_000_000_000, -(2**63), 2**63 - 1])
def test_every_seed_that_trains_also_draws(tmp_path: Path, seed: int) -> None:
    learned(tmp_path / "a.png", **run(3, 14), seed=seed)
    check_files(tmp_path / "a.png")


@pytest.mark.parametrize("seed", range(3))
def test_tsne_flings_no_prototype_off_the_map(seed: int) -> None:
    g = np.random.default_rng(seed)
    prototypes = 0.6 * g.normal(size=(3, 64))
    x = np.concatenate([prototypes[g.integers(3, size=100)] + g.normal(size=(100, 64)), prototypes])
    flat, how = flattened(x.astype(np.float32), seed)
    radius = np.linalg.norm(flat - np.median(flat, axis=0), axis=1)
    assert how == "t-SNE"
    assert radius.max() < 4 * np.median(radius)


def test_without_prototypes_a_star_is_in_the_middle_of_what_is_read_so(tmp_path: Path) -> None:
    learned(tmp_path / "a.png", **run() | {"prototypes": None})
    learned(tmp_path / "b.png", **run())
    check_files(tmp_path / "a.png")
    assert "★ = prototype" in words(tmp_path / "b.png")
    assert "★ = middle of those read so" in words(tmp_path / "a.png")
    axes = Figure().add_axes((0, 0, 1, 1))
    case, read = run(), torch.arange(40) % 2 * 2  # nothing is read as the second
    pictures._map(axes, case["names"], None, case["embeddings"], read, read, 0)
    dots, stars = ([line for line in axes.lines if (line.get_marker() == "*") == star] for star in (False, True))
    assert [len(line.get_xdata()) for line in dots] == [20, 0, 20]
    for line, star in zip((dots[0], dots[2]), stars, strict=True):
        np.testing.assert_allclose(line.get_xydata().mean(axis=0), star.get_xydata()[0], rtol=1e-5)
    assert [text.get_text() for text in axes.texts if text.get_text()] == ["0", "2"]


def test_a_value_without_an_anchor_has_a_gap_and_inputs_are_called_what_they_are(tmp_path: Path) -> None:
    learned(tmp_path / "a.png", **run(), missing={1}, things="inputs")
    assert "none" in words(tmp_path / "a.png").splitlines()
    assert "40 of 40 test inputs, by true concept" in words(tmp_path / "a.png")
    learned(tmp_path / "b.png", **run() | {"true": None}, things="inputs")
    assert "of the test inputs are unknown" in words(tmp_path / "b.png")
    learned(tmp_path / "c.png", **run())
    assert "none" not in words(tmp_path / "c.png").splitlines()


def test_unknown_truth_is_said_and_the_matrix_left_out(tmp_path: Path) -> None:
    learned(tmp_path / "a.png", **run() | {"true": None})
    check_files(tmp_path / "a.png")
    text = words(tmp_path / "a.png")
    assert "by predicted concept" in text
    assert "left out: the true concepts" in text
    assert "accuracy" not in text


def test_map_shows_at_most_the_limit_and_the_matrix_counts_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAP_POINTS", 20)
    true, predicted = torch.zeros(40, dtype=torch.long), (torch.arange(40) >= 30).long()
    learned(tmp_path / "a.png", **run(images=40) | {"true": true, "predicted": predicted})
    assert "20 of 40 test images" in words(tmp_path / "a.png")
    assert "accuracy 75.0 %" in words(tmp_path / "a.png")


def test_confusion_is_the_share_of_each_true_concept() -> None:
    true, predicted = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0, 0, 0, 2, 1, 0])
    axes = Figure().add_axes((0, 0, 1, 1))
    pictures._confusion(axes, ["a", "b", "c"], true, predicted)
    pairs, totals = Counter(zip(true.tolist(), predicted.tolist(), strict=True)), Counter(true.tolist())
    expected = [[100 * pairs[t, p] / max(totals[t], 1) for p in range(3)] for t in range(3)]
    np.testing.assert_allclose(axes.images[0].get_array(), expected)
    assert {t.get_position(): t.get_text() for t in axes.texts if t.get_text()} == {
        (0, 0): "75", (2, 0): "25", (0, 1): "50", (1, 1): "50"}  # fmt: skip


@pytest.mark.parametrize("names", [[str(i) for i in range(20)], [f"concept {i}" for i in range(12)]])
def test_names_in_a_crowded_map_overlap_neither_each_other_nor_the_frame(names: list[str]) -> None:
    figure = Figure(figsize=(4, 4), dpi=canvas.DPI)
    axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
    case = run(len(names), 60, noise=2.0)
    pictures._map(axes, names, 0.1 * case["prototypes"], case["embeddings"], case["true"], case["true"], 0)
    renderer = FigureCanvasAgg(figure).get_renderer()
    drawn = [t for t in axes.texts if isinstance(t, Annotation) and t.get_text()]
    boxes = [t.get_window_extent(renderer) for t in drawn]
    assert [t.get_text() for t in drawn] == names
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(axes.bbox.contains(*corner) for box in boxes for corner in (box.min, box.max))


def test_every_primitive_up_to_110_has_its_own_look() -> None:
    assert len({(look["color"], look["marker"]) for look in pictures.LOOKS}) == 110
    assert "*" not in {look["marker"] for look in pictures.LOOKS}


def test_long_and_odd_names_are_drawn(tmp_path: Path) -> None:
    names = ["a name that is far too long to be printed", "", "100$ & <b>"]
    learned(tmp_path / "a.png", **run() | {"names": names})
    assert "a name that is fa…" in words(tmp_path / "a.png")


@pytest.mark.parametrize(("change", "message"), [
    ({"names": ["a", "b"]}, r"2 names.*expected P names"),
    ({"anchors": torch.rand(3, 2, 6, 6)}, r"\(3, 2, 6, 6\).*C 1 or 3"),
    ({"anchors": torch.rand(3, 6, 6)}, r"\(3, 6, 6\).*\[P,C,H,W\]"),
    ({"prototypes": torch.rand(3, 5)}, r"\(3, 5\), \(40, 8\).*\[P,D\], \[M,D\]"),
    ({"predicted": torch.zeros(39, dtype=torch.long)}, r"\(39,\).*\[M\]"),
    ({"true": torch.full((40,), 3)}, r"primitive id 3; expected 0\.\.2"),
    ({"embeddings": torch.full((40, 8), torch.nan)}, "not finite; did training diverge"),
])  # fmt: skip
def test_inputs_that_do_not_fit_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learned(tmp_path / "a.png", **run() | change)


def test_other_errors_name_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.pdf' must end in \.png"):
        learned(tmp_path / "a.pdf", **run())
    with pytest.raises(ValueError, match=r'no finite "loss\.\.\.".* in 0 epochs'):
        curves(tmp_path / "c.png", [])
