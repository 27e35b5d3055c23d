"""Blank inputs, to try an encoder on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from softpnet.runtime.inputs import ANY_NUMBER


def two_blank(like: Tensor) -> Tensor:
    """Two inputs of that shape and kind, all zero: `[2, *shape]`; real numbers in the encoder's first precision."""
    return torch.zeros(2, *like.shape, dtype=torch.float32 if like.is_floating_point() else like.dtype)


@torch.no_grad()
def table_rows(encoder: nn.Module, blank: Tensor) -> Tensor:
    """Rows of the smallest table in which the encoder looks up each number of a slot, `[*shape]`.

    They are `ANY_NUMBER` where no nn.Embedding looks a number up just as it is. The blank input is `[1, *shape]`.
    """
    rows = torch.full((blank.numel(),), ANY_NUMBER)

    def note(table: Any, arguments: tuple[Any, ...]) -> None:
        ids = arguments[0]
        # Where it is a view of the inputs, each number is looked up just as it is.
        if ids.untyped_storage().data_ptr() == blank.untyped_storage().data_ptr():
            places = torch.arange(len(rows)).as_strided(ids.shape, ids.stride(), ids.storage_offset()).flatten()
            rows[places] = rows[places].clamp(max=table.num_embeddings)

    tables = [part for part in encoder.modules() if isinstance(part, (nn.Embedding, nn.EmbeddingBag))]
    hooks = [table.register_forward_pre_hook(note) for table in tables]
    training = encoder.training
    try:
        encoder.eval()(blank)
    finally:
        encoder.train(training)
        for hook in hooks:
            hook.remove()
    return rows.view(blank.shape[1:])
