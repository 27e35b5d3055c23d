"""The episodic loss against one episode at a time."""

import torch

from softpnet.methods import losses


def plain_episodic(embeddings, episodes, generator):
    """Every episode by itself, as the definition says it."""
    copies, primitives, _ = embeddings.shape
    chosen = torch.randint(copies, (episodes, primitives), generator=generator)
    values = []
    for episode in chosen:
        support = torch.stack([embeddings[episode[p], p] for p in range(primitives)])
        for p in range(primitives):
            for copy in range(copies):
                if copy != episode[p]:
                    distances = (embeddings[copy, p] - support).square().sum(-1)
                    values.append(-torch.log_softmax(-distances, -1)[p])
    return torch.stack(values).mean()


def test_all_episodes_at_once_equal_one_at_a_time(generator):
    embeddings = torch.randn(4, 3, 5, generator=generator, dtype=torch.double)
    found = losses.episodic(embeddings, 7, torch.Generator().manual_seed(3))
    expected = plain_episodic(embeddings, 7, torch.Generator().manual_seed(3))
    torch.testing.assert_close(found, expected)


def test_gradient_of_the_episodic_loss_passes_gradcheck(generator):
    embeddings = torch.randn(3, 2, 4, generator=generator, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e: losses.episodic(e, 5, torch.Generator().manual_seed(1)), embeddings)


def test_far_apart_classes_have_no_loss():
    embeddings = torch.tensor([[[0.0], [100.0]], [[0.1], [100.1]]])
    assert losses.episodic(embeddings, 3, torch.Generator().manual_seed(0)).item() < 1e-6
