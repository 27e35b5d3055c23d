"""The rule's diagram in numpy answers as the one in torch does."""

import base64
import json
import tracemalloc
import zlib

import numpy as np
import pytest
import torch

from softpnet import ConceptSpace, Group, Rows, Task
from softpnet.errors import InputError
from softpnet.export.rule import shipped_rule
from softpnet.rules.compile import compilation
from softpnet.runtime import diagram
from softpnet.runtime.notes import FORMAT, Notes

SPACE = ConceptSpace(Group([0, 1], 3, "digit"), Group([2], (2, 2), "look"))


def vector_rule(c):
    return torch.stack([c[..., 0] + c[..., 1], c[..., 2] * c[..., 3]], -1)


TASKS = {
    "number": Task(SPACE, lambda c: c.sum(-1)),
    "vector": Task(SPACE, vector_rule),
    "rows": Task(
        SPACE,
        Rows(
            torch.tensor([[0, 0, 0, 0], [1, 2, 1, 1], [2, 1, 0, 1]]),
            torch.tensor([0, 1]),
            torch.tensor([0, 1, 1]),
            other=2,
        ),
    ),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("at_once", [1, diagram.LARGEST])
def test_labels_and_best_assignments_are_those_of_the_compiled_rule(name, at_once, generator, monkeypatch):
    monkeypatch.setattr(diagram, "LARGEST", at_once)  # in pieces, or all together
    task = TASKS[name]
    ours, theirs = shipped_rule(task)[0], compilation(task).rule
    rows = SPACE.all()
    labels, leaf = ours.label_of(rows.numpy()), theirs.leaf(rows)
    known = leaf < len(theirs.labels)
    assert known.any() and (labels[known.numpy()] == theirs.labels[leaf[known]].numpy()).all()
    assert (labels[~known.numpy()] == -1).all()
    asked = theirs.labels[torch.randint(len(theirs.labels), (40,), generator=generator)]
    log_p = torch.randn(40, SPACE.k, SPACE.h, generator=generator)
    log_p[:, 2:, 2:] = -torch.inf
    log_p = log_p.log_softmax(-1)
    found, most, total = ours.best(log_p.numpy(), asked.numpy())
    best, exists = theirs.best(log_p, asked, 1)
    assert exists.all() and (found == best[:, 0].numpy()).all()
    np.testing.assert_allclose(total, theirs.log_prob(log_p.double(), asked).numpy(), rtol=1e-6)
    scores = log_p.double().gather(2, best[:, 0, :, None]).sum((1, 2))
    np.testing.assert_allclose(most, scores.numpy(), rtol=1e-6)


def test_an_unknown_entry_may_be_anything_and_an_impossible_label_has_nothing(generator):
    ours, theirs = shipped_rule(TASKS["vector"])[0], compilation(TASKS["vector"]).rule
    log_p = torch.zeros(3, SPACE.k, SPACE.h).log_softmax(-1)
    asked = torch.tensor([[2, -1], [-1, 1], [9, 0]])
    _, most, total = ours.best(log_p.numpy(), asked.numpy())
    np.testing.assert_allclose(total[:2], theirs.log_prob(log_p[:2].double(), asked[:2]).numpy(), rtol=1e-6)
    assert np.isneginf(total[2]) and np.isneginf(most[2])


def notes(**changes):
    rule, said = shipped_rule(TASKS["number"])
    names = tuple(map(tuple, SPACE.value_names()))
    return Notes(
        **{
            **dict(
                task="t",
                slots=3,
                input_shape=(4,),
                input_type="float32",
                table_rows=None,
                unit_pixels=False,
                value_names=names,
                confidences=(0.9, 0.5),
                rule=rule,
                rule_said=said,
                traced_rule=False,
            ),
            **changes,
        }
    )


def test_notes_come_back_as_they_were():
    made = notes()
    read = Notes.from_text(made.to_text(), "file")
    rows = SPACE.all().numpy()
    assert (read.rule.label_of(rows) == made.rule.label_of(rows)).all() and read.rule.order == made.rule.order
    assert (read.value_names, read.confidences, read.input_shape) == (made.value_names, made.confidences, (4,))
    assert Notes.from_text(notes(rule=None, confidences=None).to_text(), "file").rule is None


def test_tables_of_token_ids_come_back_as_they_were():
    rows = np.array([[10, 2**63 - 1]] * 3)
    read = Notes.from_text(notes(input_type="int64", input_shape=(2,), table_rows=rows).to_text(), "file")
    assert (read.table_rows == rows).all()


def test_notes_that_are_missing_or_newer_are_refused_in_a_sentence():
    with pytest.raises(InputError, match=r"not written by softpnet.*softpnet export"):
        Notes.from_text(None, "file")
    newer = notes().to_text().replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1}, "more": 1')
    with pytest.raises(InputError, match=rf"newer softpnet, in format {FORMAT + 1}, .*upgrade"):
        Notes.from_text(newer, "file")


@pytest.mark.parametrize(
    "shape, numbers", [((2**40,), 1), ((1, 2**28 + 1), 1), ((9,), 30_000_000), ((9, 0), 30_000_000)]
)
def test_sizes_are_asked_before_anything_in_notes_is_expanded(shape, numbers):
    data = base64.b64encode(zlib.compress(bytes(numbers), 9)).decode()
    plain = json.loads(notes().to_text())
    plain["rule"]["labels"] = {"type": "<i1", "shape": shape, "data": data}
    tracemalloc.start()
    with pytest.raises(InputError, match="file is damaged"):
        Notes.from_text(json.dumps(plain), "file")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000
