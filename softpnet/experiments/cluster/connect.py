"""From an address to a cluster that can be used, or one sentence why it cannot."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softpnet.catalogue import optional_package
from softpnet.errors import InputError
from softpnet.experiments.cluster import node

ANSWERS_S = 10.0
"""An address that has not answered by then is said not to."""
LOOKED_S = 60.0
"""A node that has not said by then what it is like is asked again by the first run on it."""
OWN = "local"
"""Ray's word for a cluster that is begun, and ended, by who asks for it."""
AUTO = "auto"
"""Ray's word for the one that was begun on this machine."""
OWN_STORE = 100_000_000
"""Bytes of memory for objects in a cluster of our own, where all see the same disk."""


@dataclass(frozen=True)
class Cluster:
    ray: Any
    name: str
    """For people."""
    nodes: list[dict[str, Any]]
    token: tuple[str, str]
    notes: list[str]

    def count(self, resource: str) -> int:
        return count(self.nodes, resource)


def count(nodes: list[dict[str, Any]], resource: str) -> int:
    """How many cores (CPU) or GPUs these nodes have."""
    return sum(int(each["Resources"].get(resource, 0)) for each in nodes)


def alive(ray: Any) -> list[dict[str, Any]]:
    return [each for each in ray.nodes() if each["Alive"]]


def connect(address: str, records: Path, resource: str) -> Cluster:
    """Connect, and look at each node; all that does not fit is said before anything is run."""
    given = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS") or OWN
    if given == OWN:
        _lock_own()
    elif _target(given) != AUTO:
        _check_reached(given)  # before Ray is imported, which takes seconds
    ray = optional_package("ray", "cluster")
    name = _init(ray, given)
    nodes = alive(ray)
    if not count(nodes, resource):
        what = "core" if resource == "CPU" else "GPU"
        raise InputError(f"no node of {name} has a {what} for runs; begin one with `ray start --num-{what.lower()}s 1`")
    token = _token(records)
    try:
        notes = _look(ray, name, nodes, token)
    except BaseException:
        Path(token[0]).unlink(missing_ok=True)
        raise
    return Cluster(ray, name, nodes, token, notes)


def _lock_own() -> None:
    """Give a cluster of our own a password that only it knows. Ray would write one into the user's home, and every
    cluster that is begun on this machine later would ask for it."""
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _init(ray: Any, given: str) -> str:
    """Connect to a cluster, or begin one on this machine; its name."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "softpnet"}
    if given == OWN:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        ray.init(OWN, num_cpus=cores, include_dashboard=False, object_store_memory=OWN_STORE, **quiet)
        return "a Ray cluster of this machine"
    target = _target(given)
    if target != AUTO:
        _check_answers(target, given)
    try:
        ray.init(given, **quiet)
    except (RuntimeError, ConnectionError, ValueError, ray.exceptions.RayError) as error:
        raise _not_joined(given, error) from error
    return f"the Ray cluster at {given}"


def _target(given: str) -> str:
    return given.removeprefix("ray://")


def _not_joined(given: str, error: Exception) -> InputError:
    said = " ".join(str(error).split())[:500]
    if "version" in said.lower():
        return InputError(f"the Ray cluster at {given} has other versions than this machine: {said}")
    if _target(given) == AUTO and isinstance(error, ConnectionError):
        return InputError(
            "no Ray cluster was begun on this machine, which RAY_ADDRESS=auto stands for; begin one with `ray start "
            "--head`, or leave RAY_ADDRESS out for one of this command alone"
        )
    return InputError(f"the Ray cluster at {given} could not be joined: {said}")


def _check_reached(given: str) -> None:
    """Raise for an address that nothing can be sent to; at once, where nothing listens there."""
    host, _, port = _target(given).rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"the address {given!r} of a Ray cluster is not of the form HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWERS_S).close()
    except TimeoutError:
        raise _silent(f"answers at {given} within {ANSWERS_S:.0f} s") from None
    except OSError as error:
        raise _silent(f"can be reached at {given} ({error.strerror or error})") from error


def _silent(what: str) -> InputError:
    return InputError(
        f"no Ray cluster {what}; begin one with `ray start --head`, and name ray://HOST:10001, or, on a node of it, "
        "RAY_ADDRESS=HOST:6379"
    )


def _check_answers(target: str, given: str) -> None:
    """Ray itself would try for minutes, and then end the process."""
    grpc = optional_package("grpc", "cluster")
    if os.environ.get("RAY_USE_TLS", "0") not in ("0", ""):
        return
    channel = grpc.insecure_channel(target)
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWERS_S)
    except grpc.FutureTimeoutError:
        raise _silent(f"answers at {given} within {ANSWERS_S:.0f} s") from None
    finally:
        channel.close()


def _token(records: Path) -> tuple[str, str]:
    path, content = records.resolve() / f".seen-by-{secrets.token_hex(8)}", secrets.token_hex(16)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    except OSError as error:
        raise InputError(f"{path.parent} cannot be a folder for records: {error.strerror}; name another one") from error
    return str(path), content


def _look(ray: Any, name: str, nodes: list[dict[str, Any]], token: tuple[str, str]) -> list[str]:
    """Raise where a node has other versions; say which ones do not see the records."""
    strategies = optional_package("ray.util.scheduling_strategies", "cluster")
    ray.cloudpickle.register_pickle_by_value(node)  # a node may have no softpnet, or another one
    look = ray.remote(num_cpus=0, max_retries=0)(node.look)
    asked = [
        look.options(scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(each["NodeID"], soft=False))
        for each in nodes
    ]
    references = [one.remote(token) for one in asked]
    answered, _ = ray.wait(references, num_returns=len(references), timeout=LOOKED_S)
    found = []
    for reference in answered:
        try:
            found.append(ray.get(reference))
        except ray.exceptions.RayError:
            continue  # it went away
    here = node.versions()
    differing = [said for each in found if (said := node.differing(each["host"], each["versions"], here))]
    if differing:
        raise InputError(differing[0])
    apart = [each["host"] for each in found if not each["shares"]]
    return [] if not apart else [
        f"{Path(token[0]).parent} is not shared with {', '.join(apart)} of {name}: runs there are sent home"
    ]  # fmt: skip
