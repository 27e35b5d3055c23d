"""Other libraries on MNIST-EvenOdd, with the same images, encoder, optimiser, allocator and one thread.

    pip install --no-deps ablkit==1.0.0 zoopt==0.4.2 termcolor==3.3.0 LTNtorch==1.0.2 deepproblog==2.1.0 \\
        problog==2.3.0 PySDD==1.0.6

(Dependencies would bring torchvision, which nothing here needs, and pyswip, which breaks DeepProbLog where SWI-Prolog
is missing.) EvenOdd's sums leave 35 wrong readings of the digits, so a peer that never sees the anchors cannot know the
right one; "anchors first" peers train on them before the first epoch, with the steps and copies of the paper's
warm-up. Peers follow their own addition examples, except where something else did better: see their docstrings.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

from bench.race import Race


def network(race: Race, anchors: bool) -> tuple[Any, Any]:
    """softpnet's encoder with a linear head, and Adam; trained on the anchors and their copies first, if so wished."""
    import torch

    from softpnet.networks.encoders import conv4
    from softpnet.networks.views import random_views
    from softpnet.task.data import Anchors
    from softpnet.task.settings import Settings

    torch.manual_seed(race.seed)
    net = torch.nn.Sequential(conv4(1), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    task, data = race.given
    settings = Settings().override(**task.settings_in("paper"))
    test, originals, copies = data.tests["test"], data.anchors, settings.copies

    @torch.inference_mode()
    def read() -> torch.Tensor:
        net.eval()
        found = torch.cat([net(part.flatten(0, 1)).argmax(-1) for part in test.inputs.split(256)]).view(-1, 2)
        net.train()
        return found

    race.begin(read)
    generator = torch.Generator().manual_seed(race.seed)
    assert isinstance(originals, Anchors)
    truth = originals.concepts.repeat(copies + 1)
    for _ in range(settings.warmup_steps if anchors else 0):
        views = random_views(task, originals.inputs.repeat(copies, 1, 1, 1)[None], generator)[0]
        loss = torch.nn.functional.cross_entropy(net(torch.cat([originals.inputs, views])), truth)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net, optimiser


def ablkit(race: Race, anchors: bool) -> None:
    """A3BL: all pairs of the right sum, weighted, make a soft label.

    Release 1.0.0 computes soft labels but trains on the first candidate; here the model trains on the soft labels.
    Segments are of 320 pairs (300 in the example): with 16, 64 and 160 some seeds lost what they knew from the anchors.
    """
    import torch
    from ablkit.bridge import A3BLBridge
    from ablkit.learning import ABLModel, BasicNN, MultiLabelClassificationDataset
    from ablkit.reasoning import A3BLReasoner, KBBase
    from ablkit.utils import ABLLogger

    class Sum(KBBase):
        def logic_forward(self, pseudo_label: list[int]) -> int:
            return sum(pseudo_label)

    class SoftLabels(ABLModel):
        def train(self, data_examples: Any) -> Any:
            soft = list(itertools.chain(*data_examples.abduced_soft_label))
            dataset = MultiLabelClassificationDataset(data_examples.flatten("X"), soft)
            self.base_model.fit(data_loader=torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True))
            race.saw(len(data_examples))

    ABLLogger.get_instance("abl", log_level="ERROR", log_file=os.devnull)
    examples = race.given[1].train
    data = ([list(pair) for pair in examples.inputs], None, examples.labels.tolist())
    first = tuple(part and part[:1] for part in data)  # the bridge insists on validating after every loop
    net, optimiser = network(race, anchors)
    model = SoftLabels(BasicNN(net, torch.nn.CrossEntropyLoss(), optimiser, stop_loss=None))
    reasoner = A3BLReasoner(Sum(list(range(10))), topK=16, temperature=0.2, require_more_revision=2)
    A3BLBridge(model, reasoner, []).train(data, val_data=first, loops=10**6, segment_size=320)


def ltntorch(race: Race, anchors: bool) -> None:
    """For all x, y, n there are digits d1 + d2 = n: x is d1 and y is d2. An image is read once, not once per digit."""
    import ltn
    import torch

    both = ltn.Connective(ltn.fuzzy_ops.AndProd())
    exists = ltn.Quantifier(ltn.fuzzy_ops.AggregPMean(), quantifier="e")
    for_all = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")
    shows = ltn.Predicate(func=lambda p, digit: p.gather(1, digit.long()).squeeze(1))
    d1, d2 = digits = [ltn.Variable(name, torch.arange(10)[:, None]) for name in ("d1", "d2")]
    examples = race.given[1].train
    net, optimiser = network(race, anchors)
    read = ltn.Function(func=lambda images: net(images).softmax(-1))
    for epoch in itertools.count():
        p = (1, 2, 4, 6)[min(epoch // 4, 3)]
        for ids in torch.randperm(len(examples.labels)).split(32):
            x, y = (ltn.Variable(name, examples.inputs[ids, i]) for i, name in enumerate("xy"))
            x, y, n = ltn.diag(x, y, ltn.Variable("n", examples.labels[ids, None]))
            right = {"cond_vars": [d1, d2, n], "cond_fn": lambda a, b, n: a.value + b.value == n.value}
            sums = exists(digits, both(shows(read(x), d1), shows(read(y), d2)), **right, p=p)
            loss = 1.0 - for_all([x, y, n], sums).value
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            race.saw(len(ids))


def deepproblog(race: Race, anchors: bool) -> None:
    """Addition by the exact engine, which reads two images at a time: batch normalisation sees no more than those.

    Batches are of 16 queries: with the example's 2 it lost what it knew from the anchors, with 64 it learned less.
    """
    from deepproblog.dataset import DataLoader, Dataset
    from deepproblog.engines import ExactEngine
    from deepproblog.model import Model
    from deepproblog.network import Network
    from deepproblog.query import Query
    from deepproblog.train import TrainObject
    from problog.logic import Constant, Term
    from torch import nn

    class Additions(Dataset):
        def __len__(self) -> int:
            return len(examples.labels)

        def to_query(self, i: int) -> Query:
            places = [Term("a"), Term("b")]  # so that one circuit serves all queries of a sum
            shown = [Term("tensor", Term("train", Constant(2 * i + j))) for j in range(2)]
            query = Term("addition", *places, Constant(int(examples.labels[i])))
            return Query(query, dict(zip(places, shown, strict=True)))

    program = """
        nn(net, [X], Y, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) :: digit(X, Y).
        addition(X, Y, Z) :- digit(X, X2), digit(Y, Y2), Z is X2 + Y2."""
    examples = race.given[1].train
    loader = DataLoader(Additions(), 16, shuffle=True, seed=race.seed)
    net, optimiser = network(race, anchors)
    model = Model(program, [Network(nn.Sequential(net, nn.Softmax(1)), "net", optimiser, batching=True)], load=False)
    model.set_engine(ExactEngine(model), cache=True)
    model.add_tensor_source("train", {(Constant(i),): image for i, image in enumerate(examples.inputs.flatten(0, 1))})
    training = TrainObject(model)
    training.hooks.append((1, lambda _: race.saw(loader.batch_size)))  # the task's size is a multiple of 16
    training.train(loader, 10**6, verbose=0)


PEERS: dict[str, Callable[[Race], None]] = {
    "ABLkit A3BL": functools.partial(ablkit, anchors=False),
    "ABLkit A3BL, anchors first": functools.partial(ablkit, anchors=True),
    "LTNtorch": functools.partial(ltntorch, anchors=False),
    "LTNtorch, anchors first": functools.partial(ltntorch, anchors=True),
    "DeepProbLog, anchors first": functools.partial(deepproblog, anchors=True),
}
