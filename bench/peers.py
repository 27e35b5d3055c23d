"""Versus peers: MNIST-EvenOdd by other libraries, on the same images, with the same encoder and the same optimiser.

    python -m bench.peers NAME --train 1600 --epochs 2 --seconds 12

Each contender trains in a process of its own, on one thread, and is judged by concept and label accuracy on the 960 test
pairs of mixed parity after the same epochs and after the same seconds as softpnet. Judging is not timed; training on the
anchors first is, but not as part of an epoch. Peers are used the way their own addition example does it:

ABLkit     A3BLBridge, A3BLReasoner and BasicNN over a KBBase of sums, in its example's segments and batches. Release 1.0.0
           computes A3BL's soft labels but trains on the first candidate; here the model trains on them, as A3BL says.
LTNtorch   forall x, y, n exists d1, d2: d1 + d2 = n (digit(x, d1) and digit(y, d2)), with the example's schedule of p. The
           network is an LTN function, so that an image is read once, not once for every digit as in the example.
DeepProbLog  addition/3, exact engine, circuits cached. It reads the two images of one query at a time, however large the
           batch, so batch normalisation sees two images.

The sums of EvenOdd leave 35 wrong readings of the digits, so a peer that never sees the anchors cannot know the right one;
"anchors first" peers start from a network trained on them, for as many steps and copies as softpnet's warm-up.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEYS = (
    "name",
    "error",
    "epochs",
    "seconds_per_epoch",
    "concept_accuracy",
    "label_accuracy",
    "concept_accuracy_same_time",
    "label_accuracy_same_time",
    "seconds",
)
GRACE = 30.0
"""Seconds that a process may take beyond its limit of training: imports, data, judging."""


class Finished(Exception):
    """Nothing is left to measure; ends a peer's training loop from inside."""


class Race:
    """Data, clock and results of one contender. The clock stands while the contender is judged."""

    def __init__(self, name: str, train: int, epochs: int, seconds: float, seed: int, limit: float) -> None:
        self.train, self.epochs, self.seconds, self.seed, self.limit = train, epochs, seconds, seed, limit
        self.row: dict[str, Any] = dict.fromkeys(KEYS) | {"name": name}
        self.used = self.before_epochs = self.since = 0.0
        self.seen = 0
        self.judge: Callable[[], dict[str, float]] = dict

    @functools.cached_property
    def task(self) -> Any:
        from softpnet import tasks

        return tasks.load("mnist_evenodd", {"train": self.train})

    @functools.cached_property
    def data(self) -> Any:
        from softpnet.training.streams import Streams

        return self.task.data(Streams(self.seed))

    def start(self, judge: Callable[[], dict[str, float]]) -> None:
        self.judge, self.since = judge, time.perf_counter()

    def epochs_begin(self) -> None:
        """What was used so far came before the first epoch."""
        self.before_epochs = time.perf_counter() - self.since

    def saw(self, examples: int) -> None:
        """Called after every update. Judges when it is time to, and raises Finished when all is measured."""
        self.used += time.perf_counter() - self.since
        self.seen += examples
        if self.row["concept_accuracy_same_time"] is None and 0 < self.seconds <= self.used:
            self.record("_same_time")
        if self.row["concept_accuracy"] is None and self.seen >= self.epochs * self.train:
            self.record()
        if self.row["concept_accuracy"] is not None and self.used >= self.seconds:
            raise Finished
        if self.used >= self.limit:
            if self.row["concept_accuracy"] is None:
                reached = f"after {self.seen / self.train:.2f} of {self.epochs} epochs, where it was judged"
                self.row["error"] = f"cut off at {self.limit:.0f} s, {reached}"
                self.record()
            raise Finished
        self.since = time.perf_counter()

    def record(self, suffix: str = "") -> None:
        scores = self.judge()
        for key in ("concept_accuracy", "label_accuracy"):
            self.row[key + suffix] = round(scores[key], 4)
        if not suffix:
            epochs = self.seen / self.train
            self.row |= {"epochs": round(epochs, 2), "seconds": round(self.used, 2)}
            self.row["seconds_per_epoch"] = round((self.used - self.before_epochs) / epochs, 2)
        print(json.dumps(self.row), file=sys.__stdout__, flush=True)


def network(race: Race, anchors: bool) -> tuple[Any, Any]:
    """softpnet's encoder with a linear head, and Adam; trained on the anchors and their copies first if so wished."""
    import torch
    from torch import Generator, nn

    from softpnet.augment import augment
    from softpnet.encoders import conv4
    from softpnet.metrics import concept_metrics, label_metrics

    torch.manual_seed(race.seed)
    net = nn.Sequential(conv4(1), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    settings, test, originals = race.task.settings, race.data.tests["test"], race.data.anchors

    @torch.inference_mode()
    def judge() -> dict[str, float]:
        net.eval()
        found = torch.cat([net(part.flatten(0, 1)).argmax(-1) for part in test.images.split(256)]).view(-1, 2)
        net.train()
        return concept_metrics(race.task.space, found, test.concepts) | label_metrics(found.sum(1), test.labels)

    race.start(judge)
    generator = Generator().manual_seed(race.seed)
    truth = originals.concepts.repeat(settings.copies + 1)
    for _ in range(settings.warmup_steps if anchors else 0):
        copies = augment(originals.images.expand(settings.copies, -1, -1, -1, -1), 0.0, generator)
        loss = nn.functional.cross_entropy(net(torch.cat([originals.images, copies.flatten(0, 1)])), truth)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    race.epochs_begin()
    return net, optimiser


def softpnet(race: Race) -> None:
    import lightning_fabric  # noqa: F401  so that its import is not timed

    from softpnet import SoftPNet

    model = SoftPNet(race.task, epochs=race.epochs, seed=race.seed, threads=1)
    images, labels, anchors = race.data.train.images, race.data.train.labels, race.data.anchors
    race.start(lambda: model.score(*race.data.tests["test"]))
    model.fit(images, labels, anchors)
    race.used = time.perf_counter() - race.since
    race.before_epochs = race.used - sum(epoch["seconds"] for epoch in model.epochs)
    race.seen = race.epochs * race.train
    race.record("_same_time")
    race.record()


def ablkit(race: Race, anchors: bool) -> None:
    from ablkit.bridge import A3BLBridge
    from ablkit.learning import ABLModel, BasicNN, MultiLabelClassificationDataset
    from ablkit.reasoning import A3BLReasoner, KBBase
    from ablkit.utils import ABLLogger
    from torch import nn
    from torch.utils.data import DataLoader

    class Sum(KBBase):
        def logic_forward(self, pseudo_label: list[int]) -> int:
            return sum(pseudo_label)

    class SoftLabels(ABLModel):
        def train(self, data_examples: Any) -> Any:
            soft = list(itertools.chain(*data_examples.abduced_soft_label))
            dataset = MultiLabelClassificationDataset(data_examples.flatten("X"), soft)
            result = self.base_model.fit(data_loader=DataLoader(dataset, self.base_model.batch_size, shuffle=True))
            race.saw(len(data_examples))
            return result

    ABLLogger.get_instance("abl", log_level="ERROR", log_file=os.devnull)
    examples = race.data.train
    data = ([list(pair) for pair in examples.images], None, examples.labels.tolist())
    net, optimiser = network(race, anchors)
    model = SoftLabels(BasicNN(net, nn.CrossEntropyLoss(), optimiser, batch_size=32, stop_loss=None))
    # two more revisions than needed: every pair with the right sum is a candidate
    reasoner = A3BLReasoner(Sum(list(range(10))), topK=16, temperature=0.2, require_more_revision=2)
    first = tuple(part and part[:1] for part in data)  # the bridge insists on validating after every loop
    A3BLBridge(model, reasoner, []).train(data, val_data=first, loops=10**6, segment_size=320)


def ltntorch(race: Race, anchors: bool) -> None:
    import ltn
    import torch

    And = ltn.Connective(ltn.fuzzy_ops.AndProd())
    Exists = ltn.Quantifier(ltn.fuzzy_ops.AggregPMean(p=2), quantifier="e")
    Forall = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")
    Is = ltn.Predicate(func=lambda p, digit: p.gather(1, digit.long()).squeeze(1))
    d1, d2 = (ltn.Variable(name, torch.arange(10)[:, None]) for name in ("d1", "d2"))
    examples = race.data.train
    net, optimiser = network(race, anchors)
    read = ltn.Function(func=lambda images: net(images).softmax(-1))
    for epoch in itertools.count():
        p = 1 if epoch < 4 else 2 if epoch < 8 else 4 if epoch < 12 else 6
        for ids in torch.randperm(race.train).split(32):
            x, y = (ltn.Variable(name, examples.images[ids, i]) for i, name in enumerate("xy"))
            n = ltn.Variable("n", examples.labels[ids, None])
            x, y, n = ltn.diag(x, y, n)
            both = And(Is(read(x), d1), Is(read(y), d2))
            right = Exists(
                [d1, d2], both, cond_vars=[d1, d2, n], cond_fn=lambda a, b, n: a.value + b.value == n.value, p=p
            )
            loss = 1.0 - Forall([x, y, n], right).value
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            race.saw(len(ids))


def deepproblog(race: Race, anchors: bool) -> None:
    from deepproblog.dataset import DataLoader, Dataset
    from deepproblog.engines import ExactEngine
    from deepproblog.model import Model
    from deepproblog.network import Network
    from deepproblog.query import Query
    from deepproblog.train import TrainObject
    from problog.logic import Constant, Term
    from torch import nn

    class Images(dict):  # type: ignore[type-arg]
        def __missing__(self, where: tuple[Any, Any]) -> Any:
            return examples.images[int(where[0]), int(where[1])]

    class Additions(Dataset):
        def __len__(self) -> int:
            return race.train

        def to_query(self, i: int) -> Query:
            places = [Term("a"), Term("b")]  # the same circuit serves all queries of a sum
            images = [Term("tensor", Term("train", Constant(i), Constant(j))) for j in range(2)]
            query = Term("addition", *places, Constant(int(examples.labels[i])))
            return Query(query, dict(zip(places, images, strict=True)))

    program = """
        nn(net, [X], Y, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) :: digit(X, Y).
        addition(X, Y, Z) :- digit(X, X2), digit(Y, Y2), Z is X2 + Y2."""
    examples = race.data.train
    loader = DataLoader(Additions(), 16, shuffle=True, seed=race.seed)
    net, optimiser = network(race, anchors)
    model = Model(program, [Network(nn.Sequential(net, nn.Softmax(1)), "net", optimiser, batching=True)], load=False)
    model.set_engine(ExactEngine(model), cache=True)
    model.add_tensor_source("train", Images())
    training = TrainObject(model)
    sizes = itertools.cycle([len(range(race.train)[at : at + 16]) for at in range(0, race.train, 16)])
    training.hooks.append((1, lambda _: race.saw(next(sizes))))
    training.train(loader, 10**6, verbose=0)


CONTENDERS: dict[str, Callable[[Race], None]] = {"softpnet": softpnet}
for _name, _peer in {"ABLkit A3BL": ablkit, "LTNtorch": ltntorch, "DeepProbLog": deepproblog}.items():
    CONTENDERS[_name] = functools.partial(_peer, anchors=False)
    CONTENDERS[f"{_name}, anchors first"] = functools.partial(_peer, anchors=True)


def contend(race: Race) -> dict[str, Any]:
    """Run one contender here; its errors become part of its row."""
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(action="ignore"):
            CONTENDERS[race.row["name"]](race)
    except Finished:
        pass
    except Exception as error:
        race.row["error"] = f"{type(error).__name__}: {_brief(str(error))}"
    return race.row


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bench.peers", *map(str, arguments)]


def run(name: str, train: int, epochs: int, seconds: float, seed: int, limit: float) -> dict[str, Any]:
    """Run one contender in a process of its own, and cut it off where it does not stop by itself."""
    options = {"--train": train, "--epochs": epochs, "--seconds": seconds, "--seed": seed, "--limit": limit}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    root = Path(__file__).parents[1]
    error = None
    try:
        done = subprocess.run(
            command(name, *itertools.chain(*options.items())),
            capture_output=True,
            cwd=root,
            env=environment,
            timeout=limit + GRACE,
        )
        out = done.stdout
        if done.returncode != 0:
            error = f"exit code {done.returncode}: {_brief((done.stderr.decode().splitlines() or ['no message'])[-1])}"
    except subprocess.TimeoutExpired as late:
        out, error = late.stdout or b"", f"cut off at {limit + GRACE:.0f} s, without coming to an end"
    lines = [line for line in out.decode().splitlines() if line.startswith("{") and line.endswith("}")]
    row = dict.fromkeys(KEYS) | (json.loads(lines[-1]) if lines else {}) | {"name": name}
    return row | ({"error": error} if error else {})


def _brief(message: str) -> str:
    """The first line, without folders."""
    return re.sub(r"(/[\w.+-]+)+/", "", (message.splitlines() or [""])[0])


def measure(train: int = 1600, epochs: int = 2, seed: int = 0, limit: float = 60.0) -> list[dict]:
    """One row per contender, softpnet first; the others get the seconds that it took."""
    ours, *others = CONTENDERS
    rows = [run(ours, train, epochs, 0.0, seed, limit)]
    seconds = rows[0]["seconds"] or 0.0
    return rows + [run(name, train, epochs, seconds, seed, limit) for name in others]


def main() -> None:
    parser = argparse.ArgumentParser(description="One contender on MNIST-EvenOdd; prints a line of JSON.")
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("--train", type=int, default=1600, help="training pairs, a multiple of 16")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.0, help="also judge after so many seconds of training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60.0, help="stop after so many seconds of training")
    options = parser.parse_args()
    import torch

    from softpnet.training.allocator import keep_large_blocks

    torch.set_num_threads(1)
    keep_large_blocks()
    print(json.dumps(contend(Race(**vars(options)))))


if __name__ == "__main__":
    main()
