"""Runs on a Ray cluster: what is asked of it, what is refused, what is sent home, and what a lost node costs."""

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from softpnet.errors import InputError, TrainingError
from softpnet.experiments import engines
from softpnet.experiments.cluster import connect, driver, node, parcel
from softpnet.experiments.engines import ray as ray_engine
from softpnet.storage import digest
from softpnet.training.folder import CONFIG, EPOCHS, RunFolder
from softpnet.training.launcher import launcher
from softpnet.training.lock import hold
from tests.experiments.stand_in_ray import ActorUnavailableError, RayActorError, RayError, RayTaskError, StandIn
from torture.subject import PATIENCE_S, outcome
from torture.tiny import FILE, fit

ROOT = Path(__file__).parents[2]
TASK = """
import dataclasses, time
from pathlib import Path
from torch import nn
from torture.tiny import TASK, data, encoder

class Gate(nn.Module):
    seen = 0

    def forward(self, inputs):
        Gate.seen += 1
        while Gate.seen > 15 and not Path({gate!r}).exists():
            time.sleep(0.02)
        return inputs

def gated(channels):
    return nn.Sequential(Gate(), encoder(channels))

task = dataclasses.replace(TASK, data=lambda streams: data(), encoder=gated)
"""
"""Trains a few steps, and goes on once a file is there."""
TRAIN = ["train", "tiny.py", "--epochs", "12", "--batch-size", "8", "--warmup-steps", "2", "--episodes", "2"]
TRAIN += ["--checkpoint-steps", "1", "--threads", "1", "--no-pictures", "--resume"]


@pytest.fixture
def ray(monkeypatch):
    """A stand-in in the place of Ray."""

    def put(**given):
        made = StandIn(**given)
        monkeypatch.setitem(sys.modules, "ray", made)
        strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
        monkeypatch.setitem(sys.modules, "ray.util", made.util)
        monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
        for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            monkeypatch.setenv(name, "")  # put back afterwards, also where it is set here
            monkeypatch.delenv(name)
        return made

    return put


@pytest.mark.parametrize("on", ["moon", "ray://", "", "rays://here:1", "base"])
def test_an_unknown_engine_is_refused_with_those_there_are(on):
    with pytest.raises(InputError, match=rf"--on is '{on}', expected local or ray, or ray://HOST:PORT"):
        engines.find(on)


def test_a_run_does_not_take_itself_for_one_of_those_that_train_together(monkeypatch, tmp_path):
    """Slurm or torchrun may have started what starts it."""
    for name in ("SLURM_NTASKS", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.setenv(name, "8")
    monkeypatch.setenv("LOCAL_CACHE", "stays")
    given = []

    class Process(subprocess.Popen):
        def __init__(self, command, **more):
            given.append(more["env"])
            super().__init__([sys.executable, "-c", ""], **more)

    monkeypatch.setattr(subprocess, "Popen", Process)
    with engines.opened("local", tmp_path) as engine:
        assert engine.run(["methods"]) == (0, "")
    assert launcher(given[0]) is None and "RANK" not in given[0] and "SLURM_NTASKS" not in given[0]
    assert given[0]["LOCAL_CACHE"] == "stays"


def test_this_machine_has_no_address(tmp_path):
    with pytest.raises(InputError, match="--on is 'local://x', expected local"), engines.opened("local://x", tmp_path):
        pytest.fail("it was opened")


def test_the_command_says_it_before_anything_is_run(softpnet_here, tmp_path):
    asked = ["compare", "kand_logic", "--records", tmp_path]
    for more, said in ((["--on", "moon"], "--on is 'moon'"), (["--device", "tpu"], "setting device is 'tpu'")):
        code, _, error = softpnet_here(*asked, *more)
        assert code == 2 and error.startswith(f"softpnet: {said}") and len(error.splitlines()) == 1


def test_a_command_that_is_refused_leaves_no_folders(softpnet_here, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("tiny.py").write_text(FILE)
    code, _, error = softpnet_here("compare", "tiny.py", "--on", "local://x", "--records", "refused")
    assert code == 2 and "this machine has no address" in error
    assert not Path("refused").exists()


@pytest.mark.parametrize("command", [("compare", "kand_logic"), ("reproduce", "table1")])
def test_one_of_several_that_train_together_makes_no_runs(softpnet_here, monkeypatch, tmp_path, command):
    for name, value in {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    code, _, error = softpnet_here(*command, "--records", tmp_path / "refused")
    assert code == 2 and not (tmp_path / "refused").exists()
    assert "2 processes were started to train together, but each of these runs is trained by one; start this" in error


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"the package ray is missing; pip install 'softpnet\[cluster\]' brings it"):
        connect.connect("", tmp_path, "CPU")


@pytest.mark.parametrize("listens", [True, False])
def test_an_address_that_does_not_answer_is_said_in_bounded_time(ray, monkeypatch, tmp_path, listens):
    made = ray()
    monkeypatch.setattr(connect, "ANSWERS_S", 0.3)
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        if listens:
            door.listen()
        address = f"127.0.0.1:{door.getsockname()[1]}"
        said = r"answers at {} within 0 s" if listens else r"can be reached at {} \(Connection refused\)"
        if not listens:  # Ray, which takes seconds to import, is not even asked for
            monkeypatch.setattr(connect, "optional_package", lambda *given: pytest.fail("it was imported"))
        for given, name in ((address, f"ray://{address}"), ("", address)):
            monkeypatch.setenv("RAY_ADDRESS", address)
            with pytest.raises(InputError, match=f"no Ray cluster {said.format(name)}; begin one with `ray start"):
                connect.connect(given, tmp_path, "CPU")
    assert made.given == []


def test_a_host_that_takes_no_connection_is_given_up_in_bounded_time(ray, monkeypatch, tmp_path):
    def slow(address, timeout):
        raise TimeoutError

    ray()
    monkeypatch.setattr(connect.socket, "create_connection", slow)
    with pytest.raises(InputError, match=r"no Ray cluster answers at ray://10\.9\.9\.9:1 within 10 s; begin one with"):
        connect.connect("10.9.9.9:1", tmp_path, "CPU")


def test_without_a_cluster_of_this_machine_auto_is_refused_in_words_of_ours(ray, monkeypatch, tmp_path):
    ray(refuses=ConnectionError("specify the one to connect to by setting `--address` flag"))
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(InputError, match="no Ray cluster was begun on this machine, which RAY_ADDRESS=auto stands"):
        connect.connect("", tmp_path, "CPU")


def test_an_address_without_a_port_is_refused(ray, tmp_path):
    ray()
    with pytest.raises(InputError, match=r"address 'ray://here' .* not of the form HOST:PORT or ray://HOST:PORT"):
        connect.connect("here", tmp_path, "CPU")


@pytest.mark.parametrize(
    "error, said",
    [
        (
            RuntimeError("Version mismatch:\n Ray: 1.0"),
            "has other versions than this machine: Version mismatch: Ray: 1.0",
        ),
        (ConnectionError("no session"), "could not be joined: no session"),
        (RayError("a token is missing"), "could not be joined: a token is missing"),
    ],
)
def test_what_ray_refuses_is_one_sentence(ray, monkeypatch, tmp_path, error, said):
    ray(refuses=error)
    for check in ("_check_reached", "_check_answers"):
        monkeypatch.setattr(connect, check, lambda *given: None)
    with pytest.raises(InputError, match=f"the Ray cluster at ray://h:1 {said}"):
        connect.connect("h:1", tmp_path, "CPU")


def test_a_node_with_other_versions_is_named_before_anything_is_run(ray, monkeypatch, tmp_path):
    ray()
    there = iter([node.versions() | {"torch": "1.0"}, node.versions() | {"torch": "1.0"}, node.versions()])
    monkeypatch.setattr(node, "versions", lambda: next(there))
    with pytest.raises(
        InputError, match=r"node .* \(192.0.2.7\) has torch '1.0', here '.*'; install the same versions"
    ):
        connect.connect("", tmp_path, "CPU")
    assert not list(tmp_path.iterdir())


def test_a_node_without_softpnet_is_told_like_one_of_another_version(monkeypatch):
    monkeypatch.setitem(sys.modules, "softpnet.training", None)
    assert "has python None, here '3'; softpnet 'not installed', here '2'" in node.differing(
        "n", node.versions(), {"python": "3", "softpnet": "2"}
    )


@pytest.mark.parametrize("resource, what", [("CPU", "core"), ("GPU", "GPU")])
def test_a_cluster_without_a_core_or_gpu_for_runs_is_refused(ray, tmp_path, resource, what):
    ray(cores=0)
    with pytest.raises(InputError, match=f"no node of a Ray cluster of this machine has a {what} for runs; begin one"):
        connect.connect("", tmp_path, resource)


def test_a_folder_that_is_not_shared_is_said_and_no_error(ray, monkeypatch, tmp_path):
    made = ray()
    cluster = connect.connect("", tmp_path, "CPU")
    assert made.given == ["local"] and cluster.notes == [] and cluster.count("CPU") == 2
    assert node.shares(cluster.token) and not node.shares((cluster.token[0], "other"))
    monkeypatch.setattr(node, "shares", lambda token: False)
    (note,) = connect.connect("", tmp_path, "CPU").notes
    assert note.startswith(f"{tmp_path.resolve()} is not shared with ") and note.endswith(": runs there are sent home")


def test_a_cluster_of_our_own_has_a_token_of_its_own_and_leaves_the_choice_to_who_has_made_it(
    ray, monkeypatch, tmp_path
):
    ray()
    connect.connect("", tmp_path, "CPU")
    assert os.environ["RAY_AUTH_MODE"] == "token" and len(os.environ["RAY_AUTH_TOKEN"]) == 64
    ray()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    connect.connect("", tmp_path, "CPU")
    assert os.environ["RAY_AUTH_MODE"] == "disabled" and "RAY_AUTH_TOKEN" not in os.environ


def test_a_folder_that_cannot_hold_records_is_said(ray, tmp_path):
    ray()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file cannot be a folder for records: .*; name another one"):
        connect.connect("", tmp_path / "file", "CPU")


def test_a_parcel_makes_the_same_run_elsewhere_and_holds_only_what_is_new(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    fit(here)
    whole = parcel.pack(here)
    parcel.unpack(whole, there)
    assert RunFolder(there).listed == RunFolder(here).listed and sorted(whole.files) == sorted(whole.listed)
    with RunFolder.to_write(here) as run:
        run.write(EPOCHS, b"{}\n")
        gone = next(name for name in run.listed if name.startswith("checkpoint"))
        run.remove([gone])
    more = parcel.pack(here, whole.listed)
    assert list(more.files) == [EPOCHS] and gone not in more.listed
    parcel.unpack(more, there)
    assert RunFolder(there).listed == RunFolder(here).listed and not (there / gone).exists()
    RunFolder(there).verify()


@pytest.mark.parametrize("files", [{}, {CONFIG: b"other"}], ids=["lost", "damaged"])
def test_a_parcel_that_lacks_a_file_is_refused(tmp_path, files):
    with pytest.raises(InputError, match=r"config\.json for .* was lost or damaged on its way"):
        parcel.unpack(parcel.Parcel({CONFIG: digest(b"this")}, files), tmp_path / "run")


@pytest.fixture
def order(tmp_path, monkeypatch):
    """A run of the tiny task as a node gets it, which sees the folders of home unless told otherwise."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "tiny.py").write_text(TASK.format(gate=str(tmp_path / "gate")))
    (home / "beside.py").write_text("")
    monkeypatch.chdir(home)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    token = home / "token"
    token.write_text("seen")

    def make(command=TRAIN, seen=True, folder="run", files=None, home=home, versions=None):
        known = versions or node.versions()
        files = driver.own_files(command) if files is None else files
        where = (str(token), "seen" if seen else "not seen")
        return node.Order(command, folder and str(home / folder), where, str(home), files, known, {}, None)

    return make


def test_own_files_are_read_in_place_where_they_are_the_same_and_else_sent_with_their_neighbours(order, tmp_path):
    given, source = order(), Path("tiny.py").read_text()
    assert sorted(given.files["tiny.py"]) == ["beside.py", "tiny.py"]
    code = tmp_path / "code"
    assert node._place(given, code) == (Path.cwd(), "") and not code.exists()
    Path("tiny.py").write_text("changed since")
    assert node._place(given, code) == (code, "") and (code / "tiny.py").read_text() == source
    assert (code / "beside.py").is_file()
    Path("tiny.py").write_text(source)
    Path("beside.py").write_text("changed since: the task may import it")
    assert node._place(given, tmp_path / "again") == (tmp_path / "again", "")
    assert (tmp_path / "again/beside.py").read_text() == ""
    away = order(command=["train", str(Path("tiny.py").resolve())])
    Path("tiny.py").unlink()
    _, unread = node._place(away, tmp_path / "more")
    assert unread.startswith(f"{Path.cwd()}/tiny.py; put it on a disk that all nodes see")


def test_a_node_that_cannot_do_it_says_why_and_runs_nothing(ray, order, monkeypatch, tmp_path):
    ray()
    monkeypatch.setattr(node, "_started", lambda *given: pytest.fail("it was run"))
    exchange = pytest.fail
    outcome = node.work(order(versions={"torch": "other"}), exchange)
    assert outcome.node == "n0" and "has torch '" in outcome.unfit
    away = order(command=["train", "/none/of.py"], files={"/none/of.py": {"of.py": b""}})
    assert "cannot read /none/of.py; put it" in node.work(away, exchange).unfit
    blind = node.work(
        order(command=["search", "tiny.py"], folder=None, seen=False), exchange
    )  # a study lies in one place
    assert f"does not see {Path.cwd()}, which it needs; put it on a disk that all share" in blind.unfit
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setattr(node.tempfile, "tempdir", str(tmp_path / "none"))
    assert "cannot run anything: No such file" in node.work(order(), exchange).unfit


@pytest.mark.parametrize("seen, unfit", [(False, True), (True, False)])
def test_a_full_disk_of_its_own_makes_a_node_unfit_and_a_shared_one_fails_the_run(ray, order, monkeypatch, seen, unfit):
    ray()
    monkeypatch.setattr(node, "_make", lambda *given: (2, "softpnet: x: No space left on device", None))
    outcome = node.work(order(seen=seen), pytest.fail)
    assert ("No space left on device" in outcome.unfit) == unfit and (outcome.code == 2) != unfit


@pytest.mark.processes
def test_a_run_on_a_node_is_sent_home_as_it_goes_and_when_stopped_goes_on_at_home(ray, order, softpnet_here, tmp_path):
    """The node sees neither the records nor the task's file; home ends in the bits of a run that was never away."""
    ray()
    home, whole = tmp_path / "home/run", tmp_path / "whole"
    stopped = []

    def exchange(sent):
        if stopped:  # it has been told
            (tmp_path / "gate").touch()
        if sent is not None:
            parcel.unpack(sent, home)
            if _epochs_kept(home):
                stopped.append(True)
        return bool(stopped), True

    there = node.work(order(seen=False, home=tmp_path / "none", folder=str(home)), exchange)
    assert there.code == 143 and not there.unfit and stopped
    parcel.unpack(there.parcel, tmp_path / "overtaken")  # it is whole: what was sent before may come later
    parcel.unpack(there.parcel, home)
    assert 0 < len((home / EPOCHS).read_text().splitlines()) < 12
    for folder in (home, whole):
        code, _, error = softpnet_here(*TRAIN, "--out", folder)
        assert code == 0, error
    assert outcome(home) == outcome(whole)


class Home:
    """A driver on a stand-in, where each attempt at a run does what the next of `acts` does."""

    def __init__(self, made, monkeypatch, tmp_path, acts):
        self.ray, self.folder, self.orders = made, tmp_path / "run", []
        acts = iter(acts)

        def task(order, mailbox, name):
            self.orders.append(order)
            return next(acts)(mailbox, name)

        monkeypatch.setattr(node, "task", task)
        monkeypatch.setattr(driver, "COLLECT_S", 0.0)
        monkeypatch.setattr(driver, "COUNT_S", 0.0)
        self.told = []
        cluster = connect.connect("", tmp_path / "records", "CPU")
        self.driver = driver.Driver(cluster, "cpu", lambda **what: self.told.append(what))

    def finish(self):
        until = time.monotonic() + PATIENCE_S
        while self.driver.running and time.monotonic() < until:
            self.driver.step()
        return self.told[-1]


@pytest.fixture
def at_home(ray, monkeypatch, tmp_path):
    def make(*acts, **given):
        made = ray(**given)
        home = Home(made, monkeypatch, tmp_path, acts)
        home.driver.add(7, ["train", "x"], str(home.folder))
        return home

    return make


def raising(error):
    def act(mailbox, name):
        raise error

    return act


def ending(**what):
    return lambda mailbox, name: node.Outcome(what.pop("on", "n0"), **what)


def sent(mailbox, name, content=b"{}", more=b""):
    made = parcel.Parcel({CONFIG: digest(content)}, {CONFIG: content})
    mailbox.exchange.remote(name, made)
    return made


def test_a_lost_node_costs_what_came_after_the_last_parcel(at_home):
    def half(mailbox, name):
        sent(mailbox, name)
        until = time.monotonic() + PATIENCE_S
        while not (home.folder / CONFIG).exists() and time.monotonic() < until:
            time.sleep(0.01)
        raise RayError("the node died")

    home = at_home(half, ending(code=0, said="fine"))
    assert home.finish() == {"done": 7, "code": 0, "said": "fine"}
    first, second = home.orders
    assert first.parcel is None and second.parcel.files == {CONFIG: b"{}"}
    assert home.ray.chosen[-1] == {"num_cpus": 1}


def test_what_an_attempt_sends_that_was_given_up_is_too_late(at_home):
    home = at_home(lambda mailbox, name: sent(mailbox, "7.9") and node.Outcome("n0"))
    assert home.finish()["code"] == 0 and not home.folder.exists()


def test_a_node_that_cannot_reach_the_head_for_a_while_is_a_lost_node_and_no_lost_cluster(at_home):
    home = at_home(raising(RayTaskError(ActorUnavailableError("reset"))), ending(code=0, said=""))
    assert home.finish() == {"done": 7, "code": 0, "said": ""}


def test_a_run_that_keeps_losing_its_node_is_given_up(at_home, monkeypatch):
    monkeypatch.setattr(driver, "LOSSES", 3)
    home = at_home(*[raising(RayError("the node died\nand more"))] * 3)
    assert home.finish()["why"] == "run lost its node 3 times, the last time so: the node died"


def test_nothing_is_begun_while_another_process_is_at_work_in_the_folder(at_home):
    home = at_home(ending())
    home.folder.mkdir()
    with hold(home.folder):
        for _ in range(3):
            home.driver.step()
        assert home.orders == []
    assert home.finish()["code"] == 0


def test_a_stop_does_not_wait_for_another_process_in_the_folder(at_home):
    home = at_home()
    home.folder.mkdir()
    with hold(home.folder):
        home.driver.step()
        home.driver.stop()
        assert home.finish() == {"done": 7, "cancelled": True}


def test_an_unfit_node_is_avoided_and_without_another_one_the_run_fails(at_home):
    home = at_home(ending(unfit="n0 is full"), ending(on="n1", code=0))
    assert home.finish()["code"] == 0
    assert home.ray.chosen[-1]["label_selector"] == {"ray.io/node-id": "!in(n0)"}
    home = at_home(ending(unfit="n0 is full"), ending(on="n1", unfit="n1 is full"))
    assert home.finish()["why"] == "n0 is full; n1 is full"


def test_a_run_is_given_up_when_the_nodes_that_it_does_not_avoid_have_gone(at_home):
    home = at_home()
    (run,) = home.driver.running.values()
    run.avoided, run.reference = {"n0": "n0 is full"}, Future()
    home.driver._check_peopled(0.0)
    assert home.told == []  # n1 is there
    home.ray.list = home.ray.list[:1]
    home.driver._check_peopled(0.0)
    assert home.told == [{"done": 7, "why": "n0 is full"}] and home.ray.cancelled == [run.reference]


def test_what_comes_late_of_an_attempt_that_has_ended_fails_the_run_alone(at_home):
    home = at_home()
    (run,) = home.driver.running.values()
    home.driver._collect({run.name: parcel.Parcel({CONFIG: "0" * 64}, {})}, set())
    assert "was lost or damaged" in home.told[-1]["why"] and home.ray.cancelled == []


def test_an_error_of_our_own_on_a_node_is_a_sentence(at_home):
    """Ray makes it one of both kinds: of its own, with the node's traceback as text, and of what was raised."""

    class Both(RayTaskError, InputError):
        def __str__(self):
            return "Traceback\nof many\nlines"

    both = at_home(raising(Both(InputError("run is damaged")))).finish()["why"]
    assert both == "a run could not be made on a node: InputError: run is damaged"
    said = at_home(raising(RayTaskError(KeyError("x")))).finish()["why"]
    assert said.startswith("a run could not be made on a node: ") and "KeyError: 'x'" in said


def test_a_parcel_that_home_cannot_keep_fails_the_run(at_home):
    home = at_home(lambda mailbox, name: node.Outcome("n0", parcel=parcel.Parcel({CONFIG: "0" * 64}, {})))
    assert "was lost or damaged on its way" in home.finish()["why"]


def test_a_run_whose_parcel_and_end_come_at_once_is_told_of_once(at_home):
    bad = parcel.Parcel({CONFIG: "0" * 64}, {})
    home = at_home(lambda mailbox, name: mailbox.exchange.remote(name, bad) and node.Outcome("n0", code=0))
    home.driver.step()
    (run,) = home.driver.running.values()
    run.reference.result(PATIENCE_S)
    home.driver.taking = home.driver.mailbox.take.remote(False)
    home.driver.step()
    (told,) = home.told
    assert "was lost or damaged on its way" in told["why"] and not home.driver.running


def test_without_a_head_or_a_node_the_cluster_is_lost(at_home, monkeypatch):
    with pytest.raises(driver.LostError, match="its head is gone"):
        at_home(raising(RayTaskError(RayActorError("gone")))).finish()
    with pytest.raises(ConnectionError):  # as Ray's client raises it
        at_home(raising(ConnectionError("gone"))).finish()
    home = at_home(ending())
    home.driver.taking = Future()
    monkeypatch.setattr(driver, "LOST_S", -1.0)
    with pytest.raises(driver.LostError, match="its head has not answered for"):
        home.driver.step()
    monkeypatch.undo()
    over = threading.Event()
    home = at_home(lambda mailbox, name: over.wait(PATIENCE_S))
    monkeypatch.setattr(driver, "EMPTY_S", 0.05)
    home.ray.list = []
    with pytest.raises(driver.LostError, match="it has had no node for runs for"):
        home.finish()
    over.set()


def test_what_waits_for_a_core_is_cancelled_when_all_stops(at_home):
    home = at_home()
    home.driver.task = SimpleNamespace(options=lambda **chosen: SimpleNamespace(remote=lambda *given: Future()))
    home.driver.step()
    home.driver.stop()
    assert home.finish() == {"done": 7, "cancelled": True} and len(home.ray.cancelled) == 1
    home.driver.add(8, ["train", "x"], str(home.folder))
    assert home.finish() == {"done": 8, "cancelled": True}


def test_messages_are_followed_until_home_is_gone_and_all_is_done(at_home):
    home = at_home(ending(said="first"), ending(said="second"))
    arrived = queue.Queue()
    for message in ({"do": "run", "number": 8, "command": ["train", "y"], "folder": "none"}, {"do": "stop"}, None):
        arrived.put(message)
    driver.follow(home.driver, arrived)
    assert {each["done"] for each in home.told if "done" in each} == {7, 8} and {"alive": True} in home.told


SPEAKER = """
import json, sys, time
print(json.dumps({"ready": "the cluster", "places": 3, "nodes": 2, "notes": ["not shared"]}), flush=True)
for line in sys.stdin:
    said = json.loads(line)
    if said.get("do") == "run":
        print(json.dumps({"done": said["number"], **json.loads(said["command"][0])}), flush=True)
"""


@pytest.fixture
def speaker(monkeypatch, tmp_path):
    """An engine whose process is a script."""

    def make(script=SPEAKER):
        monkeypatch.setattr(ray_engine, "DRIVER", ("-c", script))
        return engines.opened("ray", tmp_path)

    return make


def test_the_engine_passes_on_what_its_process_says(speaker, capsys):
    with pytest.warns(UserWarning, match="not shared"), speaker() as engine:
        assert engine.places == 3 and "the cluster: room for 3 runs side by side" in capsys.readouterr().out
        assert engine.run(['{"code": 2, "said": "why"}'], Path("x")) == (2, "why")
        with pytest.raises(TrainingError, match="broken"):
            engine.run(['{"why": "broken"}'], Path("x"))
        with pytest.raises(CancelledError):
            engine.run(['{"cancelled": true}'], Path("x"))
        engine.stop()
        with pytest.raises(CancelledError):
            engine.run(["{}"], Path("x"))


@pytest.mark.parametrize(
    "script, said",
    [
        ('print(\'{"refused": "no such place"}\')', "no such place"),
        ("import sys; sys.exit('it broke')", "the Ray cluster could not be joined: it broke"),
        ("", "the Ray cluster could not be joined: its process ended with 0"),
        ("import time; time.sleep(60)", "the Ray cluster did not get ready in 0 s"),
    ],
)
def test_what_keeps_an_engine_from_opening_is_a_sentence(speaker, monkeypatch, script, said):
    monkeypatch.setattr(ray_engine, "OPENING_S", 0.4 if "time" in script else PATIENCE_S)
    with pytest.raises(InputError, match=said), speaker(script):
        pytest.fail("it was opened")


LOSER = """
import json, sys, time
print(json.dumps({"ready": "the cluster", "places": 1, "nodes": 1, "notes": []}), flush=True)
sys.stdin.readline(), sys.stdin.readline()
"""


@pytest.mark.parametrize(
    "end, said",
    [
        ("print(json.dumps({'lost': 'its head is gone'}))", "its head is gone"),
        ("", "it has ended: its process ended with 0"),
        ("time.sleep(60)", "nothing was heard of it for 1 s"),
    ],
)
def test_a_lost_cluster_ends_every_run_with_a_sentence(speaker, monkeypatch, end, said):
    monkeypatch.setattr(ray_engine, "SILENT_S", 1.0 if "sleep" in end else PATIENCE_S)
    monkeypatch.setattr(ray_engine, "CLOSING_S", 0.1)
    lost = (
        rf"^the cluster is lost: {said}; all checkpoints .* goes on from them, on another cluster or with --on local$"
    )
    with speaker(LOSER + end) as engine:
        for _ in range(2):
            with pytest.raises(TrainingError, match=lost):
                engine.run(["train"], Path("x"))


@pytest.mark.processes
def test_on_a_real_cluster_a_run_that_loses_its_worker_goes_on_from_what_was_sent_home(
    tmp_path, monkeypatch, softpnet_here
):
    """One node that does not see the records: the token is taken away. The bits are those of a run on no cluster."""
    (tmp_path / "tiny.py").write_text(TASK.format(gate=str(tmp_path / "gate")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    folder, found = tmp_path / "run", []
    with engines.opened("ray", tmp_path) as engine:
        (token,) = tmp_path.glob(".seen-by-*")
        token.unlink()
        runner = threading.Thread(target=lambda: found.append(engine.run(TRAIN, folder)))
        runner.start()
        until = time.monotonic() + PATIENCE_S
        while not (kept := _epochs_kept(folder)) and time.monotonic() < until:
            time.sleep(0.05)
        before = (folder / EPOCHS).read_text().splitlines()[:kept]  # an epoch is told before its checkpoint is made
        os.kill(_worker_of(tmp_path), signal.SIGKILL)
        (tmp_path / "gate").touch()
        runner.join(PATIENCE_S)
    ((code, said),) = found
    assert code == 0, said
    assert (
        before and (folder / EPOCHS).read_text().splitlines()[:kept] == before
    )  # to the microsecond: not trained again
    code, _, error = softpnet_here(*TRAIN, "--out", tmp_path / "whole")
    assert code == 0, error
    assert outcome(folder) == outcome(tmp_path / "whole") and not (tmp_path / "home").exists()


def _epochs_kept(folder: Path) -> int:
    """Whole epochs before the last checkpoint that has come home."""
    return max((int(path.name.split("-")[2]) for path in folder.glob("checkpoint-*")), default=0)


def _worker_of(folder: Path) -> int:
    """The process of Ray's whose child trains a task of this folder."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_text()
            if "softpnet\0train\0tiny.py" in command and (status.parent / "cwd").resolve() == folder:
                return int(next(line.split()[1] for line in status.read_text().splitlines() if line[:5] == "PPid:"))
        except (OSError, StopIteration):
            continue
    pytest.fail(f"nothing trains in {folder}: {subprocess.run(['ps', '-ef'], capture_output=True, text=True).stdout}")
