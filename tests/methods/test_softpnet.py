"""The step of Soft-PNet: what it augments, forwards and draws."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet.methods.base import Batch, Clock
from softpnet.methods.softpnet import Method
from softpnet.networks.augmentation import affine
from softpnet.task.anchors import AnchorSet
from softpnet.task.concepts import ConceptSpace
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.training.streams import Streams

TASK = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1))


def prepared(task=TASK, **settings):
    generator = torch.Generator().manual_seed(0)
    method = Method(
        task, Settings(**settings), [AnchorSet(torch.rand(3, 1, 16, 16, generator=generator), torch.arange(3))]
    )
    module = method.module({"concept": nn.Sequential(nn.Flatten(), nn.Linear(256, 4))})
    labels = torch.tensor([0, 1, 2, 3, 4, 2])
    batch = Batch(torch.rand(6, 2, 1, 16, 16, generator=generator), labels, torch.arange(6))
    streams = Streams(0)
    return method, module, method.start(labels, streams), batch, streams


def test_anchors_are_the_originals_and_fresh_copies_at_every_step():
    method, _, _, _, streams = prepared(copies=3)
    (one,), (two,) = (method.augmented_anchors(streams("augment")) for _ in range(2))
    assert one.shape == (4, 3, 1, 16, 16)
    assert torch.equal(one[0], method.anchors[0].inputs) and torch.equal(two[0], method.anchors[0].inputs)
    assert not torch.equal(one[1:], two[1:])


def test_a_task_s_own_augmentation_makes_the_copies_and_the_views():
    def darker(inputs, generator):
        return inputs * torch.rand(inputs.shape[:-3], generator=generator)[..., None, None, None]

    method, module, state, batch, streams = prepared(replace(TASK, augment=darker), copies=2, views=True)
    (anchors,), seen = method.augmented_anchors(Streams(0)("augment")), []
    drawn = torch.rand(2, 3, generator=Streams(0)("augment"))[..., None, None, None]
    assert torch.equal(anchors, torch.cat([method.anchors[0].inputs[None], method.anchors[0].inputs * drawn]))
    module.register_forward_hook(lambda m, given, out: seen.append(given[0]))
    method.loss(module, state, batch, Clock(0, 0), streams)
    drawn = torch.rand(6, 2, generator=Streams(0)("views"))[..., None, None, None]
    assert len(seen) == 2 and torch.equal(seen[0], batch.inputs * drawn)


def test_without_augmentation_copies_are_the_anchors_and_episodes_still_teach():
    method, module, state, batch, streams = prepared(replace(TASK, augment=None), copies=2, views=True)
    (anchors,), forwards = method.augmented_anchors(streams("augment")), []
    assert torch.equal(anchors, method.anchors[0].inputs.expand(3, -1, -1, -1, -1))
    module.register_forward_hook(lambda m, given, out: forwards.append(given[0] is batch.inputs))
    loss, info = method.loss(module, state, batch, Clock(0, 0), streams)
    assert forwards == [True]  # the view is the input itself, which need not be read twice
    loss.backward()
    assert info["loss_proto"] > 0 and all(p.grad.abs().sum() > 0 for p in module.encoders.parameters() if p.dim() > 1)


def test_weight_zero_trains_the_prototypical_loss_alone_while_working_sets_are_built():
    method, module, state, batch, streams = prepared(targets="cache", rule_weight=2.0, rule_delay=3)
    loss, info = method.loss(module, state, batch, Clock(0, 0), streams)
    assert info["rule_weight"] == 0 and abs(loss.item() - info["loss_proto"]) < 1e-6 and info["loss_kl"] > 0
    assert state.started.all()
    loss, info = method.loss(module, state, batch, Clock(3, 0), streams)
    assert abs(loss.item() - info["loss_proto"] - 2.0 * info["loss_kl"]) < 1e-5


def test_targets_carry_no_gradient():
    method, module, state, batch, _ = prepared()
    log_p = module(batch.inputs, [own.inputs[None] for own in method.anchors]).log_p.detach()
    target, *_ = method.target(state, batch, log_p, Clock(0, 0), 1.0, torch.Generator().manual_seed(0))
    assert not target.requires_grad
    torch.testing.assert_close(target.sum(-1), torch.ones(6, 2))


def test_views_score_the_clean_image_and_train_on_another():
    method, module, state, batch, streams = prepared(views=True)
    seen = []
    module.register_forward_hook(lambda m, given, out: seen.append((given[0], torch.is_grad_enabled())))
    method.loss(module, state, batch, Clock(0, 0), streams)
    (view, with_gradient), (clean, without) = seen
    assert with_gradient and not without
    assert torch.equal(clean, batch.inputs) and not torch.equal(view, batch.inputs) and view.shape == clean.shape


def test_augmented_inputs_are_read_and_trained_on_in_one_forward():
    method, module, state, batch, streams = prepared(augment_inputs=True)
    seen, targets = [], []
    module.register_forward_hook(lambda m, given, out: seen.append((given[0], out.log_p)))
    made = method.target
    method.target = lambda state, batch, log_p, *more: targets.append(log_p) or made(state, batch, log_p, *more)
    method.loss(module, state, batch, Clock(0, 0), streams)
    ((view, log_p),) = seen
    assert view.shape == batch.inputs.shape and not torch.equal(view, batch.inputs)
    assert torch.equal(targets[0], log_p)


def test_best_target_is_one_candidate():
    method, module, state, batch, streams = prepared(target="best")
    log_p = module(batch.inputs, [own.inputs[None] for own in method.anchors]).log_p.detach()
    target, *_ = method.target(state, batch, log_p, Clock(0, 0), 1.0, streams("walk"))
    assert ((target == 0) | (target == 1)).all()
    rows = target.argmax(-1)
    assert torch.equal(TASK.rule(rows), batch.labels)


def test_warm_up_uses_anchors_alone():
    method, module, _, batch, streams = prepared()
    sizes = []
    module.encoders["of_concept"].register_forward_hook(lambda m, given, out: sizes.append(len(given[0])))
    assert method.warm_up(module, batch.inputs[:0], streams).requires_grad and sizes == [4 * 3]


def test_images_beside_the_anchors_of_a_warm_up_step_carry_no_loss():
    """The encoder has no batch norm here, so they must not change anything."""
    method, module, _, batch, _ = prepared()
    alone, beside = (method.warm_up(module, batch.inputs[:count], Streams(0)) for count in (0, 5))
    torch.testing.assert_close(alone, beside)


def test_inference_prototypes_come_from_the_clean_anchors_and_a_fixed_set_of_copies():
    method, module, _, _, _ = prepared(copies=3)
    module.eval()
    method.finish(module)
    generator = torch.Generator().manual_seed(0)
    clean = method.anchors[0].inputs
    views = affine(0.0)(clean.expand(3, *clean.shape), generator)
    embedded = module.encoders["of_concept"](torch.cat([clean[None], views]).flatten(0, 1)).view(4, 3, -1)
    torch.testing.assert_close(module.settled()[0], embedded.mean(0))


def test_views_begin_after_their_delay():
    method, module, state, batch, streams = prepared(views=True, views_delay=2)
    forwards = []
    module.register_forward_hook(lambda m, given, out: forwards.append(torch.equal(given[0], batch.inputs)))
    for epoch in range(3):
        method.loss(module, state, batch, Clock(epoch, 0), streams)
    assert forwards == [True, True, False, True]  # clean, clean, then a view and the clean image


def test_learned_prototypes_are_taught_by_a_cross_entropy_on_the_anchors_and_by_the_rule():
    method, module, state, batch, streams = prepared(prototypes="learned", scaled=True, copies=2)
    anchors = method.augmented_anchors(Streams(0)("augment"))
    (log_q,) = module(batch.inputs, anchors).primitives  # [A, P, P]
    expected = -torch.stack([log_q[:, p, p] for p in range(3)]).mean()
    loss, info = method.loss(module, state, batch, Clock(0, 0), streams)
    assert abs(info["loss_proto"] - expected.item()) < 1e-6
    assert abs(loss.item() - info["loss_proto"] - info["loss_kl"]) < 1e-6
    torch.testing.assert_close(method.warm_up(module, batch.inputs[:0], Streams(0)), expected)


def test_scaled_episodes_have_scaled_distances():
    method, module, _, _, _ = prepared(scaled=True)
    reading = module(torch.zeros(0, 2, 1, 16, 16), method.augmented_anchors(Streams(0)("augment")))
    smaller = reading._replace(anchors=[reading.anchors[0] / 4**0.25])  # D is 4
    method.settings = Settings(scaled=False)
    unscaled = method.anchor_loss(smaller, Streams(0))
    method.settings = Settings(scaled=True)
    torch.testing.assert_close(method.anchor_loss(reading, Streams(0)), unscaled)


@pytest.mark.parametrize("values, pushed", [((2, 2), False), (4, True)])
def test_the_warm_up_leaves_blank_combinations_of_attributes_where_they_are(values, pushed):
    """Pushed away from all anchors, they were not learned on two of five seeds."""
    space = sp.ConceptSpace(slots=2, values=values)
    task = sp.Task(space, lambda c: c.sum(-1))
    generator = torch.Generator().manual_seed(0)
    anchors = AnchorSet(torch.rand(2, 6, generator=generator), torch.tensor([0, 3]))
    method = Method(task, Settings().override(prototypes="learned", copies=2), [anchors])
    torch.manual_seed(0)
    module = method.module({"concept": torch.nn.Linear(6, 4)})
    method.warm_up(module, torch.zeros(0, 2, 6), Streams(0)).backward()
    (prototypes,) = module.settled()
    assert prototypes.grad[[0, 3]].any() and bool((prototypes.grad[[1, 2]].abs() > 1e-6).any()) == pushed


def test_no_augmentation_is_said():
    def notes(**changes):
        task = sp.Task(sp.ConceptSpace(slots=2, values=2), lambda c: c.sum(-1), **changes)
        known = sp.Anchors(torch.rand(2, 3, 4), torch.arange(2))
        encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
        model = sp.Learner(task, encoder=encoder, epochs=1, warmup_steps=1)
        return model.fit(torch.rand(4, 2, 3, 4), torch.zeros(4, dtype=torch.int64), known).notes

    said = "no augmentation: every copy of an anchor is the same, and inputs are trained on as they are"
    assert said in notes() and said in notes(augment=None), "matrices have none by default"
    assert said not in notes(augment=lambda inputs, generator: inputs + 0.1)
