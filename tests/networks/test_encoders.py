"""The fast blocks equal the plain ones: outputs, gradients, statistics."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from softpnet.networks.encoders import Block, Conv4, conv4


class PlainBlock(nn.Module):
    """The same block in the order that the paper states."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.conv = nn.Conv2d(block.conv.in_channels, block.conv.out_channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(block.conv.out_channels)
        self.load_state_dict(block.state_dict())

    def forward(self, x):
        return nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)


def pair(channels, generator):
    """A fast encoder with scales of both signs, and its plain twin."""
    fast = Conv4(channels, width=16)
    for block in fast.blocks:
        block.conv.weight.data.normal_(std=0.3, generator=generator)
        block.norm.weight.data.normal_(generator=generator)
        block.norm.bias.data.normal_(generator=generator)
    assert any((block.norm.weight < 0).any() for block in fast.blocks)
    plain = nn.Sequential(*[PlainBlock(block) for block in fast.blocks])
    # the same layout, since torch's own statistics differ by 1e-6 between layouts
    plain = nn.Sequential(OrderedDict(blocks=plain, flat=nn.Flatten()))
    return fast, plain.to(memory_format=torch.channels_last)


def close(one, two):
    assert one.shape == two.shape
    assert (one - two).norm() <= 1e-5 * two.norm().clamp_min(1.0)


SHAPES = [(32, 1, 28, 28), (7, 3, 28, 28), (5, 3, 33, 47), (2, 1, 17, 16), (1, 3, 31, 31)]


@pytest.mark.parametrize("shape", SHAPES)
def test_training_gives_the_plain_outputs_gradients_and_statistics(shape, generator):
    fast, plain = pair(shape[1], generator)
    images = torch.rand(shape, generator=generator)
    images[: len(images) // 2 + 1, :, :9] = 0.0  # flat background, where all numbers of a window are equal
    images = images.contiguous(memory_format=torch.channels_last)
    inputs = [images.clone().requires_grad_() for _ in range(2)]
    outputs = [encoder.train()(x) for encoder, x in zip((fast, plain), inputs, strict=True)]
    close(*outputs)
    weights = torch.randn(outputs[1].shape, generator=generator)
    for output in outputs:
        (output * weights).sum().backward()
    close(inputs[0].grad, inputs[1].grad)
    for one, two in zip(fast.parameters(), plain.parameters(), strict=True):
        close(one.grad, two.grad)
    for name, value in plain.named_buffers():
        close(dict(fast.named_buffers())[name].float(), value.float())


@pytest.mark.parametrize("shape", SHAPES)
def test_evaluation_gives_the_plain_outputs_also_for_a_single_image(shape, generator):
    fast, plain = pair(shape[1], generator)
    images = torch.rand(shape, generator=generator)
    for encoder in (fast, plain):
        encoder.train()(torch.rand(8, *shape[1:], generator=torch.Generator().manual_seed(1)))
        encoder.eval()
    with torch.inference_mode():
        close(fast(images), plain(images))
        close(fast(images[:1]), plain(images[:1]))


def test_in_double_precision_gradients_are_the_plain_ones_to_ten_digits(generator):
    fast = Block(2, 3).double()
    fast.norm.weight.data = torch.tensor([1.5, -0.7, 0.3], dtype=torch.double)
    plain = PlainBlock(fast).double()
    plain.load_state_dict(fast.state_dict())  # again, in full precision
    x = torch.randn(4, 2, 5, 4, generator=generator, dtype=torch.double)
    weights = torch.randn(4, 3, 2, 2, generator=generator, dtype=torch.double)
    found = []
    for block in (fast, plain):
        given = x.clone().requires_grad_()
        (block(given) * weights).sum().backward()
        found.append([given.grad, *(p.grad for p in block.parameters())])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, atol=1e-10, rtol=1e-10)


def test_a_second_backward_through_the_same_graph_is_refused_not_wrong(generator):
    loss = Block(1, 2)(torch.rand(2, 1, 4, 4, generator=generator)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_mixed_precision_takes_the_plain_order(generator):
    fast, plain = pair(1, generator)
    images = torch.rand(8, 1, 28, 28, generator=generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(fast(images), plain(images), atol=0.1, rtol=0.1)


@pytest.mark.parametrize(("shape", "size"), [((1, 28, 28), 64), ((3, 28, 28), 64), ((1, 33, 47), 256)])
def test_conv4_maps_images_to_vectors(shape, size):
    assert conv4(shape[0]).eval()(torch.rand(5, *shape)).shape == (5, size)


def test_conv4_has_four_blocks_of_64_channels():
    sizes = [tuple(p.shape) for p in conv4(1).parameters() if p.dim() == 4]
    assert sizes == [(64, 1, 3, 3)] + [(64, 64, 3, 3)] * 3
