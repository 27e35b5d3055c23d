"""Prototypes and distributions against their definitions."""

import torch
from torch import nn

from softpnet.networks.prototypes import LearnedPrototypeNetwork, PrototypeNetwork, squared_distances
from softpnet.task.concepts import ConceptSpace, Group


def flat_encoder(size, out=3):
    layer = nn.Sequential(nn.Flatten(), nn.Linear(size, out, bias=False))
    return layer


def test_squared_distances_are_squared_distances(generator):
    points, centres = torch.randn(4, 5, 3, generator=generator), torch.randn(6, 3, generator=generator)
    expected = (points[:, :, None] - centres).square().sum(-1)
    torch.testing.assert_close(squared_distances(points, centres), expected)
    torch.testing.assert_close(squared_distances(points, centres, scaled=True), expected / 3**0.5)


def test_log_p_is_a_softmax_over_distances_to_mean_anchor_embeddings(generator):
    encoder = flat_encoder(4)
    net = PrototypeNetwork(ConceptSpace(slots=2, values=3), {"concept": encoder})
    images, anchors = torch.rand(5, 2, 1, 2, 2, generator=generator), torch.rand(4, 3, 1, 2, 2, generator=generator)
    reading = net(images, [anchors])
    prototypes = torch.stack([encoder(anchors[:, p]).mean(0) for p in range(3)])
    for b in range(5):
        for slot in range(2):
            distance = (encoder(images[b, slot : slot + 1]) - prototypes).square().sum(-1)
            torch.testing.assert_close(reading.log_p[b, slot], torch.log_softmax(-distance, 0))
    torch.testing.assert_close(reading.anchors[0], encoder(anchors.flatten(0, 1)).view(4, 3, 3))


def test_groups_read_their_own_slots_with_their_own_or_a_shared_encoder(generator):
    space = ConceptSpace(
        Group((2, 0), 3, name="a", encoder="shared"),
        Group((1,), 2, name="b"),
        Group((0,), (2, 2), name="c", encoder="shared"),
    )
    encoders = {"shared": flat_encoder(4), "b": flat_encoder(4, out=5)}
    net = PrototypeNetwork(space, encoders)
    images = torch.rand(6, 3, 1, 2, 2, generator=generator)
    anchors = [torch.rand(2, p, 1, 2, 2, generator=generator) for p in (3, 2, 4)]
    reading = net(images, anchors)
    assert reading.log_p.shape == (6, 5, 3)
    calls = []
    for group, anchor, slots in (("shared", anchors[0], (2, 0)), ("b", anchors[1], (1,)), ("shared", anchors[2], (0,))):
        encoder = encoders[group]
        centres = torch.stack([encoder(anchor[:, p]).mean(0) for p in range(anchor.shape[1])])
        calls += [torch.log_softmax(-(encoder(images[:, s])[:, None] - centres).square().sum(-1), -1) for s in slots]
    torch.testing.assert_close(reading.log_p[:, 0], calls[0])
    torch.testing.assert_close(reading.log_p[:, 1], calls[1])
    torch.testing.assert_close(reading.log_p[:, 2, :2], calls[2])
    joint = calls[3].exp().view(6, 2, 2)
    torch.testing.assert_close(reading.log_p[:, 3, :2].exp(), joint.sum(2))
    torch.testing.assert_close(reading.log_p[:, 4, :2].exp(), joint.sum(1))
    assert (reading.log_p[:, 2:, 2] == -torch.inf).all()


def test_one_forward_embeds_batch_and_anchors_together(generator):
    calls = []
    encoder = flat_encoder(4)
    encoder.register_forward_hook(lambda module, given, out: calls.append(len(given[0])))
    net = PrototypeNetwork(ConceptSpace(slots=2, values=3), {"concept": encoder})
    net(torch.rand(64, 2, 1, 2, 2), [torch.rand(4, 3, 1, 2, 2)])
    assert calls == [64 * 2 + 4 * 3]


def test_settled_prototypes_answer_like_the_anchors_they_came_from(generator):
    net = PrototypeNetwork(ConceptSpace(slots=2, values=3), {"concept": flat_encoder(4)}).eval()
    images, anchors = torch.rand(5, 2, 1, 2, 2, generator=generator), torch.rand(4, 3, 1, 2, 2, generator=generator)
    net.settle([anchors])
    torch.testing.assert_close(net.log_p(images), net(images, [anchors]).log_p)
    assert "prototypes.of_concept" in net.state_dict()


def test_prototypes_carry_gradient_in_training():
    net = PrototypeNetwork(ConceptSpace(slots=1, values=2), {"concept": flat_encoder(4)})
    anchors = torch.rand(2, 2, 1, 2, 2, requires_grad=True)
    net(torch.rand(3, 1, 1, 2, 2), [anchors]).log_p[:, :, 0].sum().backward()
    assert anchors.grad.abs().sum() > 0


def test_distances_keep_full_precision_under_autocast(generator):
    net = PrototypeNetwork(ConceptSpace(slots=2, values=3), {"concept": nn.Sequential(nn.Flatten(), nn.Identity())})
    images, anchors = (
        9 * torch.rand(5, 2, 1, 2, 2, generator=generator),
        9 * torch.rand(4, 3, 1, 2, 2, generator=generator),
    )
    exact = net(images, [anchors]).log_p
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(net(images, [anchors]).log_p, exact)


def test_groups_with_like_names_have_their_own_encoders_and_prototypes():
    space = ConceptSpace(Group((0,), 2, name="type"), Group((0,), 2, name="type_"))
    net = PrototypeNetwork(space, {"type": flat_encoder(4), "type_": flat_encoder(4)})
    net.settle([torch.rand(1, 2, 1, 2, 2), torch.rand(1, 2, 1, 2, 2)])
    assert len(net.encoders) == 2 and len({id(p) for p in net.settled()}) == 2


def test_learned_prototypes_read_inputs_and_anchors_and_are_weights_of_the_network(generator):
    encoder, like = flat_encoder(4), torch.zeros(1, 2, 2)
    net = LearnedPrototypeNetwork(ConceptSpace(slots=2, values=3), {"concept": encoder}, True, like)
    images, anchors = torch.rand(5, 2, 1, 2, 2, generator=generator), torch.rand(4, 3, 1, 2, 2, generator=generator)
    reading, (learned,) = net(images, [anchors]), net.settled()

    def expected(inputs):
        distances = (encoder(inputs.flatten(0, 1))[:, None] - learned).square().sum(-1) / 3**0.5
        return torch.log_softmax(-distances, -1).unflatten(0, inputs.shape[:2])

    torch.testing.assert_close(reading.log_p, expected(images))
    torch.testing.assert_close(reading.primitives[0], expected(anchors))
    torch.testing.assert_close(net.log_p(images), reading.log_p)
    before = learned.detach().clone()
    net.settle([anchors])
    assert torch.equal(net.settled()[0], before)  # no anchor moves them but by training
    reading.log_p[:, :, 0].sum().backward()
    assert learned.requires_grad and learned.grad.abs().sum() > 0
