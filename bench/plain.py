"""The paper's loop as one would first write it: every episode embedded by itself, examples looped over.

Short and honest, not slow on purpose: the same augmentation and the same encoder, in torch's default memory layout.
Tests compare its losses with the library's on a tiny case.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softpnet.task.task import Rule


def prototypical_loss(encoder: nn.Module, anchors: Tensor, chosen: Tensor) -> Tensor:
    """Anchors `[A, P, C, H, W]`; per episode the chosen copy of each primitive `[E, P]` is its support."""
    copies, primitives = anchors.shape[:2]
    losses = []
    for episode in chosen.tolist():
        support = encoder(torch.stack([anchors[episode[p], p] for p in range(primitives)]))
        queries = [(a, p) for p in range(primitives) for a in range(copies) if a != episode[p]]
        embedded = encoder(torch.stack([anchors[a, p] for a, p in queries]))
        distances = (embedded[:, None] - support[None]).square().sum(-1)
        truth = torch.tensor([p for _, p in queries])
        losses.append(nn.functional.cross_entropy(-distances, truth))
    return torch.stack(losses).mean()


def concept_log_p(encoder: nn.Module, images: Tensor, anchors: Tensor) -> Tensor:
    """Images `[B, n, C, H, W]` -> log p of the digit in each slot `[B, n, P]`."""
    prototypes = torch.stack([encoder(anchors[:, p]).mean(0) for p in range(anchors.shape[1])])
    slots = [encoder(images[:, i]) for i in range(images.shape[1])]
    return torch.stack([torch.log_softmax(-(slot[:, None] - prototypes).square().sum(-1), -1) for slot in slots], dim=1)


def kl_loss(log_p: Tensor, labels: Tensor, rows: Tensor, label: Rule, gamma: float, best: bool) -> Tensor:
    """One example after the other: its feasible rows, their scores and weights, the target, the divergence."""
    total = log_p.new_zeros(())
    for b in range(len(labels)):
        feasible = [row for row in rows.tolist() if label(torch.tensor(row)) == labels[b]]
        each = [[log_p[b, i, v] for i, v in enumerate(row)] for row in feasible]
        scores = torch.stack([sum(terms[1:], start=terms[0]) for terms in each]).detach()
        weights = torch.softmax(scores / gamma, 0)
        if best:
            weights = torch.zeros_like(scores)
            weights[scores.argmax()] = 1.0
        for i in range(log_p.shape[1]):
            for value in range(log_p.shape[2]):
                share = sum((w for w, row in zip(weights, feasible, strict=True) if row[i] == value), torch.zeros(()))
                if share > 0:
                    total = total + share * (share.log() - log_p[b, i, value])
    return total / len(labels)


class PlainConv4(nn.Sequential):
    """Conv4 in torch's default memory layout."""

    def __init__(self, channels: int, width: int = 64) -> None:
        layers: list[nn.Module] = []
        for before in (channels, width, width, width):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        super().__init__(*layers, nn.Flatten())
