"""One run over hosts: two processes under torchrun against one alone, killed and started again, and refused."""

import contextlib
import json
import shutil
import subprocess
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from softpnet import InputError, Learner
from softpnet.cli import main as command
from softpnet.errors import EchoedError, ShareWarning, TrainingError
from softpnet.methods import softpnet
from softpnet.storage import from_safetensors
from softpnet.task.hardware import Hardware
from softpnet.together import Together, _Drawing
from softpnet.training import prepare
from softpnet.training.checkpoint import Checkpoints
from softpnet.training.folder import RunFolder
from softpnet.training.launcher import is_first, launcher, with_launcher
from softpnet.training.lock import hold
from softpnet.training.meeting import agreed_name
from softpnet.training.order import own_order, warm_up_ids
from softpnet.training.processes import SAME_VERSIONS, check_versions, launched
from softpnet.training.run import Run
from tests.training import pair
from tests.training.test_checkpoint import Crash, crash_at, outcome
from torture.subject import PATIENCE_S
from torture.together import as_two

pytestmark = pytest.mark.processes

TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
SRUN = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "6", "SLURM_NTASKS_PER_NODE": "3", "SLURM_PROCID": "5"}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The folder of what two processes did, and what torchrun and they printed."""
    folder = tmp_path_factory.mktemp("two")
    with contextlib.suppress(Crash):
        pair.fit(folder / "of-one", crash_at(pair.CUT))
    words = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1", "-m", "tests.training.pair", str(folder)]
    with (folder / "printed").open("w+") as printed:  # a pipe would be waited for as long as anything holds it
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words],
            cwd=Path(__file__).parents[2],
            stdout=printed,
            stderr=printed,
            timeout=PATIENCE_S,
        )
    assert done.returncode == 0, (folder / "printed").read_text()
    return folder


def said(folder, rank):
    return torch.load(folder / f"said-{rank}.pt", weights_only=True)


@pytest.mark.parametrize("case, precision", [*((case, "64-true") for case in pair.CASES), ("even", "32-true")])
def test_two_processes_compute_what_one_would_on_the_same_batches(two, monkeypatch, case, precision):
    """Batch norm, balance, augmentation, walks, corruption and labels drawn evenly are those of the whole batch."""
    (one, history), (other, same) = (
        torch.load(two / f"{case}-{precision}-{rank}.pt", weights_only=True) for rank in (0, 1)
    )
    as_two(monkeypatch.setattr, pair.SHORT["batch_size"] // 2)
    alone, told = pair.steps(case, precision)
    assert torch.equal(one[:, 1:], other[:, 1:]) and history == same
    shared = torch.cat([(one[:, :1] + other[:, :1]) / 2, one[:, 1:]], 1)
    double = precision == "64-true"
    steps = slice(None) if double else slice(1)  # in single precision later steps are on other weights
    off = (shared - alone)[steps].norm(dim=1) / alone[steps].norm(dim=1)
    assert off.max() < (1e-9 if double else 1e-6)
    for now, then in zip(history, told, strict=True):
        # Of a share of proposals, the processes' mean is not that of all of them.
        assert {k: v for k, v in now.items() if k != "acceptance"} == pytest.approx(
            {k: v for k, v in then.items() if k != "acceptance"}, rel=1e-9 if double else 1e-3
        )


def test_with_each_ones_own_statistics_it_is_another_gradient_from_the_first_step(two):
    own, shared = (torch.load(two / f"{case}-64-true-0.pt", weights_only=True)[0] for case in ("local", "recipe"))
    assert (own - shared)[0, 1:].norm() > 1e-3 * shared[0, 1:].norm()


def test_a_killed_process_is_started_again_and_the_run_ends_in_the_same_bits(two):
    assert outcome(two / "cut") == outcome(two / "whole")


def test_a_run_goes_on_with_more_processes_and_says_so_once(two):
    told = [said(two, rank)["of-one"] for rank in (0, 1)]
    assert told[1] == [] and len(told[0]) == 1
    assert told[0][0].startswith("the run goes on with 2 processes instead of 1: nothing is lost, but its bits differ")
    assert len(outcome(two / "of-one")[1]) == 3


def test_a_run_goes_on_with_fewer_processes_and_nothing_is_lost(two, tmp_path):
    folder = RunFolder(shutil.copytree(two / "of-two", tmp_path / "of-two"))
    names = folder.names(r"checkpoint-.*-00000001-process\dof2\.safetensors")
    shards = [from_safetensors(folder.read(name), folder.path / name)[0] for name in names]
    chosen = pair.SHORT | pair.CASES["walk"] | {"epochs": 3}
    training = Learner(pair.task(), threads=1, **chosen).prepared(pair.IMAGES, pair.LABELS, pair.ANCHORS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Checkpoints(folder, training, None, None).restore()
    assert "goes on with 1 process instead of 2" in str(caught[0].message)
    for rank, shard in enumerate(shards):
        for name in ("started", "count", "rows"):
            assert torch.equal(getattr(training.state, name)[rank::2], shard[f"state.{name}"])
        assert all(torch.equal(value, shard[f"module.{name}"]) for name, value in training.module.state_dict().items())
        assert torch.equal(training.streams("walk").get_state(), shard["stream.walk"])
    made = training.at.step * training.share
    left = [int(i) for shard in shards for i in shard["order"][made // 2 :]]
    assert sorted(training.order[made:].tolist()) == sorted(left) and len(left) == 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair.fit(folder.path, resume=True)
    assert [each["epoch"] for each in outcome(folder.path)[1]] == [1, 2, 3]


@pytest.mark.parametrize(
    "case, rank, sentence",
    [
        ("batch", 0, "batch_size is 9, of which 2 processes cannot have equal shares; choose batch_size = 8"),
        ("many", 0, "2 processes are to train on 1 examples, expected at most one for each; start fewer"),
        ("disk", 1, "is not the folder that process 0 writes on"),
        ("seed", 1, "would train on something else than process 0: seed was 0, is 1; give all hosts the same"),
        ("data", 1, "would train on something else than process 0: data was"),
        ("versions", 1, "runs other versions than process 0 on"),
    ],
)
def test_what_cannot_begin_together_is_said_by_one_and_ends_both(two, case, rank, sentence):
    speaker, other = said(two, rank)[case], said(two, 1 - rank)[case]
    assert speaker.startswith("InputError: ") and sentence in speaker
    assert other == f"EchoedError: process {rank} of those that train together cannot begin: {speaker[12:]}"


def test_a_process_that_only_echoes_says_nothing(monkeypatch, capsys):
    def echo(*_):
        raise EchoedError(1, "said elsewhere")

    monkeypatch.setattr(command, "_parsed", echo)
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capsys.readouterr().err == ""


def test_the_first_process_warns_for_all_and_each_for_its_own_share(monkeypatch, capsys):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert not is_first()
    command._warn("all see it", UserWarning, "file", 1)
    command._warn("one sees it", ShareWarning, "file", 1)
    monkeypatch.setenv("RANK", "0")
    command._warn("the first sees it", UserWarning, "file", 1)
    said = capsys.readouterr().err.splitlines()
    assert said == ["softpnet: warning: one sees it", "softpnet: warning: the first sees it"]


def test_a_commit_that_is_not_known_is_named_so(monkeypatch):
    monkeypatch.setattr(
        "softpnet.training.processes.versions", lambda: dict.fromkeys(SAME_VERSIONS, "1") | {"commit": ""}
    )
    theirs = "other", dict.fromkeys(SAME_VERSIONS, "1")
    host = SimpleNamespace(world_size=1, global_rank=0, broadcast=lambda mine: theirs)
    with pytest.raises(InputError, match="than process 0 on other: commit was 1, is unknown; install the same"):
        check_versions(host)


def test_launchers_are_known_by_what_they_set():
    assert launcher({}) is None
    assert launcher(TORCHRUN)[1:] == (3, 4, 2)
    assert launcher(SRUN) == ("srun", 5, 6, 3)
    assert launcher(SRUN | TORCHRUN).name == "torchrun"
    assert launcher({k: v for k, v in SRUN.items() if k != "SLURM_STEP_ID"}) is None  # a batch script without srun
    assert launcher(SRUN | {"SLURM_JOB_NAME": "bash"}) is None
    with pytest.raises(InputError, match=r"srun has started 6 processes without .*; give it --ntasks-per-node"):
        launcher({k: v for k, v in SRUN.items() if k != "SLURM_NTASKS_PER_NODE"})


def test_a_batch_job_of_slurm_s_that_runs_the_command_itself_is_one_process(monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_JOB_NAME", "mine")
    assert launched(Hardware()).world_size == 1


def test_hosts_with_different_numbers_of_processes_are_refused_with_a_sentence(monkeypatch):
    for name, value in (TORCHRUN | {"WORLD_SIZE": "3"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="there are 3 processes, 2 of them on this machine, so that not all have as m"):
        launched(Hardware(processes=3))


def test_a_process_that_ends_before_the_first_step_is_a_sentence_too(monkeypatch):
    def gone(*_):
        raise RuntimeError("Connection closed by peer")

    two = SimpleNamespace(world_size=2, global_rank=0, is_global_zero=True, device=torch.device("cpu"))
    monkeypatch.setattr(prepare, "launched", lambda *_: two)
    monkeypatch.setattr(prepare, "agreed", gone)
    with pytest.raises(TrainingError, match="one of the 2 processes that train together has ended"):
        pair.fit(None)


def test_a_launcher_says_how_many_processes_there_are(monkeypatch, softpnet_here):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert with_launcher(Hardware()).processes == with_launcher(Hardware(processes=4)).processes == 4
    with pytest.raises(InputError, match="processes is 2, but torchrun has started 4 that train together; leave"):
        Learner(pair.task(), processes=2)
    code, _, error = softpnet_here("train", "mnist_evenodd", "--option", "train=16")
    assert code == 2 and "torchrun has started 4 processes, which need one folder" in error


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_is_started_again_when_all_is_done_waits_for_nobody(monkeypatch, tmp_path, rank):
    """The others may have ended: it was killed between its last word to them and its end."""
    done = pair.fit(tmp_path)
    for name, value in (TORCHRUN | {"RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": "1"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("softpnet.training.processes.meet", lambda *given: pytest.fail("it waits for the others"))
    with hold(tmp_path) if rank else contextlib.nullcontext():  # the first one may be reading it
        again = pair.fit(tmp_path, batch_size=8)
    assert again.history == done.history and again.is_main_process == (rank == 0)


def test_what_is_started_again_waits_for_the_folder_and_resumes(monkeypatch, tmp_path):
    monkeypatch.setattr("softpnet.training.run.ENDING_S", 0.3)
    with hold(tmp_path):
        for count, least in (("0", 0), ("1", 1)):
            monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
            slept = []
            monkeypatch.setattr("softpnet.training.run.time.sleep", slept.append)
            run = Run(tmp_path, False, None, None)
            assert run.resume == bool(least)
            alone = type("Alone", (), {"world_size": 1, "global_rank": 0, "is_global_zero": True})()
            with pytest.raises(InputError, match="is in use by process"), run.opened(lambda: None, alone):
                pass
            assert (len(slept) > 0) == bool(least)


class Kept:
    """A store as torchrun's, which keeps what those wrote that have ended."""

    def __init__(self):
        self.held = {}

    def set(self, key, value):
        self.held[key] = value.encode()

    def get(self, key):
        return self.held[key]

    def check(self, keys):
        return all(key in self.held for key in keys)


def test_processes_that_are_started_again_do_not_meet_those_that_have_ended():
    store, wait = Kept(), timedelta(seconds=0.2)
    store.set("softpnet/offer", "old")
    store.set("softpnet/old/met", '["someone else"]')
    with pytest.raises(RuntimeError, match="timed out"):
        agreed_name(store, 1, 2, 1, wait)
    # But once the first one accepts what this one has answered, they meet under that name.
    answers, plain = [], store.set

    def accept(key, value):
        answers.append(value)
        plain("softpnet/old/met", json.dumps(answers))

    store.set = accept
    assert agreed_name(store, 1, 2, 1, timedelta(seconds=PATIENCE_S)) == "old"


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_orders_of_all_processes_are_disjoint_and_as_long_and_leave_out_others_every_time(processes):
    labels, generators = torch.arange(11) % 2, [torch.Generator().manual_seed(0) for _ in range(processes)]
    left_out = set()
    for _ in range(20):
        orders = [own_order(labels, r, processes, False, each) for r, each in enumerate(generators)]
        assert all(len(order) == 11 // processes and (order % processes == r).all() for r, order in enumerate(orders))
        seen = torch.cat(orders).tolist()
        assert len(set(seen)) == len(seen)
        left_out |= set(range(11)) - set(seen)
    assert len({bytes(each.get_state()) for each in generators}) == 1
    assert len(left_out) == {1: 0, 2: 6, 3: 8}[processes]  # those of the longer orders


def test_the_order_of_one_process_is_what_it_was():
    labels, one, two = torch.arange(9), torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    assert torch.equal(own_order(labels, 0, 1, False, one), torch.randperm(9, generator=two))
    assert torch.equal(warm_up_ids(5, 9, 0, 1, one), torch.randint(9, (5,), generator=two))


DRAWS = {
    "rand": lambda b, g: torch.rand(2 * b, 3, generator=g),
    "rand of a size": lambda b, g: torch.rand(size=(b, 3), generator=g),
    "randint": lambda b, g: torch.randint(5, (b,), generator=g),
    "randint between": lambda b, g: torch.randint(2, 5, (b, 2), generator=g),
    "in place": lambda b, g: torch.zeros(b, 4).exponential_(generator=g),
    "by weights": lambda b, g: torch.multinomial(torch.ones(b, 4), 2, generator=g),
    "normal": lambda b, g: torch.normal(0.0, 1.0, (b, 40), generator=g),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_process_draws_what_one_would_for_its_rows(draw):
    whole, generator = draw(6, torch.Generator().manual_seed(0)), torch.Generator()
    states = []
    for rank in range(3):
        with Together(rank, 3).drawing(2):
            part = draw(2, generator.manual_seed(0))
        assert torch.equal(part, whole.tensor_split(3)[rank])
        states.append(bytes(generator.get_state()))
    assert len(set(states)) == 1


def test_a_row_that_could_not_be_read_shifts_no_other_draw():
    whole, generator = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)), torch.Generator().manual_seed(0)
    with Together(1, 3).drawing(2, torch.tensor([1])):
        assert torch.equal(torch.rand(1, 3, generator=generator), whole[3:4])
    used = torch.Generator().manual_seed(0)
    torch.rand(6, 3, generator=used)
    assert torch.equal(generator.get_state(), used.get_state())


def test_a_step_is_told_where_what_could_be_read_stood(monkeypatch):
    class Some(torch.utils.data.Dataset):
        def __len__(self):
            return len(pair.IMAGES)

        def __getitem__(self, number):
            return None if number % 3 == 0 else pair.IMAGES[number]

    seen = []

    class Looking(softpnet.Method):
        def loss(self, module, state, batch, clock, streams):
            seen.append(batch)
            return super().loss(module, state, batch, clock, streams)

    chosen = pair.SHORT | pair.CASES["even"] | {"balanced_labels": False, "warmup_examples": 0, "epochs": 1}
    with pytest.warns(UserWarning, match="are skipped"):
        Learner(pair.task(), method=Looking, threads=1, **chosen).fit(Some(), pair.LABELS, pair.ANCHORS)
    assert sum(batch.asked for batch in seen) == 21 and sum(len(batch.ids) for batch in seen) == 14
    assert all(len(batch.places) == len(batch.ids) and (batch.places < batch.asked).all() for batch in seen)


def test_what_is_not_drawn_by_row_is_the_same_in_all_processes():
    generator = torch.Generator()
    for draw in (lambda: torch.rand((), generator=generator), lambda: torch.randperm(5, generator=generator)):
        generator.manual_seed(0)
        plain = draw()
        with _Drawing(torch.arange(2), 6):
            generator.manual_seed(0)
            assert torch.equal(draw(), plain)


def test_batches_of_hosts_are_settings_of_the_hardware():
    with pytest.raises(InputError, match="setting batch_norm is 'global', expected one of 'synchronised', 'local'"):
        Hardware(batch_norm="global").check()
    for wait in (0, 10**9):
        with pytest.raises(InputError, match=f"wait_seconds is {wait}, expected 1 to 86,400"):
            Hardware(wait_seconds=wait).check()
