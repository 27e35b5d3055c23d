"""What the checks of moves conclude from counts: rightly, and without false alarms."""

import pytest
import torch

from softpnet.checks.kernel import compare_ways, connected_parts, count_proposals, find_rows
from softpnet.task.concepts import ConceptSpace


def drawn(probabilities, draws, seed):
    """Counts of so many draws from each row of a transition matrix `[S, S]`."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.multinomial(probabilities, draws, replacement=True, generator=generator)  # [S, D]
    return torch.zeros(probabilities.shape, dtype=torch.int64).scatter_add(1, chosen, torch.ones_like(chosen))


def random_symmetric(size, seed):
    """Many small probabilities and few large ones, the same both ways; what is left over stays."""
    weights = torch.rand(size, size, generator=torch.Generator().manual_seed(seed)).pow(6).triu(1)
    weights = (weights + weights.T) / (weights + weights.T).sum(1).max()
    return weights + torch.diag((1 - weights.sum(1)).clamp_min(0))


@pytest.mark.parametrize("draws", [3, 50, 2000])
@pytest.mark.parametrize("size", [2, 30, 150])
def test_a_symmetric_move_is_never_taken_for_an_asymmetric_one(size, draws):
    for seed in range(20):
        assert compare_ways(drawn(random_symmetric(size, seed), draws, seed)).symmetric


def test_one_asymmetric_pair_among_many_is_found_and_named():
    move = random_symmetric(100, 0)
    move[7] = 0.99 * move[7]
    move[7, 60] += 0.01
    move[60, 60] += move[60, 7]
    move[60, 7] = 0
    found = compare_ways(drawn(move, 10_000, 0))
    assert not found.symmetric and found.worst == (7, 60)


def test_a_slight_slant_of_all_pairs_is_found_although_no_pair_alone_would_tell():
    up = torch.ones(60, 60).triu(1)
    move = torch.eye(60) * 0.2 + (0.6 * up + 0.4 * up.T) / 75
    counts = drawn(move / move.sum(1, keepdim=True), 2000, 0)
    assert compare_ways(counts[:2, :2]).symmetric, "two of the states tell nothing yet"
    assert not compare_ways(counts).symmetric


def test_too_few_returns_tell_nothing():
    nothing = compare_ways(torch.zeros(5, 5, dtype=torch.int64))
    assert not nothing.telling and nothing.symmetric and nothing.pairs == 0
    assert not compare_ways(torch.tensor([[9, 1], [0, 10]])).telling
    assert compare_ways(torch.tensor([[9, 100], [90, 10]])).telling


LINE = ConceptSpace(slots=1, values=100)


def jump(size):
    """Forward or back by so much, round in a circle of 100."""

    def move(rows, generator):
        sign = 2 * torch.randint(2, rows.shape[:-1], generator=generator)[..., None] - 1
        return (rows + sign * size) % 100

    return move


@pytest.mark.parametrize("size, parts", [(1, 1), (3, 1), (4, 4), (50, 50), (0, 100)])
def test_parts_are_those_of_the_graph(size, parts, generator):
    found = connected_parts(jump(size), LINE, LINE.all(), 1, 40, generator)
    assert len(found.unique()) == parts
    assert torch.equal(found, torch.arange(100) % parts), "a part bears the number of its first state"


def test_drawing_stops_when_everything_is_connected(generator):
    calls = []

    def move(rows, generator):
        calls.append(len(rows))
        return jump(1)(rows, generator)

    connected_parts(move, LINE, LINE.all(), 1, 100_000, generator)
    assert len(calls) == 1


def test_proposals_are_counted_by_state_and_those_of_other_rows_are_not(generator):
    states = torch.tensor([[5], [3], [4]])
    counts = count_proposals(jump(1), LINE, states, 1000, generator)
    assert counts[1, 2] + counts[0, 2] + counts[2, 0] + counts[2, 1] == counts.sum()
    assert counts[2].sum() == 1000 and 400 < counts[0, 2] < 600


def test_rows_are_found_where_they_are():
    known = torch.tensor([[2, 1], [0, 0], [1, 2]])
    rows = torch.tensor([[[1, 2], [0, 1]], [[2, 1], [0, 0]]])
    assert find_rows(ConceptSpace(slots=2, values=3), known, rows).tolist() == [[2, -1], [0, 1]]
