"""Labels that no assignment gives are all named, with the examples that have them."""

import pytest
import torch

from softpnet import ConceptSpace, InputError, Task
from softpnet.rules.labels import find_feasible, find_labels, warn_of_unseen

TASK = Task(ConceptSpace(slots=2, values=3), lambda c: c.sum(-1), name="sums")
KNOWN = torch.arange(5)


@pytest.mark.parametrize(
    "labels, says",
    [
        ([0, 9, 1, 9], "label 9 (example ids 1, 3) has"),
        ([9] * 7, "label 9 (7 times; example ids 0, 1, 2, 3, 4, ...) has"),
        ([8, 9, 1, 9], "each of 2 labels of 3 of 4 examples, 8 (example ids 0), 9 (example ids 1, 3), has"),
        (
            [0, *range(10, 17), 12],
            "each of 7 labels of 8 of 9 examples, 10 (example ids 1), 11 (example ids 2), 12 (example ids 3, 8), "
            "13 (example ids 4), 14 (example ids 5) and 2 more, has",
        ),
    ],
)
def test_every_infeasible_label_is_named_up_to_some_with_counts(labels, says):
    labels = torch.tensor(labels)
    with pytest.raises(InputError) as caught:
        find_feasible(TASK, KNOWN, labels, labels)
    assert str(caught.value).startswith(f"{says} an empty feasible set in task 'sums': no known assignment gives it;")
    with pytest.warns(UserWarning) as warned:
        warn_of_unseen(TASK, KNOWN, labels)
    assert str(warned[0].message).startswith(
        f"{says.removesuffix(' has')} was given by none of many random assignments"
    )


def test_every_infeasible_label_vector_is_named():
    labels = torch.tensor([[0, 0], [0, 7], [5, 5], [0, 7]])
    with pytest.raises(
        InputError, match=r"each of 2 labels .* \[0, 7\] \(example ids 1, 3\), \[5, 5\] \(example ids 2\), has"
    ):
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
