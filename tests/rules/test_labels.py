"""Labels that no assignment gives are all named, with the examples that have them."""

import pytest
import torch

from softpnet import ConceptSpace, InputError, Task
from softpnet.rules.labels import find_feasible, find_labels, warn_of_unseen

TASK = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="sums")
KNOWN = torch.arange(5)


@pytest.mark.parametrize(
    "labels, examples, says",
    [
        ([0, 9, 1], "1 of 3 examples has a label", "9 (example ids 1)"),
        ([9] * 7, "7 of 7 examples have labels", "9 (7 times; example ids 0, 1, 2, 3, 4, ...)"),
        ([8, 9, 1, 9], "3 of 4 examples have labels", "8 (example ids 0), 9 (example ids 1, 3)"),
        (
            [0, *range(10, 17), 12],
            "8 of 9 examples have labels",
            "10 (example ids 1), 11 (example ids 2), 12 (example ids 3, 8), 13 (example ids 4), 14 (example ids 5) and "
            "2 more",
        ),
    ],
)
def test_every_infeasible_label_is_named_up_to_some_with_counts(labels, examples, says):
    labels = torch.tensor(labels)
    with pytest.raises(InputError) as caught:
        find_feasible(TASK, KNOWN, labels, labels)
    sentence = f"{examples} that no known values of the concepts give in task 'sums': {says}; correct the labels"
    assert str(caught.value).startswith(sentence)
    with pytest.warns(UserWarning) as warned:
        warn_of_unseen(TASK, KNOWN, labels)
    sentence = f"{examples} that none of many random assignments of task 'sums' gave: {says}, rare or impossible"
    assert str(warned[0].message).startswith(sentence)


def test_every_infeasible_label_vector_is_named():
    labels = torch.tensor([[0, 0], [0, 7], [5, 5], [0, 7]])
    with pytest.raises(InputError, match=r": \[0, 7\] \(example ids 1, 3\), \[5, 5\] \(example ids 2\);"):
        find_feasible(TASK, torch.tensor([[0, 0]]), labels, labels)


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_labels_are_found_where_they_stand_and_no_others(shape, count):
    generator = torch.Generator().manual_seed(count)
    some = torch.randint(-3, 4, (2 * count, *shape), generator=generator).unique(dim=0)[:count]
    known = some[torch.randperm(len(some), generator=generator)]  # in any order
    asked = torch.randint(-4, 5, (200, *shape), generator=generator)
    same = known[:, None] == asked
    same = same.all(-1) if shape else same  # [L, N]
    place = torch.arange(len(known))[:, None].expand(same.shape)
    expected = torch.cat([torch.full((1, 200), -1), place.masked_fill(~same, -1)]).amax(0)
    assert torch.equal(find_labels(known, asked), expected)
