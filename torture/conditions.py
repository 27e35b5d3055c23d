"""`python -m torture.conditions [RUN...] [--times 2]`: `make test` on machines of every kind.

A run is one condition or several, joined by +. Its outcome is added to results/conditions.jsonl, and what that holds of
the same code is not run again: stop it whenever you like, and start it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import tyro

from softpnet.data.mnist import cache_folder
from softpnet.report.pages import write_into
from softpnet.report.table import Text, markdown
from softpnet.storage import digest
from softpnet.training.environment import machine, versions

HERE = Path(__file__).parents[1]
RECORD, PAGE = Path("results/conditions.jsonl"), Path("docs/reliability.md")
MARK = "made by python -m torture.conditions"
NO_CODE = (str(RECORD), str(PAGE))
"""Files that a commit may change, and it is still the same code."""
SUITE = ("make", "test")
HOME = "HOME"


@dataclass(frozen=True)
class Condition:
    """What is done to a machine before `make test`."""

    how: str
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    busy: int = 0
    instructions: str = ""
    """What the processor must have, by its name in /proc/cpuinfo."""


def _variable(name: str, value: str, instructions: str = "") -> Condition:
    return Condition(f"`{name}={value}`", {name: value}, instructions=instructions)


def _order(seed: int) -> Condition:
    options = f"-p randomly --randomly-seed={seed}"
    return Condition(f'`PYTEST_ADDOPTS="{options}"`', {"PYTEST_ADDOPTS": options})


PLACE = {"LC_ALL": "C", "TZ": "Pacific/Kiritimati", HOME: "a home with spaces"}
CONDITIONS = {
    "plain": Condition("`make test`"),
    "aten-default": _variable("ATEN_CPU_CAPABILITY", "default"),
    "aten-avx2": _variable("ATEN_CPU_CAPABILITY", "avx2", "avx2"),
    "aten-avx512": _variable("ATEN_CPU_CAPABILITY", "avx512", "avx512f"),
    "onednn-sse41": _variable("ONEDNN_MAX_CPU_ISA", "SSE41"),
    "onednn-avx2": _variable("ONEDNN_MAX_CPU_ISA", "AVX2"),
    "onednn-avx512": _variable("ONEDNN_MAX_CPU_ISA", "AVX512_CORE"),
    "one-core": Condition("`taskset -c 0`", prefix=("taskset", "-c", str(min(os.sched_getaffinity(0))))),
    "loaded": Condition("two busy loops beside it", busy=2),
    "no-sigint": Condition("`trap '' INT`", prefix=("sh", "-c", "trap '' INT; exec \"$@\"", "sh")),
    "order-1": _order(1),
    "order-2": _order(2),
    "order-3": _order(3),
    "no-network": Condition(
        "`unshare --net`", prefix=("unshare", "--net", *([] if os.getuid() == 0 else ["--map-root-user"]))
    ),
    "place": Condition(" ".join(f"`{name}={value!r}`" for name, value in PLACE.items()), PLACE),
}
RUNS = (
    ("aten-default", "onednn-sse41", "order-1", "no-sigint"),
    ("aten-avx2", "onednn-avx2", "order-2", "no-network"),
    ("onednn-avx512", "order-3", "one-core", "place"),
    ("loaded",),
    ("aten-avx512",),
    ("plain",),
)
"""Together goes what cannot hide the other's failure."""


@dataclass(frozen=True)
class Conditions:
    """Run the tests under every condition until each has been tried so many times."""

    runs: tyro.conf.Positional[tuple[str, ...]] = ()
    """What to try, conditions joined by +; all unless given."""
    times: int = 2
    """How often."""
    record: Path = HERE / RECORD
    """Where the outcomes are added, one line each."""
    into: Path = HERE / PAGE
    """The Markdown page that has the table, between its two marks; a test compares it with the outcomes."""

    def run(self) -> int:
        wanted = [tuple(name.split("+")) for name in self.runs] or list(RUNS)
        unknown = [name for names in wanted for name in names if name not in CONDITIONS]
        if unknown:
            sys.exit(f"unknown condition {unknown[0]!r}; the conditions are {', '.join(CONDITIONS)}")
        failed = False
        for turn in range(1, self.times + 1):
            for names in wanted:
                if len(done(read(self.record), names)) < turn:
                    lacking = missing_instructions(names)
                    outcome = _what(names) | {"lacking": lacking} if lacking else tried(names)
                    with self.record.open("a") as file:
                        file.write(json.dumps(outcome) + "\n")
                    failed |= outcome.get("exit", 0) != 0
                    print(
                        f"{'+'.join(names)}: {_told([outcome])}", *outcome.get("failures", ()), sep="\n  ", flush=True
                    )
                    write_into(self.into, table(read(self.record)), MARK)
        print(table(read(self.record)))
        return int(failed)


def tried(names: Sequence[str]) -> dict[str, Any]:
    """`make test` under these conditions together: what came of it."""
    changed = [line for line in _git("status", "--porcelain").splitlines() if line[3:] not in NO_CODE]
    if changed:
        sys.exit(f"{changed[0][3:]} is not committed; commit it, so that the record says what was tried")
    began = time.monotonic()
    log = Path(tempfile.gettempdir(), f"conditions-{os.getpid()}", f"{'+'.join(names)}.log")
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as file, under(names, file) as process:
        process.wait()
    seconds, said = time.monotonic() - began, log.read_text(errors="replace")
    if process.returncode != 0:
        print(f"{log} has all that was said", flush=True)
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)s?\b", _end_of(said))}
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", said, flags=re.MULTILINE)
    if process.returncode != 0 and not failures:
        failures = said.splitlines()[-3:]
    return _what(names) | {
        "passed": counts.get("passed", 0),
        "failed": counts.get("failed", 0) + counts.get("error", 0),
        "failures": failures,
        "exit": process.returncode,
        "seconds": round(seconds),
    }


def _what(names: Sequence[str]) -> dict[str, Any]:
    """What was tried, and where."""
    here = {name: machine()[name] for name in ("instructions", "cores")} | {"torch": versions()["torch"]}
    return {"conditions": list(names), "commit": _git("rev-parse", "HEAD"), "code_digest": code()} | here


def _end_of(said: str) -> str:
    """pytest's last line, with its counts."""
    return next((line for line in reversed(said.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), "")


@contextlib.contextmanager
def under(names: Sequence[str], said: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The suite, started under these conditions together; it and all beside it are ended at the end."""
    chosen = [CONDITIONS[name] for name in names]
    environment = {name: value for each in chosen for name, value in each.environment.items()}
    command = [word for each in chosen for word in each.prefix] + list(SUITE)
    with contextlib.ExitStack() as stack:
        if HOME in environment:
            environment[HOME] = stack.enter_context(_home(environment[HOME]))
            environment["XDG_CACHE_HOME"] = f"{environment[HOME]}/.cache"
        for _ in range(max(each.busy for each in chosen)):
            stack.callback(subprocess.Popen([sys.executable, "-c", "while True: pass"]).kill)
        process = subprocess.Popen(
            command,
            cwd=HERE,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        stack.callback(_end, process)
        yield process


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _home(name: str) -> Iterator[str]:
    """A home folder of this name, whose cache has MNIST."""
    with tempfile.TemporaryDirectory() as scratch:
        cache = Path(scratch, name, ".cache/softpnet")
        cache.mkdir(parents=True)
        (cache / "mnist").symlink_to(cache_folder())
        yield str(Path(scratch, name))


def missing_instructions(names: Sequence[str]) -> str:
    """Instructions that a condition asks for and this processor lacks."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), flags=re.MULTILINE)
    has = flags[1].split() if flags else []
    needed = [CONDITIONS[name].instructions for name in names]
    return next((each for each in needed if each and each not in has), "")


def read(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def done(outcomes: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The outcomes of these conditions together, on the code that is here."""
    here = code()
    return [each for each in outcomes if each["conditions"] == list(names) and each["code_digest"] == here]


def table(outcomes: Sequence[dict[str, Any]]) -> str:
    """A line per condition, of the code that was tried last."""
    if not outcomes:
        return "Nothing has been tried yet."
    last = outcomes[-1]
    latest = [each for each in outcomes if each["code_digest"] == last["code_digest"]]
    lines = []
    for name, condition in CONDITIONS.items():
        found = [each for each in latest if name in each["conditions"]]
        others = sorted({other for each in found for other in each["conditions"]} - {name})
        seconds = max((each.get("seconds", 0) for each in found), default=0)
        lines.append([name, condition.how, _told(found), ", ".join(others), str(seconds or "")])
    head = ["condition", "how", "passed", "together with", "slowest, s"]
    tests = max(each.get("passed", 0) + each.get("failed", 0) for each in latest)
    where = f"torch {last['torch']}, {last['cores']} cores, {last['instructions']}"
    return markdown(Text(f"`make test`, commit {last['commit'][:10]}, {tests:,} tests, {where}", head, lines))


def _told(outcomes: Sequence[dict[str, Any]]) -> str:
    """How many of them passed, or why there are none."""
    lacking = {each["lacking"] for each in outcomes if "lacking" in each}
    if lacking:
        return f"not tried: this processor has no {lacking.pop()}"
    return f"{sum(each['exit'] == 0 for each in outcomes)} of {len(outcomes)}" if outcomes else "not tried yet"


def code() -> str:
    """A digest of all that is committed but for what this command writes: a commit of outcomes is no other code."""
    return digest(_git("ls-files", "--stage", ".", *(f":(exclude){path}" for path in NO_CODE)).encode())[:16]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True).stdout.rstrip("\n")


if __name__ == "__main__":
    sys.exit(tyro.cli(Conditions, prog="python -m torture.conditions").run())
