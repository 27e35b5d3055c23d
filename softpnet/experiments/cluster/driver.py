"""`python -m softpnet.experiments.cluster.driver`: the process that is joined to the cluster on behalf of a command.

Ray ends the process that it lives in when its head is gone; so it has one of its own. Lines of JSON come in and go out.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softpnet.errors import SoftPNetError
from softpnet.experiments.cluster import node
from softpnet.experiments.cluster.connect import Cluster, alive, connect, count
from softpnet.experiments.cluster.parcel import pack, unpack
from softpnet.terminal import complain
from softpnet.training.lock import holder

TICK_S = 0.1
COLLECT_S = 1.0
COUNT_S = 5.0
"""Between two looks: at what has come, at the mailbox, at the nodes."""
LOST_S = 30.0
"""A mailbox that has not answered by then is gone, and the head with it."""
EMPTY_S = 60.0
"""So long may a cluster have no node for a run."""
LOSSES = 10
"""So often a run may lose its node."""


class LostError(Exception):
    """The cluster is gone."""


@dataclass
class Running:
    """A run that was asked for, and the attempt at it that is under way."""

    number: int
    command: list[str]
    folder: Path | None
    """None where it writes below the records by itself."""
    attempt: int = 0
    losses: int = 0
    """So many of them lost their node."""
    reference: Any = None
    """None while another process is at work in the folder: one that was given up for lost may still be."""
    avoided: dict[str, str] = field(default_factory=dict)

    @property
    def what(self) -> str:
        return self.command[0] if self.folder is None else self.folder.name

    @property
    def name(self) -> str:
        return f"{self.number}.{self.attempt}"


class Driver:
    """Runs on a cluster, each begun again from its last checkpoint where its node is lost."""

    def __init__(self, cluster: Cluster, device: str, tell: Callable[..., None]) -> None:
        self.cluster, self.ray, self.tell = cluster, cluster.ray, tell
        self.resource = resource_of(device)
        self.running: dict[int, Running] = {}
        self.stopping = False
        self.versions = node.versions()
        self.task = self.ray.remote(max_retries=0)(node.task)
        self.mailbox = self._mailbox()
        self.taking, self.asked = self.mailbox.take.remote(False), time.monotonic()
        self.counted = self.peopled = time.monotonic()

    def _mailbox(self) -> Any:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        heads = [each for each in self.cluster.nodes if "node:__internal_head__" in each["Resources"]]
        where = (heads or self.cluster.nodes)[0]["NodeID"]
        beside = strategies.NodeAffinitySchedulingStrategy(where, soft=False)
        return self.ray.remote(num_cpus=0)(node.Mailbox).options(scheduling_strategy=beside).remote()

    def add(self, number: int, command: list[str], folder: str | None) -> None:
        self.running[number] = Running(number, command, None if folder is None else Path(folder).resolve())

    def stop(self) -> None:
        self.stopping = True

    def step(self) -> None:
        """Look at everything once."""
        for run in list(self.running.values()):
            if run.reference is not None:
                continue
            if self.stopping:
                self._tell(run, cancelled=True)
            elif run.folder is None or holder(run.folder) is None:
                try:
                    self._begin(run)
                except (SoftPNetError, OSError) as error:
                    self._tell(run, why=str(error))
        references = {run.reference: run for run in self.running.values() if run.reference is not None}
        done, _ = self.ray.wait([*references, self.taking], num_returns=len(references) + 1, timeout=0)
        now = time.monotonic()
        if self.taking in done:
            self._collect(*self.ray.get(self.taking))
            if now - self.asked >= COLLECT_S:
                self.taking, self.asked = self.mailbox.take.remote(self.stopping), now
        elif now - self.asked > LOST_S:
            raise LostError(f"its head has not answered for {LOST_S:.0f} s")
        for reference in done:
            if reference in references and references[reference].number in self.running:
                self._end(references[reference])
        if now - self.counted > COUNT_S:
            self._check_peopled(now)

    def _begin(self, run: Running) -> None:
        run.attempt += 1
        order = node.Order(
            run.command,
            None if run.folder is None else str(run.folder),
            self.cluster.token,
            os.getcwd(),
            own_files(run.command),
            self.versions,
            {name: value for name, value in os.environ.items() if name.startswith("SOFTPNET_")},
            pack(run.folder) if run.folder is not None and run.folder.is_dir() else None,
        )
        chosen: dict[str, Any] = {"num_cpus": 1} | ({} if self.resource == "CPU" else {"num_gpus": 1})
        if run.avoided:
            chosen["label_selector"] = {"ray.io/node-id": f"!in({','.join(run.avoided)})"}
        run.reference = self.task.options(**chosen).remote(order, self.mailbox, run.name)

    def _collect(self, parcels: Mapping[str, Any], begun: set[str]) -> None:
        """Write home what runs have sent; what comes from an attempt that was given up is too late."""
        for run in list(self.running.values()):
            if run.name in parcels and run.folder is not None:
                try:
                    unpack(parcels[run.name], run.folder)
                except (SoftPNetError, OSError) as error:
                    self._give_up(run, str(error))
            elif self.stopping and run.name not in begun and run.reference is not None:
                self.ray.cancel(run.reference)  # it waits for a core, perhaps for ever

    def _end(self, run: Running) -> None:
        """What became of an attempt."""
        errors = self.ray.exceptions
        try:
            outcome = self.ray.get(run.reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, errors.ActorUnavailableError):
                self._lose(run, str(error.cause))  # its node cannot reach the head for a while
                return
            if isinstance(error.cause, errors.RayActorError):
                raise LostError("its head is gone") from error
            what = f"{type(error.cause).__name__}: {' '.join(str(error.cause).split())}"
            self._tell(run, why=f"a run could not be made on a node: {what}")
        except errors.TaskCancelledError:
            self._tell(run, cancelled=True)
        except errors.RayError as error:
            self._lose(run, str(error))
        else:
            self._settle(run, outcome)

    def _lose(self, run: Running, why: str) -> None:
        """Begin it again from the last checkpoint, as soon as nobody is at work on it."""
        run.reference, run.losses = None, run.losses + 1
        if run.losses >= LOSSES:
            self._tell(run, why=f"{run.what} lost its node {LOSSES} times, the last time so: {why.splitlines()[0]}")

    def _give_up(self, run: Running, why: str) -> None:
        if run.reference is not None:
            self.ray.cancel(run.reference)
        self._tell(run, why=why)

    def _settle(self, run: Running, outcome: Any) -> None:
        """What an attempt that came to its end has brought."""
        if outcome.unfit:
            self._avoid(run, outcome)
            return
        try:
            if outcome.parcel is not None and run.folder is not None:
                unpack(outcome.parcel, run.folder)
        except (SoftPNetError, OSError) as error:
            self._tell(run, why=str(error))
        else:
            self._tell(run, code=outcome.code, said=outcome.said)

    def _avoid(self, run: Running, outcome: Any) -> None:
        """Try another node, if there is one."""
        run.avoided[outcome.node] = outcome.unfit
        run.reference = None
        self._check_fit(run, alive(self.ray))

    def _check_fit(self, run: Running, nodes: list[dict[str, Any]]) -> None:
        """Give it up where all nodes that are left have said why they cannot do it."""
        others = [each for each in nodes if each["NodeID"] not in run.avoided]
        if run.avoided and not count(others, self.resource):
            self._give_up(run, "; ".join(dict.fromkeys(run.avoided.values())))

    def _check_peopled(self, now: float) -> None:
        self.counted, nodes = now, alive(self.ray)
        if count(nodes, self.resource) or not self.running:
            self.peopled = now
            for run in list(self.running.values()):
                self._check_fit(run, nodes)  # others may have gone since
        elif now - self.peopled > EMPTY_S:
            raise LostError(f"it has had no node for runs for {EMPTY_S:.0f} s")

    def _tell(self, run: Running, **what: Any) -> None:
        del self.running[run.number]
        self.tell(done=run.number, **what)


def resource_of(device: str) -> str:
    """What a run on this device needs of a node, in Ray's words."""
    return "GPU" if device.startswith("cuda") else "CPU"


def own_files(command: list[str]) -> dict[str, dict[str, bytes]]:
    """Each Python file that the command names, with those beside it, which it may import."""
    named = [word for word in command if word.endswith(".py") and Path(word).is_file()]
    return {word: {path.name: path.read_bytes() for path in Path(word).parent.glob("*.py")} for word in named}


def follow(driver: Driver, arrived: queue.Queue[dict[str, Any] | None]) -> None:
    """Do what is asked until nothing more can be asked and all that was is done."""
    open_, told = True, 0.0
    while open_ or driver.running:
        for message in _heard(arrived):
            if message is None or message["do"] == "stop":
                driver.stop()
                open_ = open_ and message is not None
            else:
                driver.add(message["number"], message["command"], message["folder"])
        driver.step()
        if time.monotonic() - told > COLLECT_S:
            told = time.monotonic()
            driver.tell(alive=True)


def _heard(arrived: queue.Queue[Any]) -> Iterator[Any]:
    """What has come, waiting a moment for the first."""
    with contextlib.suppress(queue.Empty):
        yield arrived.get(timeout=TICK_S)
        while True:
            yield arrived.get_nowait()


def _listen(lines: Any, arrived: queue.Queue[dict[str, Any] | None]) -> None:
    for line in lines:
        arrived.put(json.loads(line))
    arrived.put(None)


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no message

    def tell(**what: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            out.write(json.dumps(what) + "\n")
            out.flush()

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to others
    given = json.loads(sys.stdin.readline())
    arrived: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin, arrived), daemon=True).start()
    try:
        cluster = connect(given["address"], Path(given["records"]), resource_of(given["device"]))
    except SoftPNetError as error:
        tell(refused=str(error))
        return
    try:
        driver = Driver(cluster, given["device"], tell)
        tell(ready=cluster.name, places=cluster.count(driver.resource), nodes=len(cluster.nodes), notes=cluster.notes)
        follow(driver, arrived)
        cluster.ray.shutdown()
    except (LostError, ConnectionError, cluster.ray.exceptions.RayError) as error:
        tell(lost=" ".join(str(error).split())[:300])
    except Exception as error:
        tell(lost=f"softpnet's part of it failed: {type(error).__name__}: {error}; please report it")
        complain("".join(traceback.format_exception(error)))
    finally:
        Path(cluster.token[0]).unlink(missing_ok=True)
        out.flush()
        os._exit(0)  # leaving a cluster that is gone could take for ever


if __name__ == "__main__":
    main()
