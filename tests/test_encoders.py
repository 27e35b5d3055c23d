import pytest
import torch

from softpnet.encoders import conv4


@pytest.mark.parametrize(("shape", "size"), [((1, 28, 28), 64), ((3, 28, 28), 64), ((1, 33, 47), 256)])
def test_conv4_maps_images_to_vectors(shape, size):
    assert conv4(shape[0]).eval()(torch.rand(5, *shape)).shape == (5, size)


def test_conv4_has_four_blocks_of_64_channels():
    sizes = [tuple(p.shape) for p in conv4(1).parameters() if p.dim() == 4]
    assert sizes == [(64, 1, 3, 3)] + [(64, 64, 3, 3)] * 3
