"""Speed of learning: accuracy against seconds of training, for our recipe, its rivals in the house, and its peers.

python -m bench.learning NAME --contest evenodd        one race; the last line printed is its row
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers import PEERS
from bench.race import CONTESTS, SHARES, Finished, Race, time_to

if TYPE_CHECKING:
    from softpnet.task.settings import Preset

GRACE = 90.0
"""Seconds that a process may take for imports and data, beyond its training; judging may take as long as training."""
PROGRAM = [sys.executable, "-m", "bench.learning"]
SEEDS = (0, 1, 2)
PEERS_RACE = "evenodd"
"""The contest that peers can enter."""


def own(race: Race, method: str = "softpnet", preset: Preset = "best", **settings: Any) -> None:
    """A method of this library, with settings in place of the contest's."""
    import copy

    import lightning_fabric  # noqa: F401  so that its import is not timed

    from softpnet import Learner
    from softpnet.networks.reader import read

    task, data = race.given
    test = data.tests["test"]
    model = Learner(
        task, method=method, preset=preset, seed=race.seed, threads=1, **{**race.rules.settings, **settings}
    )
    race.begin(lambda: read(training.method.ready(copy.deepcopy(training.module)), test.inputs).argmax(-1))
    training = model.prepared(data.train.inputs, data.train.labels, data.anchors, data.train.concepts)
    for _ in training.steps():
        race.saw()
    race.judge()


CEILING, OURS = "supervised", "softpnet"
HOUSE: dict[str, Callable[[Race], None]] = {
    CEILING: functools.partial(own, method="supervised"),
    OURS: own,
    "softpnet, --copies 1": functools.partial(own, copies=1),
    "softpnet, --copies 1 --precision auto": functools.partial(own, copies=1, precision="auto"),
    "softpnet, preset paper": functools.partial(own, preset="paper"),
    "abduction, anchors first": functools.partial(own, method="abduction_anchored"),
}
CONTENDERS = HOUSE | PEERS


def contend(race: Race) -> dict[str, Any]:
    """Run one contender here; its error becomes part of its row."""
    if race.name not in CONTENDERS:
        raise ValueError(f"unknown contender {race.name!r}; the contenders are: {'; '.join(CONTENDERS)}")
    try:
        with contextlib.suppress(Finished), contextlib.redirect_stdout(sys.stderr):
            CONTENDERS[race.name](race)
    except Exception as error:
        race.row["error"] = f"{type(error).__name__}: {_brief(str(error).partition(os.linesep)[0])}"
    return race.row


def run(name: str, contest: str, seed: int, enough: float = 1.0) -> dict[str, Any]:
    """One contender in a process of its own, which is ended where it does not end by itself."""
    command = [*PROGRAM, name, f"--contest={contest}", f"--seed={seed}", f"--enough={enough}"]
    ask: dict[str, Any] = {"cwd": Path(__file__).parents[1], "env": os.environ | {"OMP_NUM_THREADS": "1"}}
    row, limit = Race(name, contest, seed).row, 2 * CONTESTS[contest].seconds + GRACE
    try:
        done = subprocess.run(command, **ask, capture_output=True, timeout=limit)
        out, code = done.stdout, done.returncode
        error = f"exit code {code}: {_brief(done.stderr.decode())}" if code else None
    except subprocess.TimeoutExpired as late:
        out, error = late.stdout or b"", f"cut off at {limit:.0f} s, without an end of its own"
    for line in filter(re.compile(r"{.*}$").match, out.decode().splitlines()):
        row |= json.loads(line)
    return row | {"error": row["error"] or error}


def _brief(message: str) -> str:
    """The last line, without folders."""
    return re.sub(r"(/[\w.+-]+)+/", "", message.strip().rpartition("\n")[2])


def measure(contest: str) -> list[dict]:
    """A row per contender: its curves, a seed each, and the median time to each share of the ceiling.

    The ceiling is what the supervised network reads in the end. A race is over at the highest share of it.
    """
    names = CONTENDERS if contest == PEERS_RACE else HOUSE
    races: dict[str, list[dict]] = {name: [] for name in names}
    for seed in SEEDS:
        races[CEILING].append(run(CEILING, contest, seed))
        if not races[CEILING][-1]["curve"]:
            raise RuntimeError(f"the ceiling of {contest} was not reached: {races[CEILING][-1]['error']}")
        top = races[CEILING][-1]["curve"][-1][1]
        for name in [name for name in names if name != CEILING]:
            races[name].append(run(name, contest, seed, SHARES[-1] * top))
    tops = [race["curve"][-1][1] for race in races[CEILING]]
    return [_summary(contest, name, found, tops) for name, found in races.items()]


def against_peers(rows: list[dict]) -> list[dict]:
    """The ratio of our time to 98 % of the ceiling to that of the fastest peer, where there are both."""
    ours = [row["seconds_to"]["98%"] for row in rows if row["name"] == OURS]
    peers = {row["name"]: seconds for row in rows if row["name"] in PEERS and (seconds := row["seconds_to"]["98%"])}
    if not peers or not ours or ours[0] is None:
        return []
    fastest = min(peers, key=lambda name: peers[name])
    title = f"{rows[0]['contest']}, seconds to 98 % of the ceiling, ours / {fastest}"
    ratio = ours[0] / peers[fastest]
    return [{"name": title, "threads": 1, "ratio": ratio, "target": 0.7, "better": "lower", "seconds": ours[0]}]


def _summary(contest: str, name: str, races: list[dict], tops: list[float]) -> dict:
    times = {}
    for share in SHARES:
        taken = [time_to(race["curve"], share * top) for race, top in zip(races, tops, strict=True)]
        reached = [seconds for seconds in taken if seconds is not None]
        times[f"{share:.0%}"] = statistics.median(reached) if len(reached) == len(taken) else None
    errors = sorted({race["error"] for race in races if race["error"]})
    return {
        "contest": CONTESTS[contest].title,
        "name": name,
        "seconds_to": times,
        "ceiling": statistics.mean(tops),
        "error": "; ".join(errors) or None,
        "curves": [race["curve"] for race in races],
    }


def main() -> None:
    import torch
    import tyro

    from softpnet.training.allocator import keep_large_blocks

    race = tyro.cli(tyro.conf.configure(tyro.conf.PositionalRequiredArgs)(Race))
    torch.set_num_threads(1)
    keep_large_blocks()
    print(json.dumps(contend(race)))


if __name__ == "__main__":
    main()
