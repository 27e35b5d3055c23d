"""What inference asks of a trained network."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn


class Reader(nn.Module):
    """A network that reads concepts from images."""

    @abstractmethod
    def log_p(self, images: Tensor) -> Tensor:
        """log p `[B, k, h]` of images `[B, n, C, H, W]`."""

    @abstractmethod
    def embed(self, images: Tensor) -> list[Tensor]:
        """Embeddings of the slots of each group, `[B, n_g, D]`."""

    @abstractmethod
    def settled(self) -> list[Tensor]:
        """The prototypes of inference, per group `[P, D]`."""
