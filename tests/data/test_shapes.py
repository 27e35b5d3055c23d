import random
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from softpnet.data import shapes
from softpnet.data.shapes import Layout

Crop = Literal["box", "window"]
SQUARE, CIRCLE, TRIANGLE = range(3)
RED, YELLOW, BLUE = range(3)
AREA: dict[int, Callable[[Tensor], Tensor]] = {
    SQUARE: lambda size: size**2,
    CIRCLE: lambda size: torch.pi * size**2 / 4,
    TRIANGLE: lambda size: size**2 / 2,
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scenes(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Layout]:
    g = seeded(seed)
    shape = torch.randint(3, (count, 3, 3), generator=g)
    colour = torch.randint(3, (count, 3, 3), generator=g)
    return shape, colour, shapes.layout(count, g)


def full(count: int, value: int) -> Tensor:
    return torch.full((count, 3, 3), value)


def own_cover(crop: Tensor) -> Tensor:
    """Cover of the blue objects, as only blue takes red from white: [...,3,S,S] -> [...,S,S]."""
    return 1 - crop[..., 0, :, :]


def blue_once_per_figure(count: int) -> Tensor:
    """Colours [N,3,3] where object 0 is blue and its neighbours are red."""
    colour = full(count, RED)
    colour[:, :, 0] = BLUE
    return colour


def inside(shape: int, x: Tensor, y: Tensor, size: float) -> Tensor:
    """Brute force: is the point, relative to the centre, in the shape?"""
    if shape == SQUARE:
        return (x.abs() <= size / 2) & (y.abs() <= size / 2)
    if shape == CIRCLE:
        return x**2 + y**2 <= size**2 / 4
    return (y <= size / 2) & (x.abs() <= (y + size / 2) / 2)


def supersampled(
    shape: Tensor, colour: Tensor, centres: Tensor, sizes: Tensor, corner: Tensor, pitch: float, side: int
) -> Tensor:
    """One figure's objects, seen through one view, from 16x16 points per pixel -> [3 rgb,S,S]."""
    points = 16
    at = (torch.arange(side * points, dtype=torch.float64) + 0.5) / points * pitch
    image = torch.ones(3, side * points, side * points, dtype=torch.float64)
    objects = zip(shape.tolist(), colour.tolist(), centres.double(), sizes.tolist(), strict=True)
    for s, c, centre, size in objects:
        x, y = at + corner[0] - centre[0], at + corner[1] - centre[1]
        hit = inside(s, x[None, :], y[:, None], size)
        image[:, hit] = torch.tensor(shapes.RGB[c], dtype=torch.float64)[:, None]
    return image.view(3, side, points, side, points).mean((2, 4))


def test_layout_keeps_objects_inside_their_figure_and_apart() -> None:
    centres, sizes = shapes.layout(2000, seeded())
    assert centres.shape == (2000, 3, 3, 2) and sizes.shape == (2000, 3, 3)
    assert sizes.min() >= 10 and sizes.max() <= 26
    half = sizes.unsqueeze(-1) / 2
    assert (centres - half >= 0).all() and (centres + half <= shapes.FIGURE).all()
    for a, b in ((0, 1), (0, 2), (1, 2)):
        clearance = (centres[:, :, a] - centres[:, :, b]).abs() - half[:, :, a] - half[:, :, b]
        # Wide enough that no pixel of the coarsest view holds two antialiased rims.
        assert clearance.amax(-1).min() > shapes.LARGEST * shapes.LOOSEST / shapes.CROP


def test_layout_sizes_are_uniform_in_spite_of_rejection() -> None:
    sizes = shapes.layout(4000, seeded()).sizes
    share = torch.histc(sizes, 8, 10, 26) / sizes.numel()
    assert (share - 1 / 8).abs().max() < 5 * (1 / 8 * 7 / 8 / sizes.numel()) ** 0.5


def test_layout_is_distributed_as_brute_force_rejection() -> None:
    centres, sizes = (part.flatten(0, 1) for part in shapes.layout(400, seeded(1)))
    g = seeded(2)
    half = sizes / 2 + shapes.MARGIN
    expected = torch.empty_like(centres)
    for i in range(len(sizes)):
        tries = half[i][:, None] + (64 - 2 * half[i][:, None]) * torch.rand(2000, 3, 2, generator=g)
        fine = torch.ones(2000, dtype=torch.bool)
        for a, b in ((0, 1), (0, 2), (1, 2)):
            fine &= ((tries[:, a] - tries[:, b]).abs() >= half[i, a] + half[i, b]).any(-1)
        expected[i] = tries[fine][0]

    def statistics(c: Tensor) -> Tensor:  # [F,3,2] -> [F,8]
        edges = (c - c.roll(1, 1)).norm(dim=-1)  # [F,3]
        return torch.stack(
            [c[:, 0, 0], c[:, 0, 1], c[:, 2, 0] ** 2, c[:, 1, 0] * c[:, 1, 1], edges.amin(1), edges.amax(1),
             (c - 32).norm(dim=-1).amin(1), (c - 32).abs().amax((1, 2))], 1)  # fmt: skip

    ours, theirs = statistics(centres), statistics(expected)
    error = ((ours.var(0) + theirs.var(0)) / len(ours)).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 4 * error).all()


@pytest.mark.parametrize("shape", range(3), ids=shapes.SHAPES)
def test_isolated_objects_have_their_analytic_area(shape: int) -> None:
    layout = shapes.layout(50, seeded())
    picture = shapes.figures(full(50, shape), blue_once_per_figure(50), layout)
    cover = own_cover(picture).sum((-1, -2))  # [N,3]
    area = AREA[shape](layout.sizes[:, :, 0])
    torch.testing.assert_close(cover, area, rtol=0.01, atol=0.5)  # at corners distance is not area
    torch.testing.assert_close(cover.mean(), area.mean(), rtol=0.005, atol=0)


@pytest.mark.parametrize("colour", range(3), ids=shapes.COLOURS)
def test_objects_have_their_pure_colour_on_white(colour: int) -> None:
    layout = shapes.layout(20, seeded())
    picture = shapes.figures(full(20, CIRCLE), full(20, colour), layout)
    x, y = layout.centres.long().unbind(-1)  # [N,3,3]
    n, f = torch.meshgrid(torch.arange(20), torch.arange(3), indexing="ij")
    middle = picture[n[..., None], f[..., None], :, y, x]  # [N,3,3,3 rgb]
    assert (middle == torch.tensor(((1.0, 0, 0), (1.0, 1, 0), (0, 0, 1.0))[colour])).all()
    assert (picture.amin(2) == 1).any()
    assert (picture[:, :, 0, 0, 0] == 1).all()


def test_figures_match_supersampled_brute_force() -> None:
    shape, colour, layout = scenes(4)
    ours = shapes.figures(shape, colour, layout)
    assert ours.shape == (4, 3, 3, 64, 64) and ours.dtype == torch.float32
    for n in range(4):
        for f in range(3):
            args = shape[n, f], colour[n, f], layout.centres[n, f], layout.sizes[n, f]
            error = (ours[n, f] - supersampled(*args, torch.zeros(2), 1.0, 64)).abs()
            assert error.max() < 0.4 and error.mean() < 1e-3  # largest at corners: distance is not area


@pytest.mark.parametrize("loosest", (1.0, 1.3))
def test_box_crops_match_supersampled_brute_force(loosest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, colour, layout = scenes(3)
    monkeypatch.setattr(shapes, "JITTER", 0.0)
    monkeypatch.setattr(shapes, "LOOSEST", loosest)
    # Every draw at its upper end, so that the view is known.
    monkeypatch.setattr(shapes, "_uniform", lambda size, generator: torch.ones(size))
    ours = shapes.crops(shape, colour, layout, seeded())
    for n, f, o in torch.cartesian_prod(*[torch.arange(3)] * 3).tolist():
        width = layout.sizes[n, f, o].item() * loosest
        corner = layout.centres[n, f, o].double() - width / 2
        args = shape[n, f], colour[n, f], layout.centres[n, f], layout.sizes[n, f]
        error = (ours[n, 3 * f + o] - supersampled(*args, corner, width / 28, 28)).abs()
        assert error.max() < 0.4 and error.mean() < 5e-3


@pytest.mark.parametrize("crop", shapes.CROPS)
def test_crops_show_their_own_object_at_the_centre(crop: Crop) -> None:
    shape, colour, layout = scenes(100)
    images = shapes.crops(shape, colour, layout, seeded(), crop)
    assert images.shape == (100, 9, 3, 28, 28) and images.dtype == torch.float32
    assert images.min() >= 0 and images.max() <= 1
    middle = images[..., 13:15, 13:15].mean((-1, -2))  # [N,9,3 rgb]
    assert (middle == torch.tensor(shapes.RGB)[colour.flatten(1)]).all()


def test_box_crops_are_filled_by_their_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "JITTER", 0.0)
    layout = shapes.layout(200, seeded())
    images = shapes.crops(full(200, SQUARE), blue_once_per_figure(200), layout, seeded(1))
    cover = own_cover(images[:, ::3])  # [N,3,28,28]: the blue ones
    width, height = cover[..., 14, :].sum(-1) / 28, cover[..., 14].sum(-1) / 28
    torch.testing.assert_close(width, height)
    assert width.min() > 1 / 1.3 - 1e-3 and width.max() <= 1
    assert width.min() < 0.78 and width.max() > 0.99  # the whole range is used


def test_window_crops_keep_the_scale() -> None:
    layout = shapes.layout(200, seeded())
    images = shapes.crops(full(200, SQUARE), blue_once_per_figure(200), layout, seeded(1), "window")
    size = layout.sizes[:, :, 0]
    whole = size < 24  # larger ones may be cut by the window
    area = own_cover(images[:, ::3]).sum((-1, -2))
    torch.testing.assert_close(area[whole], AREA[SQUARE](size[whole]), rtol=0.01, atol=0)


def test_window_crops_without_jitter_are_slices_of_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "JITTER", 0.0)
    centres = torch.tensor([[20.0, 20], [44, 20], [32, 46]]).expand(1, 3, 3, 2)
    layout = Layout(centres, torch.tensor([20.0, 26, 12.5]).expand(1, 3, 3))
    shape = torch.tensor([[[0, 1, 2], [1, 2, 0], [2, 0, 1]]])
    colour = torch.tensor([[[2, 1, 0], [1, 1, 0], [2, 0, 1]]])
    picture = shapes.figures(shape, colour, layout)[0]  # [3,3,64,64]
    images = shapes.crops(shape, colour, layout, seeded(), "window")[0].view(3, 3, 3, 28, 28)
    assert torch.equal(images[:, 0], picture[..., 6:34, 6:34])
    assert torch.equal(images[:, 1], picture[..., 6:34, 30:58])
    assert torch.equal(images[:, 2], picture[..., 32:60, 18:46])


def test_jitter_moves_crops_by_up_to_eight_percent_of_the_object() -> None:
    layout = shapes.layout(300, seeded())
    images = shapes.crops(full(300, CIRCLE), blue_once_per_figure(300), layout, seeded(1), "window")
    cover, size = own_cover(images[:, ::3]), layout.sizes[:, :, 0]
    pixel = torch.arange(28) + 0.5
    for axis in (-1, -2):  # x is summed over rows, y over columns
        profile = cover.sum(-3 - axis)  # [N,3,28]
        offset = ((profile * pixel).sum(-1) / profile.sum(-1) - 14) / size
        offset = offset[size < 24]
        assert offset.abs().max() < 0.082 and offset.min() < -0.075 and offset.max() > 0.075
        assert offset.mean().abs() < 0.01


def test_crops_beyond_the_figure_are_white() -> None:
    layout = Layout(
        torch.tensor([[6.0, 6], [58, 58], [32, 32]]).expand(1, 3, 3, 2), torch.full((1, 3, 3), 10.0)
    )  # the window around (6, 6) reaches 8 pixels beyond the figure, less its jitter
    images = shapes.crops(full(1, SQUARE), full(1, BLUE), layout, seeded(), "window")
    assert (images[:, ::3, :, :7] == 1).all() and (images[:, ::3, :, :, :7] == 1).all()


def test_triangles_point_up_and_fill_their_box() -> None:
    layout = Layout(torch.full((1, 3, 3, 2), 32.0), torch.full((1, 3, 3), 20.0))
    layout.centres[:, :, 1:] = torch.tensor([[10.0, 10], [54, 54]])
    cover = own_cover(shapes.figures(full(1, TRIANGLE), blue_once_per_figure(1), layout))[0, 0]
    rows = cover.sum(1)
    assert (rows[:22] == 0).all() and (rows[42:] == 0).all()
    assert ((rows[23:42].diff() - 1).abs() < 0.15).all()  # one pixel wider per row
    assert rows[22] < 1.5 and rows[41] > 19
    torch.testing.assert_close(cover, cover.flip(1))


@pytest.mark.parametrize("shape", range(3), ids=shapes.SHAPES)
def test_edges_are_antialiased_so_that_cover_does_not_depend_on_the_subpixel_position(shape: int) -> None:
    count = 100
    g = seeded(shape)
    layout = Layout(torch.empty(count, 3, 3, 2), torch.full((count, 3, 3), 10.0))
    layout.centres[:, :, 1:] = torch.tensor([[10.0, 10], [54, 54]])
    layout.centres[:, :, 0] = 32 + torch.rand(count, 3, 2, generator=g)
    cover = own_cover(shapes.figures(full(count, shape), blue_once_per_figure(count), layout))
    assert ((cover > 1e-3) & (cover < 0.999)).any(-1).any(-1).all()
    total = cover.sum((-1, -2))
    assert total.std() < 0.01 * total.mean()
    assert ((total / total.mean() - 1).abs() < 0.02).all()  # the smallest size, where it matters most


@pytest.mark.parametrize("crop", shapes.CROPS)
def test_neighbours_can_intrude(crop: Crop) -> None:
    colour, layout = blue_once_per_figure(200), shapes.layout(200, seeded())
    images = shapes.crops(full(200, SQUARE), colour, layout, seeded(1), crop)[:, ::3]  # the blue ones
    red = ((images[:, :, 0] == 1) & (images[:, :, 1] == 0)).any(-1).any(-1)  # [N,3]
    assert red.any() and not red.all()


@pytest.mark.parametrize("crop", shapes.CROPS)
def test_one_seed_gives_the_same_bits(crop: Crop) -> None:
    first, second, other = (scenes(20, seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first[2], second[2], strict=True))
    assert not torch.equal(first[2].centres, other[2].centres)
    images = shapes.crops(*first, seeded(5), crop)
    assert torch.equal(images, shapes.crops(*second, seeded(5), crop))
    assert not torch.equal(images, shapes.crops(*second, seeded(6), crop))


def test_the_chunk_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = scenes(20)
    images, picture = shapes.crops(*scene, seeded()), shapes.figures(*scene)
    monkeypatch.setattr(shapes, "CHUNK", 7)
    assert torch.equal(images, shapes.crops(*scene, seeded()))
    assert torch.equal(picture, shapes.figures(*scene))


def test_global_generators_are_untouched() -> None:
    before = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    scene = scenes(5)
    shapes.crops(*scene, seeded())
    shapes.figures(*scene)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert before[2] == str(np.random.get_state())


def test_no_scenes_give_no_images() -> None:
    scene = scenes(0)
    assert shapes.crops(*scene, seeded()).shape == (0, 9, 3, 28, 28)
    assert shapes.figures(*scene).shape == (0, 3, 3, 64, 64)


def test_unknown_crop_is_named_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="unknown crop 'circle': expected one of 'box', 'window'"):
        shapes.crops(*scenes(1), seeded(), "circle")


def test_wrong_values_are_named_with_the_valid_ones() -> None:
    shape, colour, layout = scenes(2)
    with pytest.raises(ValueError, match="shape holds 3: expected 0 square, 1 circle, 2 triangle"):
        shapes.figures(full(2, 3), colour, layout)
    with pytest.raises(ValueError, match="colour holds -1: expected 0 red, 1 yellow, 2 blue"):
        shapes.crops(shape, full(2, -1), layout, seeded())


def test_a_layout_of_other_scenes_is_refused() -> None:
    shape, colour, layout = scenes(2)
    with pytest.raises(ValueError, match=r"shape has shape \[1, 3, 3\], but the layout is of \[2, 3, 3\]"):
        shapes.figures(shape[:1], colour[:1], layout)
