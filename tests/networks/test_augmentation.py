import torch

from softpnet.networks.augmentation import augment, random_maps


def test_outside_pixels_take_the_background_value(generator):
    for background in (0.0, 1.0, 0.3):
        flat = torch.full((200, 1, 28, 28), background)
        torch.testing.assert_close(augment(flat, background, generator), flat)


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
    views = augment(image, 0.0, generator)
    light = views.sum((1, 2, 3)) / 16
    assert 0.75 < light.min() and light.max() < 1.3
    rows = (views.sum((1, 3)) * torch.arange(28)).sum(1) / views.sum((1, 2, 3))
    assert rows.std() > 1 and abs(rows.mean() - 13.5) < 0.3


def test_every_image_gets_its_own_view(generator):
    image = torch.rand(1, 1, 28, 28, generator=generator).expand(2, 3, 1, 28, 28)
    views = augment(image, 0.0, generator).flatten(0, 1)
    assert views.shape == (6, 1, 28, 28) and len(views.flatten(1).unique(dim=0)) == 6
