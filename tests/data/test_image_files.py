"""Image files that are read when a batch asks for them are those that a table reads at once."""

import numpy
import pytest
import torch
from PIL import Image

import softpnet as sp
from softpnet.data.image_files import ImageFiles
from softpnet.data.tables import Table

TASK = sp.Task(sp.ConceptSpace(slots=2, values=3), lambda c: c.sum(-1))
CONCEPTS = torch.randint(3, (20, 2), generator=torch.Generator().manual_seed(0))
SHAPE = (1, 8, 8)


@pytest.fixture
def table(tmp_path):
    """Pictures that are as bright as their value, and some noise."""
    rows = ["left,right"]
    noise = numpy.random.default_rng(0)
    for example, values in enumerate(CONCEPTS.tolist()):
        names = [f"{example}-{slot}.png" for slot in (0, 1)]
        for name, value in zip(names, values, strict=True):
            Image.fromarray((100 * value + noise.integers(50, size=(8, 8))).astype(numpy.uint8)).save(tmp_path / name)
        rows.append(",".join(names))
    (tmp_path / "table.csv").write_text("\n".join(rows))
    return Table(tmp_path / "table.csv")


def fitted(inputs, **settings):
    anchors = sp.Anchors(torch.tensor([0.1, 0.5, 0.9])[:, None, None, None].expand(3, *SHAPE), torch.arange(3))
    encoder = lambda channels: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))  # noqa: E731
    model = sp.Learner(TASK, encoder=encoder, epochs=2, batch_size=6, warmup_steps=2, threads=1, **settings)
    return model.fit(inputs, CONCEPTS.sum(-1), anchors)


def test_files_that_are_read_late_train_to_the_same_bits_as_those_in_memory(table):
    now, late = table.images(["left", "right"], SHAPE), table.image_files(["left", "right"], SHAPE)
    assert len(late) == 20 and late[3].dtype == torch.uint8 and torch.equal(late[3] / 255, now[3])
    one, other = (fitted(inputs, workers=1).module.state_dict() for inputs in (now, late))
    assert all(torch.equal(one[name], value) for name, value in other.items())


def test_a_file_that_cannot_be_read_is_named_or_skipped_as_one_chooses(table):
    (table.path.parent / "7-1.png").write_bytes(b"no picture")
    with pytest.raises(sp.InputError, match=r"7-1.png cannot be read as an image"):
        fitted(table.image_files(["left", "right"], SHAPE))
    with pytest.warns(UserWarning, match=r"inputs \[7\] cannot be read \(.*7-1.png cannot be read as an im.*\), and"):
        fitted(table.image_files(["left", "right"], SHAPE, unreadable="skip"))
    with pytest.raises(sp.InputError, match="unreadable is 'ignore', expected 'raise' or 'skip'"):
        ImageFiles([], SHAPE, unreadable="ignore")


def test_a_file_of_another_size_is_no_damage(table):
    with pytest.raises(sp.InputError, match=r"0-0.png is 8x8, expected 4x4; resize it \(.*resize=True"):
        fitted(table.image_files(["left", "right"], (1, 4, 4), unreadable="skip"))


def test_a_column_that_is_not_there_is_named(table):
    with pytest.raises(sp.InputError, match="has no column 'middle'"):
        table.image_files(["left", "middle"], SHAPE)
