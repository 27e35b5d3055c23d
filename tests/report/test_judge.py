"""What is drawn of a model, with prototypes and without."""

import pytest
import torch
from torch import nn

import softpnet as sp
from softpnet.report import judge
from softpnet.training.folder import RunFolder

PRIMITIVES = ((0, 0), (0, 1), (1, 1))  # not (1, 0)


@pytest.mark.parametrize(
    ("method", "prototypes", "among"),
    [("softpnet", "mean", True), ("softpnet", "learned", False), ("softg", "mean", False)],
)
def test_every_image_is_drawn_as_its_most_probable_primitive(
    method, prototypes, among, tmp_path, monkeypatch, generator
):
    space = sp.ConceptSpace(sp.Group([0, 1], (2, 2), name="look", primitives=PRIMITIVES))
    task = sp.Task(space, lambda c: c.sum(-1), settings=dict(epochs=1, batch_size=8, warmup_steps=1))
    concepts = torch.tensor(PRIMITIVES)[torch.randint(3, (20, 2), generator=generator)].flatten(1)  # [20, 4]
    examples = sp.Examples(torch.rand(20, 2, 1, 8, 8, generator=generator), task.rule(concepts), concepts)
    anchors = sp.Anchors(torch.rand(3, 1, 8, 8, generator=generator), torch.tensor(PRIMITIVES))
    flat = lambda c: nn.Sequential(nn.Flatten(), nn.Linear(64, 5))  # noqa: E731
    model = sp.Learner(task, method=method, encoder=flat, prototypes=prototypes)
    model.fit(examples.inputs, examples.labels, anchors)
    drawn = {}
    monkeypatch.setattr(judge, "learned", lambda path, **what: drawn.update(what))
    judge.draw(model, sp.Data(examples, anchors, {"test": examples}), tmp_path)

    p = model.predict(examples.inputs).probabilities.unflatten(1, (2, 2)).flatten(0, 1)  # [40, 2, 2]
    best = torch.stack([p[:, 0, a] * p[:, 1, b] for a, b in PRIMITIVES]).argmax(0)
    assert torch.equal(drawn["predicted"], best)
    assert drawn["embeddings"].shape == (40, 5)
    assert (drawn["prototypes"] is not None) == among  # learned ones need not lie among the embeddings
    assert (drawn["title"], drawn["things"]) == (f"{task.name}: what 3 labelled images taught", "images")
    assert drawn["missing"] == set()
    assert (tmp_path / "curves.png").exists()


def test_anchors_are_counted_and_vectors_are_no_images(tmp_path, monkeypatch, generator):
    task = sp.Task(sp.ConceptSpace(slots=2, values=3), lambda c: c[..., 0] * 3 + c[..., 1], name="two")
    concepts = torch.randint(3, (12, 2), generator=generator)
    examples = sp.Examples(torch.rand(12, 2, 4, generator=generator), task.rule(concepts), concepts)
    anchors = sp.Anchors(torch.rand(5, 4, generator=generator), torch.tensor([0, 0, 0, 2, 2]))
    model = sp.Learner(task, epochs=1, warmup_steps=1).fit(examples.inputs, examples.labels, anchors)
    drawn = {}
    monkeypatch.setattr(judge, "learned", lambda path, **what: drawn.update(what))
    judge.draw(model, sp.Data(examples, anchors, {"test": examples}), tmp_path)
    assert (drawn["title"], drawn["things"]) == ("two: what 5 labelled inputs taught", "inputs")
    assert drawn["missing"] == {1}


def test_group_names_of_any_letters_give_files_that_the_folder_takes(tmp_path, generator):
    groups = [sp.Group([0], 2, name="a b"), sp.Group([1], 2, name="Größe ~1")]
    task = sp.Task(sp.ConceptSpace(*groups), lambda c: c.sum(-1), settings=dict(epochs=1, warmup_steps=1))
    concepts = torch.randint(2, (12, 2), generator=generator)
    examples = sp.Examples(torch.rand(12, 2, 1, 8, 8, generator=generator), task.rule(concepts), concepts)
    one = sp.Anchors(torch.rand(2, 1, 8, 8, generator=generator), torch.arange(2))
    anchors = {"a b": one, "Größe ~1": one}
    model = sp.Learner(task, encoder=lambda c: nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    model.fit(examples.inputs, examples.labels, anchors, run=tmp_path / "run")
    judge.judge(model, sp.Data(examples, anchors, {"test": examples}), tmp_path / "run", pictures=True)
    run = RunFolder(tmp_path / "run")
    assert "learned-a%20b.png" in run and "learned-Gr%C3%B6%C3%9Fe%20%7E1.png" in run


def test_concepts_that_are_no_primitives_are_drawn_as_unknown(tmp_path, monkeypatch, generator):
    space = sp.ConceptSpace(sp.Group([0], (2, 2), primitives=PRIMITIVES))
    task = sp.Task(space, lambda c: c.sum(-1), settings=dict(epochs=1, warmup_steps=1))
    strange = sp.Examples(
        torch.rand(6, 1, 1, 8, 8, generator=generator), torch.ones(6).long(), torch.tensor([[1, 0]] * 6)
    )
    anchors = sp.Anchors(torch.rand(3, 1, 8, 8, generator=generator), torch.tensor(PRIMITIVES))
    model = sp.Learner(task, encoder=lambda c: nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    model.fit(strange.inputs, strange.labels, anchors)
    drawn = {}
    monkeypatch.setattr(judge, "learned", lambda path, **what: drawn.update(what))
    judge.draw(model, sp.Data(strange, anchors, {"test": strange}), tmp_path)
    assert drawn["true"] is None and len(drawn["predicted"]) == 6
