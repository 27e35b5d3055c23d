"""The cache: what it holds, how it is indexed, and the first draw."""

import pytest
import torch

from softpnet.data.rows import read_rows
from softpnet.rules.make_cache import make_cache
from softpnet.rules.rows import Cache
from softpnet.rules.scoring import scores
from softpnet.task.concepts import ConceptSpace
from softpnet.task.task import Rows, Task

SUMS = Task(ConceptSpace(slots=3, values=4), lambda c: c.sum(-1))
NONE = torch.zeros(0, dtype=torch.int64)


def test_rows_are_indexed_by_label_without_duplicates(generator):
    rows = torch.tensor([[0, 0, 1], [3, 3, 3], [1, 0, 0], [0, 0, 1], [0, 1, 0], [3, 3, 3]])
    cache = Cache(SUMS, Rows(rows, complete=torch.tensor([1])), generator)
    assert cache.labels.tolist() == [1, 9] and cache.counts.tolist() == [3, 1]
    held = [cache.rows[s : s + c].tolist() for s, c in zip(cache.starts, cache.counts, strict=True)]
    assert sorted(held[0]) == [[0, 0, 1], [0, 1, 0], [1, 0, 0]] and held[1] == [[3, 3, 3]]
    assert cache.complete.tolist() == [True, False]


def test_a_small_space_is_enumerated_and_complete(generator):
    cache = make_cache(SUMS, generator)
    assert len(cache.rows) == 64 and cache.complete.all() and cache.labels.tolist() == list(range(10))


def test_label_vectors_are_indexed(generator):
    task = Task(ConceptSpace(slots=2, values=3), lambda c: torch.stack([c.sum(-1), c[..., 0] * 0 + 1], -1))
    cache = make_cache(task, generator)
    assert cache.labels.tolist() == [[s, 1] for s in range(5)] and cache.counts.tolist() == [1, 2, 3, 2, 1]


@pytest.fixture(params=["short lists", "long lists"])
def both_paths(request, monkeypatch):
    """Short lists are drawn example by example, long ones label by label: the promises are the same."""
    if request.param == "long lists":
        monkeypatch.setattr("softpnet.rules.rows.LONG", 0)


@pytest.mark.usefixtures("both_paths")
def test_a_draw_wider_than_the_label_is_the_exact_top(generator):
    cache = make_cache(SUMS, generator)
    log_p = torch.randn(2, 3, 4, generator=generator).log_softmax(-1)
    rows, valid = cache.draw(torch.tensor([4, 0]), log_p, drawn=1000, kept=5, generator=generator)
    every = SUMS.space.all()
    feasible = every[every.sum(1) == 4]
    exact = scores(log_p[:1], feasible[None])[0].sort(descending=True).values[:5]
    torch.testing.assert_close(scores(log_p, rows)[0], exact)
    assert valid.tolist() == [[True] * 5, [True] + [False] * 4]  # a sum of 0 has one row; the rest is padding
    assert rows[1, 0].tolist() == [0, 0, 0]


@pytest.mark.usefixtures("both_paths")
def test_a_narrow_draw_is_uniform_and_without_replacement(generator):
    """Every row is as likely to be drawn."""
    log_p = torch.zeros(2, 3, 4)
    counts = torch.zeros(4, 4, 4)
    cache = make_cache(SUMS, generator)
    for _ in range(4000):
        rows, valid = cache.draw(torch.tensor([4, 4]), log_p, drawn=3, kept=3, generator=generator)
        assert valid.all()
        keys = SUMS.space.keys(rows)
        assert (keys.sort(1).values.diff(dim=1) > 0).all()
        counts.index_put_(tuple(rows.flatten(0, 1).T), torch.tensor(1.0), accumulate=True)
    drawn = counts[counts > 0]
    assert len(drawn) == 12  # all assignments with sum 4
    assert (drawn / drawn.sum() - 1 / 12).abs().max() < 0.008


def test_a_cache_file_gives_the_same_cache_back(tmp_path, generator):
    cache = make_cache(SUMS, generator)
    cache.save(tmp_path / "cache.safetensors")
    again = Cache(SUMS, read_rows(tmp_path / "cache.safetensors"), generator)
    assert again.counts.tolist() == cache.counts.tolist() and again.complete.all()
    assert len(torch.cat([cache.rows, again.rows]).unique(dim=0)) == len(cache.rows)


def test_a_file_that_is_no_cache_is_refused(tmp_path):
    (tmp_path / "cache.safetensors").write_bytes(b"not a cache")
    with pytest.raises(ValueError, match="is damaged"):
        read_rows(tmp_path / "cache.safetensors")
