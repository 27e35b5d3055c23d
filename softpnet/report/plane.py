"""Embeddings in the plane, for a map that people look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray
    from torch import Tensor

    from softpnet.learner import Learner


def placeable_prototypes(model: Learner) -> list[Tensor] | None:
    """Prototypes of each group `[P, D]` that are means of embeddings, and so lie among them; None for all others.

    Learned ones may lie far from every embedding, since only differences of distances count: a map would show them all
    at one point.
    """
    from softpnet.networks.prototypes import LearnedPrototypeNetwork

    return None if isinstance(model.module, LearnedPrototypeNetwork) else model.prototypes() or None


def middles(flat: ndarray, read: ndarray, count: int) -> ndarray:
    """The mean place of the points `[M, 2]` that are read as each of so many primitives `[P, 2]`; NaN where none is."""
    import numpy as np

    places = np.full((count, 2), np.nan)
    for primitive in np.unique(read[read >= 0]):  # -1 is no primitive
        places[primitive] = flat[read == primitive].mean(axis=0)
    return places


def flattened(x: ndarray, seed: int) -> tuple[ndarray, str]:
    """[N,D] -> [N,2] by t-SNE, or by PCA where points are few or all alike; and the name of the way."""
    import numpy as np

    if len(x) < 12 or x.shape[1] < 2 or np.ptp(x, axis=0).max() == 0:
        left, size, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        return np.pad(left * size, ((0, 0), (0, 1)))[:, :2], "PCA"
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Prototypes are near everything: at the library's least rate, 50, t-SNE flings them off small maps.
    tsne = TSNE(perplexity=min(30, len(x) / 4), learning_rate=max(len(x) / 48, 5), max_iter=500,
                angle=0.8, init="pca", random_state=seed)  # fmt: skip
    with threadpool_limits(1):  # sums over several threads differ in their last bits from run to run
        return tsne.fit_transform(x), "t-SNE"
