"""Inputs that are read when a batch asks for them train as those in memory do, bit for bit."""

import os
import re
import signal
import sys

import numpy
import pytest
import torch
from PIL import Image
from torch import nn

import softpnet as sp
from softpnet.errors import InputError
from softpnet.task.lazy import LazyInputs, numbers

TASK = sp.Task(sp.ConceptSpace(slots=2, values=3), lambda c: c.sum(-1))
SMALL = {"epochs": 2, "batch_size": 5, "warmup_steps": 2, "warmup_examples": 2, "copies": 1, "threads": 1}
CONCEPTS = torch.randint(3, (24, 2), generator=torch.Generator().manual_seed(0))
BYTES = torch.randint(256, (24, 2, 1, 8, 8), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
LABELS = CONCEPTS.sum(-1)
ANCHORS = sp.Anchors(torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(2)), torch.arange(3))


def encoder(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, 4))


class Items:
    """A source that gives one example by its number, and counts how often it is asked."""

    def __init__(self, items=BYTES):
        self.items, self.asked = items, 0

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        self.asked += 1
        return self.items[number]


class Batched(Items):
    """One that also gives many at once."""

    def __getitems__(self, ids):
        self.asked += 1
        return [self.items[number] for number in ids]

    def __getitem__(self, number):
        raise AssertionError("asked for one item, though it gives many at once")


class Parts(Items):
    """One whose examples are dicts of a part per slot."""

    def __getitem__(self, number):
        left, right = self.items[number]
        return {"left": left.numpy(), "right": right}


class Columns:
    """A table of columns with the protocol of a Hugging Face `datasets.Dataset`: a number gives a dict, a list of
    numbers a dict of columns, and `__getitems__` a list of dicts."""

    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, which):
        if isinstance(which, list):
            return {name: [column[i] for i in which] for name, column in self.columns.items()}
        return {name: column[which] for name, column in self.columns.items()}

    def __getitems__(self, ids):
        batch = self[ids]
        return [{name: column[i] for name, column in batch.items()} for i in range(len(ids))]


def pictures(slot):
    return [Image.fromarray(item[slot, 0].numpy()) for item in BYTES]


def fitted(inputs, validation=None, run=None, **settings):
    model = sp.Learner(TASK, encoder=encoder, seed=0, **SMALL | settings)
    return model.fit(inputs, LABELS, ANCHORS, validation=validation, run=run)


def weights(model):
    return {name: value.clone() for name, value in model.module.state_dict().items()}


@pytest.fixture(scope="module")
def in_memory():
    return weights(fitted(BYTES.float() / 255))


def memory_map(folder):
    numpy.save(folder / "inputs.npy", BYTES.numpy())
    return numpy.load(folder / "inputs.npy", mmap_mode="r")


@pytest.mark.parametrize(
    ("source", "slots"),
    [
        (Columns(left=pictures(0), right=pictures(1)), 2),
        (Columns(left=BYTES[:, 0], right=BYTES[:, 1]), 2),  # with_format("torch")
        (Columns(images=list(zip(pictures(0), pictures(1), strict=True))), 2),
        (Columns(images=[[*item] for item in BYTES]), 2),
        (Columns(images=BYTES), 2),
        (Columns(image=pictures(0)), 1),
        (Columns(image=BYTES[:, 0]), 1),
        (pictures(0), 1),
    ],
)
def test_columns_of_images_are_slots(source, slots):
    found = LazyInputs(source, slots)
    assert found.shape == BYTES[:, :slots].shape
    assert torch.equal(found[:], BYTES[:, :slots])


def test_a_colour_picture_is_one_slot_and_not_three():
    colour = [Image.new("RGB", (4, 5))]
    assert LazyInputs(colour, 1).shape == (1, 1, 3, 5, 4)
    with pytest.raises(InputError, match=r"example 0 has shape \[1, 3, 5, 4\], expected \[3, ...\]"):
        LazyInputs(colour, 3)


def test_a_column_too_many_is_named():
    with pytest.raises(InputError, match=r"entries left, right, label, expected 2, .* by select_columns\(\[...\]\)"):
        LazyInputs(Columns(left=pictures(0), right=pictures(1), label=LABELS), 2)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["bytes", "items", "batched", "parts", "list", "memory map"])
def test_a_run_has_the_same_bits_wherever_its_inputs_come_from(kind, workers, in_memory, tmp_path):
    sources = {"bytes": lambda: BYTES, "items": Items, "batched": Batched, "parts": Parts, "list": lambda: list(BYTES)}
    source = memory_map(tmp_path) if kind == "memory map" else sources[kind]()
    found = weights(fitted(source, workers=workers))
    assert all(torch.equal(found[name], value) for name, value in in_memory.items())


def test_a_source_is_asked_for_a_batch_at_a_time_and_never_for_all():
    source = Batched()
    inputs = LazyInputs(source, 2)
    assert (source.asked, inputs.shape, inputs.dtype) == (1, torch.Size([24, 2, 1, 8, 8]), torch.uint8)
    parts = inputs.split(10)
    assert torch.equal(next(parts), BYTES[:10]) and source.asked == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_reads_from_a_source_resumes_bit_exactly(workers, tmp_path):
    def interrupt(done):
        if not done.warming_up and (done.epoch, done.step) == (0, 2):
            signal.raise_signal(signal.SIGINT)

    settings = SMALL | {"epochs": 3, "workers": workers}
    whole = sp.Learner(TASK, encoder=encoder, **settings).fit(Items(), LABELS, ANCHORS)
    first = sp.Learner(TASK, encoder=encoder, **settings)
    first.fit(Items(), LABELS, ANCHORS, run=tmp_path / "run", progress=interrupt)
    assert first.interrupted
    second = sp.Learner(TASK, encoder=encoder, **settings)
    second.fit(Items(), LABELS, ANCHORS, run=tmp_path / "run", resume=True)
    assert all(torch.equal(weights(second)[name], value) for name, value in weights(whole).items())


def test_predictions_and_scores_read_from_a_source():
    model = fitted(BYTES)
    assert torch.equal(model.predict(Items()).probabilities, model.predict(BYTES).probabilities)
    assert model.score(Items(), LABELS, CONCEPTS) == model.score(BYTES, LABELS, CONCEPTS)


@pytest.mark.parametrize(
    "kind, expected",
    [
        (torch.uint8, torch.float32),
        (torch.float16, torch.float32),
        (torch.float64, torch.float32),
        (torch.int32, torch.int64),
    ],
)
def test_bytes_and_real_numbers_become_single_precision_and_whole_numbers_stay_whole(kind, expected):
    given = torch.tensor([0, 1, 2], dtype=kind)
    factor = 255 if kind == torch.uint8 else 1
    assert torch.equal(numbers(given), (torch.tensor([0, 1, 2]) / factor).to(expected))


class Shrinking(Items):
    def __len__(self):
        return 24 if self.asked < 10 else 23


class Odd(Items):
    """Its example 7, or others, are something else."""

    def __init__(self, odd, at=(7,)):
        super().__init__()
        self.odd, self.at = odd, at

    def __getitem__(self, number):
        return self.odd if number in self.at else super().__getitem__(number)


class Broken(Items):
    def __getitem__(self, number):
        if number == 7:
            raise OSError("the disk is gone")
        return super().__getitem__(number)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "source, sentence",
    [
        (Shrinking(), "the source of inputs had 24 items and now has 23; it must not change"),
        (
            Odd(BYTES[0, :, :, :4]),
            r"input 7 is torch.uint8 \[2, 1, 4, 8\], but the first is torch.uint8 \[2, 1, 8, 8\]",
        ),
        (
            Odd(BYTES[0].float()),
            "input 7 is torch.float32 .*, but the first is torch.uint8 .*; give all of them one type",
        ),
        (Odd(BYTES[0, :1]), r"example 7 has shape \[1, 1, 8, 8\], expected \[2, ...\]; give every example an"),
        (Odd("a word"), "input 7 is str, expected an array"),
        (Odd((BYTES[0], LABELS[0])), "input 7 is tuple, .*; a source that also has labels must be asked for its"),
        (Broken(), r"the source of inputs, a Broken, cannot be read at 7: .*the disk is gone"),
    ],
)
def test_what_is_wrong_with_a_source_is_said_in_a_sentence(source, sentence, workers):
    source.asked = 0
    with pytest.raises(sp.InputError, match=sentence):
        fitted(source, workers=workers, warmup_examples=0)


def test_a_list_whose_examples_differ_in_their_slots_names_the_first_that_is_wrong():
    for lengths, wrong in (([2, 2, 3, 1], 2), ([1, 2, 2, 2], 0)):
        ragged = [torch.zeros(length, 1, 8, 8) for length in lengths]
        shape = rf"example {wrong} has shape \[{lengths[wrong]}, 1, 8, 8\], expected \[2, ...\]"
        with pytest.raises(sp.InputError, match=f"{shape}; give every example an input for each of the 2 slots"):
            sp.Learner(TASK, encoder=encoder, epochs=1, warmup_steps=1).fit(ragged, LABELS[:4], ANCHORS)


class Dying(Items):
    """A reading process that comes to example 7 is killed."""

    home = os.getpid()

    def __getitem__(self, number):
        if number == 7 and os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(number)


def test_a_reading_process_that_dies_ends_the_training_with_a_sentence():
    with pytest.raises(
        sp.TrainingError, match=r"a process that reads inputs has ended by itself.*resume from the last"
    ):
        fitted(Dying(), workers=1, warmup_examples=0)


def test_an_example_that_is_none_is_skipped_in_training_with_a_warning_and_refused_elsewhere():
    with pytest.warns(UserWarning, match=r"inputs \[7\] cannot be read, and are skipped"):
        model = fitted(Odd(None), warmup_examples=0)
    with pytest.raises(sp.InputError, match=r"inputs \[7\] cannot be read, and here none may be skipped"):
        model.predict(Odd(None))


class Silent(Odd):
    """A source that says why an example is to be skipped."""

    def why(self, number):
        return f"number {number} is torn"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_source_may_say_why_an_example_is_skipped(workers):
    sentence = r"inputs \[7\] cannot be read \(number 7 is torn\), and "
    with pytest.warns(UserWarning, match=sentence + "are skipped"):
        model = fitted(Silent(None), warmup_examples=0, workers=workers)
    with pytest.raises(sp.InputError, match=sentence + "here none may"):
        model.predict(Silent(None))
    many = LazyInputs(Silent(None, at=range(1, 24)), 2)
    assert "number 5 is torn; ...)" in many.lost(range(1, 24)) and "number 6" not in many.lost(range(1, 24))


def test_validation_examples_that_are_skipped_are_named_by_their_own_numbers():
    with pytest.warns(UserWarning, match=r"of the validation examples, inputs \[.*\] cannot be read \(") as said:
        fitted(Silent(None, at=range(1, 24, 2)), warmup_examples=0, validation=0.5)
    told = [str(each.message) for each in said if "of the validation" in str(each.message)]
    shown, reasons = told[0].split("(")
    numbers = [int(word) for word in re.findall(r"\d+", shown)]
    assert numbers and all(number % 2 for number in numbers) and f"number {numbers[0]} is torn" in reasons
    with pytest.warns(UserWarning, match=r"of the validation examples, inputs \[7\] cannot be read, and are skipped"):
        fitted(BYTES, validation=sp.Examples(Odd(None), LABELS))


class AtOnce(Items):
    """What it gives for many numbers is not what was asked for."""

    def __init__(self, give):
        super().__init__()
        self.give = give

    def __getitems__(self, ids):
        return self.give(ids)


@pytest.mark.parametrize(
    "give, found",
    [
        (lambda ids: [BYTES[0]] * (len(ids) + 1), "gives list of 2 items"),
        (lambda ids: [], "gives list of 0 items"),
        (lambda ids: None, "gives NoneType"),
        (lambda ids: {"left": BYTES[ids, 0], "right": BYTES[ids, 1]}, "gives dict of the columns left, right"),
    ],
)
def test_a_source_that_gives_another_number_of_items_than_asked_is_named(give, found):
    with pytest.raises(sp.InputError, match=f"a AtOnce, {found}, expected a list with an item for each of the 1 num"):
        fitted(AtOnce(give))


class Quitting(Items):
    def __getitem__(self, number):
        return sys.exit(3) if number == 7 else super().__getitem__(number)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_source_that_ends_the_process_is_a_sentence(workers):
    with pytest.raises(sp.InputError, match=r"a Quitting, cannot be read at 7: SystemExit\(3\)"):
        fitted(Quitting(), workers=workers, warmup_examples=0)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("change", [lambda item: item.bfloat16(), lambda item: item.float().requires_grad_()])
def test_items_in_bfloat16_or_with_gradients_are_read(change, workers, tmp_path):
    model = fitted([change(item) for item in BYTES], workers=workers, run=tmp_path / "run")
    whole = fitted(torch.stack([change(item).detach() for item in BYTES]), run=tmp_path / "whole")
    assert all(torch.equal(weights(model)[name], value) for name, value in weights(whole).items())


def test_a_memory_map_of_another_order_of_bytes_is_read(tmp_path):
    numpy.save(tmp_path / "big.npy", BYTES.numpy().astype(">f4"))
    found = LazyInputs(numpy.load(tmp_path / "big.npy", mmap_mode="r"), 2)
    assert found.dtype == torch.float32 and torch.equal(found[:], BYTES.float())


def test_the_first_example_may_be_skipped_too():
    with pytest.warns(UserWarning, match=r"inputs \[0\] cannot be read, and are skipped"):
        assert fitted(Odd(None, at=(0,)), warmup_examples=0).history


def test_examples_that_are_held_out_are_skipped_too_and_the_others_named_by_their_own_numbers():
    with pytest.warns(UserWarning, match=r"inputs .* cannot be read, and are skipped") as said:
        model = fitted(Odd(None, at=range(1, 24, 2)), warmup_examples=0, validation=0.5)
    assert "validation_label_accuracy" in model.history[-1]
    named = [int(word) for each in said for word in re.findall(r"\d+", str(each.message))]
    assert named and all(number % 2 for number in named)


@pytest.mark.parametrize("value", [torch.nan, 1e300])
def test_numbers_that_are_not_finite_are_named_by_their_example(value):
    images = BYTES.double()

    class Lazy(Items):
        def __getitem__(self, number):
            return torch.full_like(images[0], value) if number == 7 else images[number]

    said = re.escape(f"input 7 holds {value:g}, expected finite") + ".*; mend it, or give None to have it skipped"
    with pytest.raises(sp.InputError, match=said):
        fitted(Lazy(), warmup_examples=0)


def test_a_source_of_which_nothing_can_be_read_is_named():
    with pytest.raises(sp.InputError, match="none of the 24 inputs can be read"):
        fitted([None] * 24)
    with pytest.raises(sp.InputError, match="none of the 24 inputs can be read; the first: number 0 is torn"):
        fitted(Silent(None, at=range(24)))
    with pytest.raises(sp.InputError, match="inputs are empty"):
        fitted([])


def test_a_warning_names_some_of_many_lost_inputs():
    torn = LazyInputs([*[None] * 30, torch.zeros(2, 3)], 2)
    assert torn.lost(range(30)).startswith("inputs [0, 1, 2,") and "19], and 10 more cannot" in torn.lost(range(30))
