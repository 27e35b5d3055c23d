"""Shared scores and blockwise selection against the plain way."""

import pytest
import torch

from softpnet.rules import scoring
from softpnet.rules.scoring import shared_scores, table_lines, top_rows


def test_shared_scores_are_the_scores_of_each_example(generator):
    log_p, rows = (
        torch.randn(3, 3, 4, generator=generator).log_softmax(-1),
        torch.randint(4, (50, 3), generator=generator),
    )
    expected = scoring.scores(log_p, rows.expand(3, -1, -1)).T
    torch.testing.assert_close(shared_scores(log_p, table_lines(rows, 4)), expected)


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (63, 20), (64, 64), (1000, 20), (130, 130)])
def test_top_rows_are_the_highest_scores_in_order(generator, rows, count):
    scores = torch.randint(200, (rows, 4), generator=generator).float()  # with ties
    found = top_rows(scores, count)
    assert all(len(set(row)) == count for row in found.tolist())
    torch.testing.assert_close(scores.T.gather(1, found), scores.T.topk(count).values)
