"""Checkpoints: a run that was stopped, in whatever way, ends in the bits of one that was not."""

import json
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from softpnet import Anchors, ConceptSpace, InputError, Learner, Task
from softpnet.storage import from_safetensors
from softpnet.task.task import Corruption
from softpnet.training import environment
from softpnet.training.checkpoint import Checkpoints
from softpnet.training.folder import CHECKPOINT, RunFolder
from softpnet.training.loop import Training
from torture.subject import PATIENCE_S

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.rand(20, 3, 1, 8, 8, generator=GENERATOR)
LABELS = torch.randint(2, (20,), generator=GENERATOR)
ANCHORS = Anchors(torch.rand(3, 1, 8, 8, generator=GENERATOR), torch.arange(3))


class Noisy(nn.Sequential):
    """Everything that is easy to forget: statistics, momentum of a convolution in another layout, global randomness."""

    def __init__(self, channels):
        convolution = nn.Conv2d(channels, 4, 3).to(memory_format=torch.channels_last)
        super().__init__(convolution, nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 8))


def corrupted(rows, generator):
    """A row whose sum is even gets one more in its first place, where that stays in the space, or one less."""
    first = rows[..., 0]
    step = torch.where(first == 0, 1, -1)
    return torch.cat([(first + step)[..., None], rows[..., 1:]], dim=-1)


def task():
    rule = lambda c: c.sum(-1) % 2  # noqa: E731
    corrupt = Corruption(1, 0, corrupted)
    return Task(ConceptSpace(slots=3, values=3), rule, name="parity", corrupt=corrupt, settings={"targets": "cache"})


def fit(folder, progress=None, inputs=IMAGES, seed=0, resume=False, **settings):
    small = {"epochs": 3, "batch_size": 8, "warmup_steps": 3, "warmup_examples": 2, "episodes": 3, "working_set": 4}
    model = Learner(task(), seed=seed, encoder=Noisy, threads=1, **(small | {"halve_every": 1} | settings))
    return model.fit(inputs, LABELS, ANCHORS, run=folder, resume=resume, checkpoint_steps=1, progress=progress)


def outcome(folder):
    """What two equal runs share: every byte of the model, and the epochs but for their seconds."""
    run = RunFolder(folder)
    epochs = [json.loads(line) for line in run.read("epochs.jsonl").splitlines()]
    return run.read("model.safetensors"), [{k: v for k, v in e.items() if k != "seconds"} for e in epochs]


class Crash(Exception):
    pass


def crash_at(count):
    """A progress function that ends the training before the checkpoint of that step is written."""
    made = []

    def progress(step):
        made.append(step)
        if len(made) == count:
            raise Crash

    return progress


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    fit(folder)
    return outcome(folder)


STEPS = 3 + 3 * 3  # warm-up, and three batches in each of three epochs


@pytest.mark.parametrize("count", range(1, STEPS + 1))
def test_a_run_that_crashed_in_any_step_resumes_to_the_same_bits(whole, tmp_path, count):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(count))
    fit(tmp_path, resume=True)
    assert outcome(tmp_path) == whole


def test_a_run_that_crashed_again_and_again_resumes_to_the_same_bits(whole, tmp_path):
    for _ in range(STEPS - 1):  # each time two steps further, and the second is lost
        try:
            fit(tmp_path, crash_at(2), resume=True)
        except Crash:
            continue
    fit(tmp_path, resume=True)
    assert outcome(tmp_path) == whole


@pytest.mark.parametrize(
    "settings", [{"targets": "kbest"}, {"targets": "auto"}, {"views": True}, {"precision": "64-true"}], ids=str
)
def test_every_way_to_train_resumes_to_the_same_bits(tmp_path, settings):
    fit(tmp_path / "whole", **settings)
    with pytest.raises(Crash):
        fit(tmp_path / "cut", crash_at(8), **settings)
    fit(tmp_path / "cut", resume=True, **settings)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_ctrl_c_makes_a_checkpoint_and_the_run_goes_on_from_it(whole, tmp_path):
    press = {6: signal.SIGINT}
    seen = []
    model = fit(tmp_path, lambda step: (seen.append(step), signal.raise_signal(press.pop(len(seen), 0) or 0)))
    assert model.interrupted and len(seen) == 6
    model = fit(tmp_path, seen.append, resume=True)
    assert not model.interrupted and len(seen) == STEPS
    assert outcome(tmp_path) == whole


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_sigterm_and_sighup_make_a_checkpoint_and_exit_with_their_codes(whole, tmp_path, number, code):
    handler = signal.getsignal(number)
    seen = []
    with pytest.raises(SystemExit) as left:
        fit(tmp_path, lambda step: (seen.append(step), len(seen) == 5 and signal.raise_signal(number)))
    assert left.value.code == code and signal.getsignal(number) is handler
    fit(tmp_path, seen.append, resume=True)
    assert len(seen) == STEPS and outcome(tmp_path) == whole


@pytest.mark.parametrize(("number", "left"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_in_the_last_step_is_obeyed_once_the_finished_run_is_saved(whole, tmp_path, number, left):
    seen = []
    with pytest.raises(left):
        fit(tmp_path, lambda step: (seen.append(step), len(seen) == STEPS and signal.raise_signal(number)))
    assert outcome(tmp_path) == whole
    assert not fit(tmp_path, seen.append, resume=True).interrupted and len(seen) == STEPS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_process_is_left_alone_where_there_is_no_run_folder(number):
    handler, seen = signal.getsignal(number), []
    model = Learner(task(), encoder=Noisy, epochs=1, warmup_steps=0, episodes=2)
    model.fit(IMAGES, LABELS, ANCHORS, progress=lambda step: seen.append(signal.getsignal(number)))
    assert set(seen) == {handler}


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def ignored(request):
    """As nohup does it, or a shell for what a script starts in the background."""
    before = signal.signal(request.param, signal.SIG_IGN)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_that_was_ignored_at_the_start_is_ignored_in_training_too(whole, tmp_path, ignored):
    seen = []
    model = fit(tmp_path, lambda step: (seen.append(step), signal.raise_signal(ignored)))
    assert not model.interrupted and len(seen) == STEPS and outcome(tmp_path) == whole
    assert signal.getsignal(ignored) is signal.SIG_IGN


def test_a_signal_that_was_ignored_at_the_start_is_ignored_by_every_command(softpnet_here, ignored):
    code, _, _ = softpnet_here("evaluate", "no such run")
    assert code == 2 and signal.getsignal(ignored) is signal.SIG_IGN


def test_the_last_two_checkpoints_are_kept_and_no_other(tmp_path):
    kept = []
    fit(tmp_path, lambda step: kept.append(len(list(tmp_path.glob("checkpoint-*")))))
    assert max(kept) == 2 and len(list(tmp_path.glob("checkpoint-*"))) == 2


def test_checkpoints_come_every_so_many_steps_or_seconds_and_at_the_end(tmp_path):
    model = Learner(task(), encoder=Noisy, epochs=3, batch_size=8, warmup_steps=0, episodes=2)
    for name, times, made in (("steps", (4, None), 3), ("seconds", (None, 0.0), 9), ("none", (None, None), 1)):
        seen = set()
        look = lambda step, at=tmp_path / name: seen.update(p.name for p in at.glob("checkpoint-*"))  # noqa: B023, E731
        steps, seconds = times
        model.fit(
            IMAGES,
            LABELS,
            ANCHORS,
            run=tmp_path / name,
            progress=look,
            checkpoint_steps=steps,
            checkpoint_seconds=seconds,
        )
        assert len(seen | {p.name for p in (tmp_path / name).glob("checkpoint-*")}) == made


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"checkpoint_steps": 0}, "checkpoint_steps is 0"),
        ({"checkpoint_steps": True}, "checkpoint_steps is True"),
        ({"checkpoint_seconds": -1.0}, "-1.0"),
        ({"checkpoint_seconds": "x"}, "checkpoint_seconds is 'x'"),
        ({"run": 5}, "run is 5, expected the path of a folder"),
    ],
)
def test_impossible_times_of_checkpoints_are_refused(times, words):
    with pytest.raises(InputError, match=words):
        Learner(task(), encoder=Noisy).fit(IMAGES, LABELS, ANCHORS, **times)


def test_a_finished_run_is_not_trained_again(whole, tmp_path):
    fit(tmp_path)
    seen = []
    model = fit(tmp_path, seen.append, resume=True)
    assert not seen and len(model.history) == 3 and outcome(tmp_path) == whole
    assert model.predict(IMAGES).concepts.shape == (20, 3)


LONGER = "the finished run in .* goes on to 4 epochs; "


@pytest.mark.parametrize(
    "settings",
    [{}, {"targets": "kbest"}, {"keep": "best", "validation": 0.2, "views": True, "views_delay": 3}],
    ids=str,
)
def test_a_finished_run_goes_on_to_the_bits_of_one_that_had_more_epochs_from_the_start(tmp_path, settings):
    settings = {"preset": "paper"} | settings
    fit(tmp_path / "whole", epochs=4, **settings)
    fit(tmp_path / "longer", epochs=2, **settings)
    with pytest.warns(UserWarning, match=f"{LONGER}the result is that of a run of 4 epochs from the start"):
        model = fit(tmp_path / "longer", epochs=4, resume=True, **settings)
    assert outcome(tmp_path / "longer") == outcome(tmp_path / "whole") and len(model.history) == 4
    longer, config = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("longer", "whole"))
    assert longer == config


def test_a_run_that_goes_on_begins_a_new_fall_of_its_learning_rate_and_says_so(tmp_path):
    fit(tmp_path, epochs=2)
    rates, at = [], Training._update

    def update(self, loss, where):
        rates.append(self.adam.param_groups[0]["lr"])
        at(self, loss, where)

    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match=f"{LONGER}its learning rate rises"):
        patch.setattr(Training, "_update", update)
        fit(tmp_path, epochs=4, resume=True, halve_every=1)
    steps = [(epoch, step) for epoch in (2, 3) for step in range(3)]
    assert rates == pytest.approx([1e-3 * 0.5**epoch * (1 - (epoch + step / 3) / 4) for epoch, step in steps])


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_a_run_that_crashed_while_it_went_on_resumes_to_the_same_bits(tmp_path, count):
    for name in ("whole", "cut"):
        fit(tmp_path / name, epochs=2)
    with pytest.warns(UserWarning, match=LONGER):
        fit(tmp_path / "whole", epochs=4, resume=True)
    with pytest.raises(Crash), pytest.warns(UserWarning, match=LONGER):
        fit(tmp_path / "cut", crash_at(count), epochs=4, resume=True)
    assert Learner.load(tmp_path / "cut", task=task(), encoder=Noisy).interrupted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(tmp_path / "cut", epochs=4, resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_crash_before_the_longer_run_was_written_down_loses_nothing(tmp_path, monkeypatch, name):
    for folder in ("whole", "cut"):
        fit(tmp_path / folder, epochs=2)
    with pytest.warns(UserWarning, match=LONGER):
        fit(tmp_path / "whole", epochs=4, resume=True)
    write = RunFolder.write

    def crash(self, written, data):
        if written == name:
            raise Crash
        write(self, written, data)

    with monkeypatch.context() as patch, pytest.raises(Crash), pytest.warns(UserWarning, match=LONGER):
        patch.setattr(RunFolder, "write", crash)
        fit(tmp_path / "cut", epochs=4, resume=True)
    with pytest.warns(UserWarning, match=LONGER):
        fit(tmp_path / "cut", epochs=4, resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_a_finished_run_without_a_checkpoint_of_its_end_does_not_begin_again(tmp_path):
    fit(tmp_path, epochs=2)
    with RunFolder.to_write(tmp_path) as folder:
        folder.remove(folder.names(CHECKPOINT))
    before = outcome(tmp_path)
    with pytest.raises(InputError, match="has no checkpoint of its end, from which it could go on to 4 epochs"):
        fit(tmp_path, epochs=4, resume=True)
    assert outcome(tmp_path) == before


@pytest.mark.parametrize("change", [{"epochs": 1}, {"epochs": 4, "batch_size": 10}, {"epochs": 4, "seed": 1}])
def test_a_finished_run_goes_on_with_nothing_but_more_epochs(tmp_path, change):
    fit(tmp_path, epochs=2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"}
    with pytest.raises(InputError, match=r"holds another run: (epochs was 2, is 1|batch_size|seed)"):
        fit(tmp_path, resume=True, **{"epochs": 2} | change)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"} == before


def test_a_run_that_was_stopped_before_its_end_gets_no_more_epochs(tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(8), epochs=2)
    with pytest.raises(InputError, match="holds another run: epochs"):
        fit(tmp_path, epochs=4, resume=True)


def test_resuming_a_folder_without_a_run_begins_one(whole, tmp_path):
    fit(tmp_path / "new", resume=True)
    assert outcome(tmp_path / "new") == whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "seed was 0, is 1"),
        ({"epochs": 4}, "epochs was 3, is 4"),
        ({"inputs": IMAGES.flip(0)}, "inputs, labels or anchors were others"),
    ],
    ids=["seed", "settings", "data"],
)
def test_another_run_is_not_mixed_in(tmp_path, change, words):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(5))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=f"holds another run: {words}"):
        fit(tmp_path, resume=True, **change)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_other_conditions_are_warned_of_by_name(tmp_path, monkeypatch):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(5))
    known = environment.versions() | {"torch": "9.9"}
    monkeypatch.setattr(environment, "versions", lambda: known)
    with pytest.warns(UserWarning, match=r"other conditions.*torch was .*, is 9\.9"):
        fit(tmp_path, resume=True)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_same_conditions_are_not_warned_of_nor_the_number_of_workers(workers, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(tmp_path, resume=True, workers=workers)


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_can_be_chosen(whole, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(7))
    _, newer = sorted(tmp_path.glob("checkpoint-*"))
    data = bytearray(newer.read_bytes())
    data[len(data) // 2] ^= 1
    newer.write_bytes(data)
    with pytest.raises(InputError, match=f"(?s){newer.name} is damaged"):
        fit(tmp_path, resume=True)
    newer.unlink()
    with pytest.warns(UserWarning, match=f"{newer.name} was removed from"):
        fit(tmp_path, resume=True)
    assert outcome(tmp_path) == whole


def test_a_checkpoint_of_another_shape_is_refused(tmp_path, list_again):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(7))
    from safetensors.torch import save_file

    newest = sorted(tmp_path.glob("checkpoint-*"))[-1]
    tensors, notes = from_safetensors(newest.read_bytes(), newest)
    for name in ("state.rows", "order", "module.encoders.of_concept.0.weight"):
        save_file(tensors | {name: torch.zeros(2, 2)}, newest, notes)
        list_again(tmp_path)
        with pytest.raises(InputError, match=f"{newest.name} does not fit this run"):
            fit(tmp_path, resume=True)


class Tied(nn.Sequential):
    """Two layers with one weight, and a buffer that changes but is not saved."""

    def __init__(self, channels):
        super().__init__(nn.Flatten(), nn.Linear(64 * channels, 8), nn.Linear(8, 8), nn.Linear(8, 8))
        self[3].weight = self[2].weight
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, inputs):
        x = super().forward(inputs)
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return x - self.mean


def test_tied_weights_and_buffers_that_are_not_saved_resume_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "Noisy", Tied)
    fit(tmp_path / "whole")
    with pytest.raises(Crash):
        fit(tmp_path / "cut", crash_at(8))
    fit(tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_another_rule_is_another_run(tmp_path, monkeypatch):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(5))
    other = Task(
        ConceptSpace(slots=3, values=3),
        lambda c: (c[..., 0] + c[..., 1]) % 2,
        name="parity",
        settings={"targets": "cache"},
    )
    monkeypatch.setitem(globals(), "task", lambda: other)
    with pytest.raises(InputError, match="holds another run: rule was"):
        fit(tmp_path, resume=True)


def test_where_the_checkpoints_were_removed_new_ones_are_kept(whole, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(9))
    for path in tmp_path.glob("checkpoint-*"):
        path.unlink()
    with pytest.warns(UserWarning, match="was removed from"), pytest.raises(Crash):
        fit(tmp_path, crash_at(5), resume=True)
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2
    fit(tmp_path, resume=True)
    assert outcome(tmp_path) == whole


def test_checkpoints_are_in_the_order_of_their_numbers_not_of_their_letters(tmp_path):
    with RunFolder.to_write(tmp_path) as folder:
        for number in ("000003-9999-00000001", "000003-10000-00000000", "000003-0002-00000000"):
            folder.write(f"checkpoint-{number}-process0.safetensors", b"")
        listed = Checkpoints(folder, None, None, None)._listed()
    assert [number.split("-")[2] for number in listed] == ["0002", "9999", "10000"]


def test_a_removed_picture_does_not_stop_a_run(whole, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path, crash_at(9))
    with RunFolder.to_write(tmp_path) as folder:
        folder.write("learned.png", b"picture")
    (tmp_path / "learned.png").unlink()
    with pytest.warns(UserWarning, match=r"learned\.png was removed"):
        fit(tmp_path, resume=True)
    assert outcome(tmp_path) == whole


def test_a_model_is_not_saved_over_a_run(tmp_path):
    model = fit(tmp_path / "other")
    with pytest.raises(Crash):
        fit(tmp_path / "run", crash_at(2))
    with pytest.raises(InputError, match="already holds a run"):
        model.save(tmp_path / "run")
    fit(tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    "change", [{"epoch": -5}, {"epoch": "x"}, {"step": 10**9}, {"seconds": None}, {"warmup": 99}], ids=str
)
def test_a_checkpoint_of_an_impossible_position_is_refused(tmp_path, list_again, change):
    from safetensors.torch import save_file

    with pytest.raises(Crash):
        fit(tmp_path, crash_at(7))
    newest = sorted(tmp_path.glob("checkpoint-*"))[-1]
    tensors, notes = from_safetensors(newest.read_bytes(), newest)
    numbers = json.loads(notes["numbers"])
    save_file(tensors, newest, {"numbers": json.dumps(numbers | {"at": numbers["at"] | change})})
    list_again(tmp_path)
    with pytest.raises(InputError, match=f"{newest.name} does not fit this run"):
        fit(tmp_path, resume=True)


TOGETHER = """
import sys
from softpnet import Learner
sys.path.insert(0, {root!r})
from tests.training.test_checkpoint import ANCHORS, IMAGES, LABELS, Crash, Noisy, crash_at, task

def fit(run, stop=None):
    model = Learner(task(), encoder=Noisy, threads=1, processes=2, epochs=2, batch_size=4, warmup_steps=1, episodes=2)
    model.fit(IMAGES, LABELS, ANCHORS, run=run, resume=True, checkpoint_steps=1, progress=stop)

if sys.argv[1] == "resumed":
    fit("cut")
else:
    fit("whole")
    try:
        fit("cut", crash_at(4))
    except Crash:
        import os
        os._exit(7)
"""


@pytest.mark.processes
def test_processes_that_train_together_resume_together(tmp_path):
    (tmp_path / "together.py").write_text(TOGETHER.format(root=str(Path(__file__).parents[2])))

    def run(which):
        command = [sys.executable, "together.py", which]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stderr

    code, error = run("whole, then cut")
    assert code == 7, error
    code, error = run("resumed")
    assert code == 0, error
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
