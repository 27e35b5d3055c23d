"""The walk's one-step kernel of each task's move, against the exact transition matrix on an enumerable space."""

import functools
import itertools
import math

import pytest
import torch

from softpnet.rules.make_cache import make_cache
from softpnet.rules.moves import change_one, redraw, same_label, switch_one
from softpnet.rules.table import from_table
from softpnet.targets.cache import metropolis
from softpnet.task.concepts import ConceptSpace
from softpnet.tasks import kand_logic, load, visual_sudoku

GAMMAS = (1.0, 0.3, 0.05)


class Chain:
    """A move on enumerated states, with the exact proposal matrix written down by hand for that task."""

    def __init__(self, states, move, proposals, space):
        self.states, self.move, self.proposals, self.space = states, move, proposals, space

    def random_log_p(self, generator):
        # close to uniform, so that every transition is seen within the draws of a test
        return (0.3 * torch.randn(1, self.space.k, self.space.h, generator=generator)).log_softmax(-1)


@functools.cache
def evenodd(total):
    task = load("mnist_evenodd")
    cache = make_cache(task, torch.Generator().manual_seed(0))
    states = task.space.all()
    states = states[states.sum(1) == total]
    count = len(states)
    # another pair with the same sum, uniformly; stay if there is none
    others = 1 - torch.eye(count, dtype=torch.double)
    proposals = others / (count - 1) if count > 1 else torch.ones(1, 1, dtype=torch.double)
    return Chain(states, same_label(cache), proposals, task.space)


@functools.cache
def sudoku():
    states = visual_sudoku.boards()
    index = {tuple(board): i for i, board in enumerate(states.tolist())}
    by_kept = {tuple(board[cell] for cell in visual_sudoku.KEPT): tuple(board) for board in states.tolist()}
    proposals = torch.zeros(len(states), len(states), dtype=torch.double)
    for i, board in enumerate(states.tolist()):
        for a, b in visual_sudoku.SWAPS:
            swapped = list(board)
            swapped[a], swapped[b] = swapped[b], swapped[a]
            target = by_kept.get(tuple(swapped[cell] for cell in visual_sudoku.KEPT), tuple(board))
            proposals[i, index[target]] += 1 / len(visual_sudoku.SWAPS)
    return Chain(states, load("visual_sudoku").move, proposals, visual_sudoku.SPACE)


def two_figures(objects):
    """Kand-Logic's own rule on two figures."""
    return lambda c: kand_logic.agreements(c, figures=2, objects=objects).any(-1).long()


@functools.cache
def small_kand():
    """Two figures of two objects with two shapes and two colours."""
    space, label = ConceptSpace(slots=4, values=(2, 2)), two_figures(2)
    states = space.all()
    states = states[label(states) == 1]
    index = {tuple(state): i for i, state in enumerate(states.tolist())}
    proposals = torch.zeros(len(states), len(states), dtype=torch.double)
    for i, state in enumerate(states.tolist()):
        for position in range(8):
            other = (*state[:position], 1 - state[position], *state[position + 1 :])
            proposals[i, index.get(other, i)] += 1 / 8
    return Chain(states, switch_one(space, label), proposals, space)


@functools.cache
def redrawn():
    """Some concepts dropped and drawn again, by the compiled rule: sums of three values."""
    space = ConceptSpace(slots=3, values=3)
    states = space.all()
    rule = from_table(space, lambda c: c.sum(-1), (2, 0, 1))
    states = states[states.sum(1) == 3]
    proposals = torch.zeros(len(states), len(states), dtype=torch.double)
    for size in (1, 2, 3):  # as many dropped concepts, each choice of them as likely
        for dropped in itertools.combinations(range(3), size):
            kept = [i for i in range(3) if i not in dropped]
            agree = (states[:, None, kept] == states[None, :, kept]).all(-1).double()  # [states, states]
            proposals += agree / agree.sum(1, keepdim=True) / 3 / math.comb(3, size)
    return Chain(states, redraw(rule), proposals, space)


CHAINS = {
    "redrawn sums": redrawn,
    **{f"evenodd sum {s}": functools.partial(evenodd, s) for s in range(19)},
    "sudoku": sudoku,
    "kand": small_kand,
}


def target(chain, log_p, gamma):
    """pi over the states: p(c|x)^(1/gamma), normalised."""
    scores = log_p[0, torch.arange(chain.space.k), chain.states].sum(1).double()
    return (scores / gamma).softmax(0)


def exact_kernel(chain, log_p, gamma):
    pi = target(chain, log_p, gamma)
    accept = (pi[None, :] / pi[:, None]).clamp_max(1.0)
    kernel = chain.proposals * accept
    off_diagonal = kernel - torch.diag(kernel.diag())
    return off_diagonal + torch.diag((1 - off_diagonal.sum(1)).clamp(0, 1))


def empirical_kernel(chain, log_p, gamma, step, generator, draws):
    count = len(chain.states)
    rows = chain.states.repeat_interleave(draws, 0)[None]  # [1, states * draws, k]
    after, *_ = step(rows, log_p, chain.move, gamma, generator)
    keys, place = chain.space.keys(chain.states).sort()
    wanted = chain.space.keys(after[0])
    at = torch.searchsorted(keys, wanted).clamp_max(count - 1)
    assert torch.equal(keys[at], wanted), "the walk left the feasible set"
    pairs = torch.arange(count).repeat_interleave(draws) * count + place[at]
    return pairs.bincount(minlength=count * count).view(count, count).double() / draws


def distance(chain, gamma, step, seed=0, draws=4000):
    """Largest deviation of the empirical from the exact kernel, in standard errors."""
    generator = torch.Generator().manual_seed(seed)
    log_p = chain.random_log_p(generator)
    exact = exact_kernel(chain, log_p, gamma)
    found = empirical_kernel(chain, log_p, gamma, step, generator, draws)
    if (found[exact == 0] > 0).any():
        return float("inf")  # a transition that cannot be
    error = (exact * (1 - exact) / draws).sqrt().clamp_min(1 / draws)
    return ((found - exact).abs() / error).max().item()


LIMIT = 6.0  # standard errors; over 10^5 entries a right kernel stays below about 5


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_one_step_of_the_walk_has_the_exact_transition_probabilities(name, gamma):
    assert distance(CHAINS[name](), gamma, metropolis) < LIMIT


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_tempered_distribution_is_stationary(name, gamma, generator):
    chain = CHAINS[name]()
    log_p = chain.random_log_p(generator)
    pi, kernel = target(chain, log_p, gamma), exact_kernel(chain, log_p, gamma)
    torch.testing.assert_close(pi @ kernel, pi, atol=1e-9, rtol=0)
    # and, within the noise of 4,000 draws per state, for the walk as it is
    walked = empirical_kernel(chain, log_p, gamma, metropolis, generator, draws=4000)
    noise = ((pi.square()[:, None] * kernel * (1 - kernel)).sum(0) / 4000).sqrt()
    assert ((pi @ walked - pi).abs() <= 6 * noise + 1e-9).all()


@pytest.mark.parametrize("name", CHAINS)
def test_every_feasible_state_can_be_reached_from_every_other(name, generator):
    chain = CHAINS[name]()
    # what the walk itself does, when every proposal is accepted
    flat = torch.zeros(1, chain.space.k, chain.space.h)
    linked = (empirical_kernel(chain, flat, 1.0, metropolis, generator, draws=300) > 0).double()
    reached = linked.new_zeros(len(linked))
    reached[0] = 1
    for _ in range(len(linked)):
        grown = ((reached @ linked + reached) > 0).double()
        if torch.equal(grown, reached):
            break
        reached = grown
    assert reached.all(), "the state graph has more than one class"


def test_single_switches_connect_all_valid_scenes_of_two_figures_of_three_objects():
    space, label = ConceptSpace(slots=6, values=(3, 3)), two_figures(3)
    everything = space.all()
    unreached = label(everything) == 1
    frontier = everything[unreached][:1]
    while len(frontier):
        unreached[space.keys(frontier)] = False  # a key is the place in the enumeration
        neighbours = [
            frontier.index_copy(1, torch.tensor([i]), (frontier[:, i : i + 1] + step) % 3)
            for i in range(space.k)
            for step in (1, 2)
        ]
        keys = torch.cat([space.keys(rows) for rows in neighbours]).unique()
        frontier = everything[keys[unreached[keys]]]
    assert not unreached.any()


def without_temperature(rows, log_p, move, gamma, generator):
    return metropolis(rows, log_p, move, 1.0, generator)


def lopsided(chain):
    """An asymmetric proposal: of two draws of the move, the row with the larger key."""

    def move(rows, generator):
        one, two = chain.move(rows, generator), chain.move(rows, generator)
        larger = chain.space.keys(one) > chain.space.keys(two)
        return torch.where(larger[..., None], one, two)

    return Chain(chain.states, move, chain.proposals, chain.space)


@pytest.mark.parametrize("name", ["evenodd sum 9", "sudoku", "kand"])
def test_a_kernel_without_the_temperature_is_noticed(name):
    assert distance(CHAINS[name](), 0.3, without_temperature) > LIMIT


@pytest.mark.parametrize("name", ["evenodd sum 9", "sudoku", "kand"])
def test_an_asymmetric_proposal_is_noticed(name):
    assert distance(lopsided(CHAINS[name]()), 1.0, metropolis) > LIMIT


@pytest.mark.parametrize("seed", range(3))
def test_kand_logic_proposals_keep_the_label_and_change_at_most_one_attribute(seed):
    generator = torch.Generator().manual_seed(seed)
    move = load("kand_logic").move
    rows = torch.randint(3, (50, 20, 18), generator=generator)
    after = move(rows, generator)
    assert torch.equal(kand_logic.label(after), kand_logic.label(rows))
    changed = (after != rows).sum(-1)
    assert changed.max() == 1 and (changed == 1).float().mean() > 0.3


def test_a_switch_chooses_concept_and_value_uniformly(generator):
    sizes = torch.tensor([2, 3, 1])
    rows = torch.zeros(60_000, 3, dtype=torch.int64)
    after = change_one(rows, sizes, generator)
    share = [((after[:, i] == v).float().mean().item()) for i, v in ((0, 1), (1, 1), (1, 2))]
    assert share == pytest.approx([1 / 3, 1 / 6, 1 / 6], abs=0.01)
    assert (after[:, 2] == 0).all()  # a concept with one value has no other
