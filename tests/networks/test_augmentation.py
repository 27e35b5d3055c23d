import math

import pytest
import torch

import softpnet as sp
from softpnet.networks.augmentation import affine, compose, photometric, random_maps, uniform


def test_outside_pixels_take_the_background_value(generator):
    for background in (0.0, 1.0, 0.3):
        flat = torch.full((200, 1, 28, 28), background)
        torch.testing.assert_close(affine(background)(flat, generator), flat)


def test_maps_stay_inside_the_stated_ranges(generator):
    maps = random_maps(5000, generator)
    linear, shift = maps[:, :, :2], maps[:, :, 2]
    area = 1 / torch.linalg.det(linear)  # a shear keeps area, so this is scale squared
    assert 0.81 - 1e-4 <= area.min() < 0.83 and 1.19 < area.max() <= 1.21 + 1e-4
    assert shift.abs().max() <= 0.2 and shift.abs().max() > 0.19  # the image spans 2, so 10 % is 0.2
    angle = torch.rad2deg(torch.atan2(linear[:, 1, 0], linear[:, 0, 0]))
    assert angle.abs().max() <= 15 and angle.abs().max() > 14.5
    columns = linear / linear.norm(dim=1, keepdim=True)
    lean = torch.rad2deg(torch.asin((columns[:, :, 0] * columns[:, :, 1]).sum(1)))  # off the right angle
    assert lean.abs().max() <= 10 + 1e-3 and lean.abs().max() > 9.7


def test_angles_are_those_of_the_pixels_in_images_that_are_not_square():
    square, wide = (random_maps(100, torch.Generator().manual_seed(0), aspect)[:, :, :2] for aspect in (1.0, 4.0))
    # in pixels: x counts 4 times as much as y
    pixels = torch.diag(torch.tensor([4.0, 1.0]))
    torch.testing.assert_close(pixels @ wide @ pixels.inverse(), square)


def test_a_bright_spot_moves_but_keeps_its_light(generator):
    image = torch.zeros(500, 1, 28, 28)
    image[:, :, 12:16, 12:16] = 1.0
    views = affine(0.0)(image, generator)
    light = views.sum((1, 2, 3)) / 16
    assert 0.75 < light.min() and light.max() < 1.3
    rows = (views.sum((1, 3)) * torch.arange(28)).sum(1) / views.sum((1, 2, 3))
    assert rows.std() > 1 and abs(rows.mean() - 13.5) < 0.3


def test_every_image_gets_its_own_view(generator):
    image = torch.rand(1, 1, 28, 28, generator=generator).expand(2, 3, 1, 28, 28)
    views = affine(0.0)(image, generator).flatten(0, 1)
    assert views.shape == (6, 1, 28, 28) and len(views.flatten(1).unique(dim=0)) == 6


def photographs(*leading, channels=3):
    return torch.rand(*leading, channels, 12, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def one_by_one(image, bright, contrast, colour, width):
    """The four changes of one image [C, H, W], written as they are said."""
    image = image * bright
    image = image.mean() + contrast * (image - image.mean())
    grey = sum(image) / len(image)
    image = torch.stack([grey + colour * (channel - grey) for channel in image])
    _, height, across = image.shape
    blurred = torch.zeros_like(image)
    for y in range(height):
        for x in range(across):
            rows = torch.tensor([math.exp(-((y - row) ** 2) / (2 * width**2)) for row in range(height)])
            columns = torch.tensor([math.exp(-((x - column) ** 2) / (2 * width**2)) for column in range(across)])
            weights = rows[:, None] * columns
            blurred[:, y, x] = (image * weights).sum((1, 2)) / weights.sum()
    return blurred.clamp(0, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_photometric_changes_are_those_of_each_image_by_itself(channels):
    images = photographs(2, 3, channels=channels)
    found = photometric(0.2, 0.5, 0.7, 1.5)(images, torch.Generator().manual_seed(0))
    draws, ranges = torch.Generator().manual_seed(0), [(0.8, 1.2), (0.5, 1.5), (0.3, 1.7), (0, 1.5)]
    drawn = torch.stack([uniform(6, low, high, draws, torch.float64) for low, high in ranges], 1)  # [6, 4]
    expected = [one_by_one(*both) for both in zip(images.flatten(0, 1), *drawn.T.tolist(), strict=True)]
    torch.testing.assert_close(found, torch.stack(expected).view(images.shape), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("name, changed", [("brightness", 1), ("contrast", 1), ("saturation", 1), ("blur", 2)])
def test_a_change_of_range_zero_leaves_images_as_they_are(name, changed, generator):
    none = dict.fromkeys(("brightness", "contrast", "saturation", "blur"), 0)
    images = 0.3 + 0.4 * photographs(20)  # far enough from 0 and 1 to be changed in both directions
    torch.testing.assert_close(photometric(**none)(images, generator), images)
    views = photometric(**none | {name: changed})(images, generator)
    assert (views - images).abs().amax((1, 2, 3)).median() > 0.01 and 0 <= views.min() and views.max() <= 1


def test_an_even_image_stays_even_under_blur_and_a_blurred_one_has_less_contrast(generator):
    blur = photometric(0, 0, 0, blur=2.0)
    even = torch.full((10, 3, 8, 8), 0.4)
    torch.testing.assert_close(blur(even, generator), even)
    images = photographs(10)
    assert (blur(images, generator).std((1, 2, 3)) <= images.std((1, 2, 3)) + 1e-9).all()


def test_views_are_the_same_in_every_precision_and_every_image_has_its_own():
    images = photographs(1).expand(4, 3, 12, 9)
    for make in (affine(0.5), photometric(), compose(affine(), photometric())):
        double, single = (
            make(images.to(kind), torch.Generator().manual_seed(0)) for kind in (torch.float64, torch.float32)
        )
        torch.testing.assert_close(single, double.float(), atol=1e-5, rtol=1e-5)
        assert single.dtype == torch.float32 and len(double.flatten(1).unique(dim=0)) == 4


def test_composed_parts_follow_each_other_and_share_the_generator():
    images, (one, two) = photographs(5), (torch.Generator().manual_seed(0) for _ in range(2))
    first, second = affine(0.5), photometric()
    both = compose(first, second)(images, one)
    torch.testing.assert_close(both, second(first(images, two), two))
    assert torch.equal(one.get_state(), two.get_state()) and compose()(images, one) is images


def test_the_parts_are_public():
    assert sp.augment.affine is affine and sp.augment.photometric is photometric and sp.augment.compose is compose


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "blur"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "0.3", True])
def test_a_range_that_cannot_be_is_refused(name, value):
    with pytest.raises(
        sp.InputError, match=f"{name} of a photometric augmentation is .*, expected .*; 0 leaves it out"
    ):
        photometric(**{name: value})


def test_only_a_blur_may_be_larger_than_1():
    photometric(blur=3)
    with pytest.raises(
        sp.InputError, match=r"brightness of a photometric augmentation is 1\.5, expected a number from 0"
    ):
        photometric(brightness=1.5)


def test_only_augmentations_are_composed():
    with pytest.raises(sp.InputError, match="compose was given 'affine', expected augmentations; write compose"):
        compose(affine(), "affine")


@pytest.mark.parametrize("background", ["white", True, math.nan, None])
def test_a_background_that_is_no_pixel_s_value_is_named(background):
    with pytest.raises(sp.InputError, match=r"background of an affine augmentation is .*, expected a pixel's value"):
        sp.augment.affine(background)
