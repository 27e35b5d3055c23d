"""What sets each method apart: its candidates, its target, its loss, and what it may look at."""

import itertools
import math
import signal
from typing import Any

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, Group, InputError, Learner, Settings, Task, TaskError, methods, tasks
from softpnet.methods import losses
from softpnet.methods.base import Batch, Clock
from softpnet.networks.encoders import lenet
from softpnet.rules import scoring
from softpnet.rules.compile import compilation
from softpnet.task.anchors import AnchorSet
from softpnet.training.streams import Streams

SPACE = ConceptSpace(slots=3, values=3)
TASK = Task(SPACE, lambda c: c.sum(-1), settings=dict(rule_weight=2.0))
WITHOUT_ANCHORS = ("abduction", "softg", "softg_k", "softpnet_no_anchor", "supervised")


def prepared(name, labels, task=TASK, **settings):
    generator = torch.Generator().manual_seed(0)
    kind = methods.find(name)
    chosen = Settings().override(**task.settings_in("paper") | settings | kind.fixed)
    method = kind(task, chosen, [AnchorSet(torch.rand(3, 1, 16, 16, generator=generator), torch.arange(3))])
    torch.manual_seed(0)
    module = method.module({"concept": nn.Sequential(nn.Flatten(), nn.Linear(256, 4))})
    concepts = torch.randint(3, (len(labels), 3), generator=generator)
    inputs = torch.rand(len(labels), 3, 1, 16, 16, generator=generator)
    batch = Batch(inputs, labels, torch.arange(len(labels)), concepts)
    streams = Streams(0)
    return method, module, method.start(labels, streams), batch, streams


@pytest.fixture(autouse=True)
def own_global_generator():
    with torch.random.fork_rng(devices=[]):
        yield


def rows_of(task, label):
    rows = task.space.all()
    return rows[task.rule(rows) == label]


def skewed(batch, generator):
    return torch.randn(1, 3, 3, generator=generator).log_softmax(-1).expand(batch, -1, -1)


def counts(task, rows, label):
    """How often each row of S(y) is among the rows `[N, k]`."""
    keys = task.space.keys(rows)
    return torch.stack([(keys == key).sum() for key in task.space.keys(rows_of(task, label))]).double()


def chi_square(found, share):
    expected = found.sum() * share
    return ((found - expected).square() / expected).sum().item()


# SoftG


def test_softg_s_first_candidate_is_uniform_in_the_feasible_set_whatever_the_network_says(generator):
    labels = torch.full((4000,), 3)  # 7 assignments: chi-square of 6 degrees of freedom is below 22.5 in 99.9 %
    method, _, state, batch, streams = prepared("softg", labels)
    target, _ = method.target(state, batch, skewed(4000, generator), Clock(0, 0), 1.0, streams("walk"))
    found = counts(TASK, target.argmax(-1), 3)
    assert len(found) == 7 and found.sum() == 4000
    assert chi_square(found, torch.full((7,), 1 / 7)) < 22.5


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_softg_s_candidate_walks_to_the_tempered_distribution_of_the_network(gamma, generator):
    labels = torch.full((4000,), 3)
    method, _, state, batch, streams = prepared("softg", labels)
    log_p = skewed(4000, generator)
    for epoch in range(40):
        target, _ = method.target(state, batch, log_p, Clock(epoch, 0), gamma, streams("walk"))
    rows = rows_of(TASK, 3)
    share = (log_p[0][torch.arange(3), rows].sum(-1) / gamma).softmax(0).double()
    found = counts(TASK, target.argmax(-1), 3)
    assert chi_square(found, share) < 22.5 < chi_square(found, torch.full((7,), 1 / 7))


def test_softg_is_a_cross_entropy_towards_its_one_candidate():
    method, module, state, batch, streams = prepared("softg", torch.tensor([3, 2, 4]))
    loss, _ = method.loss(module, state, batch, Clock(0, 0), streams)
    assert state.rows.shape == (3, 1, 3)
    log_p = module(batch.inputs).log_p
    expected = -log_p.gather(2, state.rows.long().transpose(1, 2)).sum((1, 2)).mean()
    torch.testing.assert_close(loss, expected)


def test_softg_k_keeps_k_uniform_candidates_and_aims_at_the_best_of_them(generator):
    method, _, state, batch, streams = prepared("softg_k", torch.full((2000,), 3), working_set=4)
    log_p = skewed(2000, generator)
    target, info = method.target(state, batch, log_p, Clock(0, 0), 1.0, streams("walk"))
    assert info["distinct"] == 4
    assert chi_square(counts(TASK, state.rows.flatten(0, 1), 3), torch.full((7,), 1 / 7)) < 22.5
    assert ((target == 0) | (target == 1)).all()
    best = scoring.scores(log_p, state.rows.long()).amax(1)
    torch.testing.assert_close(scoring.scores(log_p, target.argmax(-1)[:, None]).squeeze(1), best)
    first = state.rows.clone()
    for epoch in range(1, 4):
        method.target(state, batch, log_p, Clock(epoch, 0), 1.0, streams("walk"))
    assert not torch.equal(first, state.rows) and (TASK.rule(state.rows) == 3).all()


@pytest.mark.parametrize("name", ["softg", "softg_k"])
def test_softg_reads_with_a_lenet_where_nobody_brings_an_encoder(name):
    found = methods.find(name).encoder(3)
    assert [tuple(p.shape) for p in found.parameters() if p.dim() > 1] == [
        (6, 3, 5, 5), (16, 6, 5, 5), (120, 256), (84, 120)]  # fmt: skip


def test_lenet_gives_84_numbers_for_images_of_28_pixels_as_without_averaging(generator):
    encoder: Any = lenet(1)
    inputs = torch.rand(4, 1, 28, 28, generator=generator)
    plain = nn.Sequential(*(layer for layer in encoder if not isinstance(layer, nn.AdaptiveAvgPool2d)))
    assert torch.equal(encoder(inputs), plain(inputs)) and encoder(inputs).shape == (4, 84)
    assert encoder(torch.rand(2, 1, 16, 40, generator=generator)).shape == (2, 84)


# Abduction


@pytest.mark.parametrize("name", ["abduction", "abduction_anchored"])
def test_abduction_s_target_is_the_exact_marginal_of_the_feasible_set_in_every_epoch(name, generator):
    method, _, state, batch, streams = prepared(name, torch.tensor([3, 2]))
    log_p = skewed(2, generator)
    for epoch in (0, 7):
        clock = Clock(epoch, 0)
        target, *_ = method.target(state, batch, log_p, clock, method.gamma(clock), streams("walk"))
        for b, label in enumerate((3, 2)):
            expected = torch.zeros(3, 3)
            for c in itertools.product(range(3), repeat=3):
                if sum(c) == label:
                    p = math.exp(sum(log_p[b, i, v].item() for i, v in enumerate(c)))
                    for i, v in enumerate(c):
                        expected[i, v] += p
            torch.testing.assert_close(target[b], expected / expected[0].sum())


def test_abduction_needs_no_list_of_a_large_space():
    task = Task(ConceptSpace(slots=9, values=9), lambda c: c.sum(-1) % 2)
    method = methods.find("abduction")(
        task, Settings(**methods.find("abduction").fixed), [AnchorSet(torch.rand(9, 1, 16, 16), torch.arange(9))]
    )
    state = method.start(torch.tensor([0, 1]), Streams(0))
    batch = Batch(torch.zeros(2, 9, 1, 16, 16), torch.tensor([0, 1]), torch.arange(2))
    log_p = torch.zeros(2, 9, 9).log_softmax(-1)
    target, *_ = method.target(state, batch, log_p, Clock(0, 0), 1.0, torch.Generator())
    torch.testing.assert_close(target.sum(-1), torch.ones(2, 9))


def test_abduction_s_warm_up_is_a_cross_entropy_on_the_augmented_anchors():
    method, module, _, batch, streams = prepared("abduction_anchored", torch.tensor([3]), copies=2)
    loss = method.warm_up(module, batch.inputs[:0], streams)
    (anchors,) = method.augmented_anchors(Streams(0)("augment"))  # [3, 3, 1, 16, 16], the same draw
    logits = module.heads["of_concept"](module.encoders["of_concept"](anchors.flatten(0, 1)))
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits, torch.arange(3).repeat(3)))


@pytest.mark.parametrize("name", WITHOUT_ANCHORS)
def test_a_method_without_anchors_does_not_look_at_them(name):
    found = []
    for scale in (1.0, 0.0):
        method, module, state, batch, streams = prepared(name, torch.tensor([3, 2, 4]))
        method.anchors = [own._replace(inputs=scale * own.inputs) for own in method.anchors]
        assert method.warm_up(module, batch.inputs, streams) is None
        found.append(method.loss(module, state, batch, Clock(0, 0), streams)[0])
    assert torch.equal(*found)


# PNet+SL


def test_pnet_sl_adds_the_exact_negative_log_likelihood_of_the_label():
    labels = torch.tensor([3, 2, 4])
    method, module, state, batch, streams = prepared("pnet_sl", labels)
    loss, info = method.loss(module, state, batch, Clock(0, 0), streams)
    p = module(batch.inputs, method.augmented_anchors(Streams(0)("augment"))).log_p.exp()  # the same draw
    likelihood = torch.stack([p[b][torch.arange(3), rows_of(TASK, y)].prod(-1).sum() for b, y in enumerate(labels)])
    semantic = -likelihood.log().mean().item()
    assert not state.tensors() and info["loss_semantic"] == pytest.approx(semantic, rel=1e-5)
    assert loss.item() == pytest.approx(info["loss_proto"] + 2.0 * semantic, rel=1e-5)
    assert info["loss_proto"] > 0 and loss.requires_grad


def test_pnet_sl_of_a_rule_that_is_not_compiled_is_refused(uncompiled):
    with pytest.raises(
        TaskError, match=r"P\(y\|x\) cannot be summed exactly: the rule of task 'task' is not compiled: "
    ):
        prepared("pnet_sl", torch.tensor([3]), uncompiled(TASK))


def test_pnet_sl_names_a_label_that_no_assignment_has():
    with pytest.raises(InputError, match=r"no (known )?values of the concepts give in task .*: 9 \(example ids 1\)"):
        prepared("pnet_sl", torch.tensor([3, 9]))


# Supervised


def test_supervised_is_a_cross_entropy_of_every_concept():
    method, module, state, batch, streams = prepared("supervised", torch.tensor([3, 2, 4]))
    loss, *_ = method.loss(module, state, batch, Clock(0, 0), streams)
    logits = module.heads["of_concept"](module.embed(batch.inputs)[0])  # [B, n, P]
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), batch.concepts.flatten(), reduction="sum") / 3
    torch.testing.assert_close(loss, expected)


def test_supervised_prototypes_are_soft_pnet_with_the_truth_for_a_target():
    method, module, state, batch, streams = prepared("supervised_prototypes", torch.tensor([3, 2, 4]))
    loss, info = method.loss(module, state, batch, Clock(0, 0), streams)
    log_p = module(batch.inputs, method.augmented_anchors(Streams(0)("augment"))).log_p  # the same draw
    expected = nn.functional.nll_loss(log_p.flatten(0, 1), batch.concepts.flatten(), reduction="sum").item() / 3
    assert info["loss_concepts"] == pytest.approx(expected, rel=1e-5) and info["loss_proto"] > 0
    assert loss.item() == pytest.approx(info["loss_proto"] + 2.0 * expected, rel=1e-5)


# Ablations


def test_without_population_there_is_one_candidate_and_it_is_the_target(generator):
    method, _, state, batch, streams = prepared(
        "softpnet_no_population", torch.full((5,), 3), working_set=20, target="soft"
    )
    target, _ = method.target(state, batch, skewed(5, generator), Clock(0, 0), 1.0, streams("walk"))
    assert state.rows.shape == (5, 1, 3)
    assert torch.equal(target.argmax(-1), state.rows.squeeze(1).long()) and ((target == 0) | (target == 1)).all()


def test_without_projection_single_concepts_are_flipped_where_the_rule_allows():
    task = Task(SPACE, lambda c: (c[..., 0] == 0).long(), move=lambda rows, generator: 1 / 0)
    method, _, _, _, streams = prepared("softpnet_no_projection", torch.tensor([1, 0]), task=task)
    rows = rows_of(task, 1)[None]
    moved = method.source.move(rows, streams("walk"))
    changed = (moved != rows).sum(-1)
    assert (task.rule(moved) == 1).all() and set(changed.flatten().tolist()) == {0, 1}


def test_without_projection_a_valid_board_never_moves(generator):
    task = tasks.load("visual_sudoku")
    settings = Settings(**task.settings_in("paper"))
    method = methods.find("softpnet_no_projection")(
        task, settings, [AnchorSet(torch.rand(4, 1, 28, 28), torch.arange(4))]
    )
    method.start(torch.tensor([0, 1]), Streams(0))
    boards = task.rows(generator).rows[None].repeat(20, 1, 1)
    assert torch.equal(method.source.move(boards, generator), boards)
    assert not torch.equal(task.move(boards, generator), boards)


def kl_to_the_candidates_it_scores(log_p, labels, gamma):
    """KL from the soft target of all of S(y), as many as there are weighed by log p, to log p; by brute force."""
    rows = [rows_of(TASK, y) for y in labels]
    weights = [(log_p[b][torch.arange(3), r].sum(-1) / gamma).softmax(0).detach() for b, r in enumerate(rows)]
    target = torch.stack(
        [(nn.functional.one_hot(r, 3) * w[:, None, None]).sum(0) for r, w in zip(rows, weights, strict=True)]
    )
    return (target * (target.clamp_min(1e-30).log() - log_p)).sum((1, 2)).mean()


def test_without_anchor_the_classifier_s_own_scores_weigh_the_soft_target():
    method, module, state, batch, streams = prepared("softpnet_no_anchor", torch.tensor([3, 2]))
    loss, *_ = method.loss(module, state, batch, Clock(4, 0), streams)
    torch.testing.assert_close(loss, kl_to_the_candidates_it_scores(module(batch.inputs).log_p, (3, 2), 0.95**4))


def test_a_head_beside_the_prototypes_scores_the_candidates_and_is_pulled_while_the_episodes_train_the_prototypes():
    method, module, state, batch, streams = prepared("softpnet_head_scoring", torch.tensor([3, 2]))
    loss, info = method.loss(module, state, batch, Clock(4, 0), streams)
    head = module.heads["of_concept"]
    log_p = head(module.embed(batch.inputs)[0]).log_softmax(-1)
    expected = kl_to_the_candidates_it_scores(log_p, (3, 2), 0.95**4)
    assert info["loss_kl"] == pytest.approx(expected.item(), rel=1e-5) and info["loss_proto"] > 0
    torch.testing.assert_close(loss, info["loss_proto"] + 2.0 * expected)
    loss.backward()
    assert head.weight.grad.abs().sum() > 0


def test_what_a_head_scores_is_read_by_the_prototypes_whatever_the_head_says():
    method, module, _, batch, _ = prepared("softpnet_head_scoring", torch.tensor([3, 2]))
    method.finish(module.eval())
    read = module.log_p(batch.inputs)
    (centres,), (slots,) = module.settled(), module.embed(batch.inputs)
    torch.testing.assert_close(read, (-torch.cdist(slots, centres).square()).log_softmax(-1), rtol=1e-4, atol=1e-5)
    nn.init.zeros_(module.heads["of_concept"].weight)
    assert torch.equal(module.log_p(batch.inputs), read)


def test_without_scoring_all_candidates_weigh_the_same_whatever_the_network_says(generator):
    method, _, state, batch, streams = prepared("softpnet_no_scoring", torch.tensor([3, 2]))
    log_p = skewed(2, generator)
    for epoch in range(3):
        target, _ = method.target(state, batch, log_p, Clock(epoch, 0), 0.1, streams("walk"))
    expected = torch.stack([nn.functional.one_hot(rows_of(TASK, y), 3).double().mean(0) for y in (3, 2)])
    torch.testing.assert_close(target.double(), expected)


def test_without_scoring_draw_and_walk_stay_uniform_whatever_the_network_says(generator):
    labels = torch.full((4000,), 3)  # 7 assignments, of which one is kept: the best of ten drawn if they were scored
    method, _, state, batch, streams = prepared("softpnet_no_scoring", labels, targets="cache", working_set=1)
    log_p = skewed(4000, generator)
    for epoch in range(5):
        method.target(state, batch, log_p, Clock(epoch, 0), 0.1, streams("walk"))
        found = counts(TASK, state.rows.squeeze(1), 3)
        assert found.sum() == 4000 and chi_square(found, torch.full((7,), 1 / 7)) < 22.5


# Settings and what reaches a method


def test_settings_that_define_a_method_are_resolved_and_a_conflict_is_named():
    model = Learner(TASK, method="softg")
    assert (model.settings.working_set, model.settings.target, model.config().settings.working_set) == (
        1,
        "best",
        1,
    )
    with pytest.raises(
        InputError, match=r"working_set is 5, but method 'softg' is defined with working_set = 1; leave"
    ):
        Learner(TASK, method="softg", working_set=5)
    Learner(TASK, method="softg", working_set=1)  # as a loaded run says


def picture(values):
    """Values `[...]` -> inputs `[..., 1, 16, 16]`: four bright rows at a place that depends on the value."""
    bright = torch.arange(16)[:, None] // 4 == values[..., None, None, None]  # [..., 1, 16, 1]
    return bright.float().expand(*bright.shape[:-1], 16).clone()


class Small(nn.Sequential):
    """16x16 -> 8."""

    def __init__(self, channels):
        super().__init__(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, 8))


CONCEPTS = torch.randint(3, (48, 3), generator=torch.Generator().manual_seed(0))
ANCHORS = Anchors(picture(torch.arange(3)), torch.arange(3))
LEARNING = dict(epochs=15, batch_size=8, learning_rate=0.02, warmup_steps=5, copies=1, episodes=5, working_set=5)


def fitted(name, concepts=CONCEPTS, how=None, **settings):
    """`how` goes to `Learner.fit`."""
    model = Learner(Task(SPACE, TASK.rule, settings=LEARNING), method=name, encoder=Small, **settings)
    return model.fit(picture(CONCEPTS), TASK.rule(CONCEPTS), ANCHORS, concepts=concepts, **(how or {}))


def test_all_methods_see_the_same_batches_anchors_and_copies_of_them(monkeypatch):
    """So that their differences on a seed are the methods' own."""
    seen = {}
    for name in methods.names():
        found = seen[name] = []
        kind = methods.find(name)

        def loss(method, module, state, batch, clock, streams, found=found, own=kind.loss):
            copies = method.augmented_anchors(torch.Generator().set_state(streams("augment").get_state()))
            found.append((batch.ids, batch.inputs, batch.labels, *(own.inputs for own in method.anchors), *copies))
            return own(method, module, state, batch, clock, streams)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "loss", loss)
            fitted(name, epochs=2, warmup_steps=0)
    first, *others = ([tensor for step in steps for tensor in step[:4]] for steps in seen.values())
    assert len(first) == 2 * 6 * 4 and not torch.equal(first[0], first[6 * 4])  # two epochs of six batches, shuffled
    for other in others:
        assert all(map(torch.equal, first, other))
    anchored = [seen[name] for name in ("softpnet", "pnet_sl", "softpnet_no_population", "softpnet_no_projection")]
    for other in anchored[1:]:  # those that draw copies draw the same
        assert all(torch.equal(one[4], two[4]) for one, two in zip(anchored[0], other, strict=True))


@pytest.mark.parametrize("name", methods.names())
def test_every_method_learns_concepts_that_labels_and_anchors_determine(name):
    """Sums of three values 0, 1, 2: only the true reading explains all labels, so that even SoftG must find it."""
    scores = fitted(name).score(picture(CONCEPTS), TASK.rule(CONCEPTS), CONCEPTS)
    assert scores["concept_accuracy"] == 1, scores


def same(one, two):
    one, two = one.module.state_dict(), two.module.state_dict()
    return all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("name", methods.names())
def test_a_stopped_training_goes_on_to_the_same_bits_and_another_seed_does_not(name, tmp_path):
    """Stopped in the third epoch, where candidates have been walked."""

    def stop(step):
        if (step.warming_up, step.epoch, step.step) == (False, 2, 1):
            signal.raise_signal(signal.SIGINT)

    stopped = fitted(name, epochs=4, how={"run": tmp_path, "progress": stop})
    resumed = fitted(name, epochs=4, how={"run": tmp_path, "resume": True})
    whole = fitted(name, epochs=4)
    assert stopped.interrupted and not same(stopped, whole)
    assert same(resumed, whole) and resumed.history[-1]["epoch"] == 4
    assert not same(whole, fitted(name, epochs=4, seed=1))


@pytest.mark.parametrize("name", methods.names())
def test_true_concepts_reach_only_the_methods_that_need_them(name, monkeypatch):
    seen = []
    method = methods.find(name)
    loss = method.loss
    monkeypatch.setattr(method, "loss", lambda self, module, state, batch, *rest: (
        seen.append(batch.concepts), loss(self, module, state, batch, *rest))[1])  # fmt: skip
    fitted(name, epochs=1)
    assert seen and all((concepts is not None) == method.needs_concepts for concepts in seen)


def test_a_method_that_needs_concepts_says_so():
    with pytest.raises(InputError, match=r"'supervised' trains on the true concepts, but none are given; pass fit\("):
        fitted("supervised", concepts=None)
    with pytest.raises(InputError, match=r"concepts are torch.float32 \[48, 3\], expected an integer tensor \[48, 3\]"):
        fitted("supervised", concepts=CONCEPTS.float())
    with pytest.raises(InputError, match=r"concepts are torch.int64 \[47, 3\], expected an integer tensor \[48, 3\]"):
        fitted("supervised", concepts=CONCEPTS[1:])
    wrong = CONCEPTS.clone()
    wrong[5, 1] = 3
    with pytest.raises(InputError, match=r"of example 5 lie outside the space; expected values from 0 to below \[3, 3"):
        fitted("supervised", concepts=wrong)


@pytest.mark.parametrize("name", methods.names())
def test_views_train_on_another_image_and_groups_of_several_sizes_are_read(name):
    space = ConceptSpace(Group([0], 2, name="coarse", encoder="eye"), Group([0, 1], 3, name="fine", encoder="eye"))
    concepts = torch.tensor([[0, 0, 2], [1, 1, 0], [1, 1, 1], [0, 0, 1]])
    task = Task(space, lambda c: c.sum(-1), settings=LEARNING)
    anchors = {"coarse": Anchors(picture(torch.arange(2)), torch.arange(2)), "fine": ANCHORS}
    inputs = picture(concepts[:, 1:])
    models = [
        Learner(task, method=name, preset="paper", encoder=Small, epochs=1, views=views).fit(
            inputs, task.rule(concepts), anchors, concepts=concepts
        )
        for views in (False, True)
    ]
    found = [model.predict(inputs).probabilities for model in models]
    assert found[0].shape == (4, 3, 3) and (found[0][:, 0, 2] == 0).all() and not torch.equal(*found)


@pytest.mark.parametrize("name", methods.names())
def test_a_saved_model_reads_the_same(name, tmp_path):
    model = fitted(name, epochs=1)
    model.save(tmp_path)
    before = torch.get_rng_state()
    loaded = Learner.load(tmp_path, task=model.task, encoder=Small)
    assert torch.equal(before, torch.get_rng_state()), "loading drew from the global generator"
    assert torch.equal(loaded.predict(picture(CONCEPTS)).probabilities, model.predict(picture(CONCEPTS)).probabilities)
    assert len(loaded.prototypes()) == len(model.prototypes()) == int("prototypes" in dir(model.module))


def test_at_temperature_one_the_exact_target_teaches_what_the_likelihood_of_the_label_does(generator):
    task = tasks.load("kand_logic")
    rule = compilation(task).rule
    log_p = torch.randn(7, 18, 3, generator=generator, dtype=torch.float64).log_softmax(-1).requires_grad_()
    labels = torch.tensor([0, 1, 1, 0, 1, 0, 0])
    target = rule.marginals(log_p.detach(), labels, 1.0)
    (by_target,) = torch.autograd.grad(losses.kl(target, log_p), log_p)
    (by_likelihood,) = torch.autograd.grad(-rule.log_prob(log_p, labels).mean(), log_p)
    torch.testing.assert_close(by_target, by_likelihood)
