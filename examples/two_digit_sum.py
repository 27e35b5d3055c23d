"""Two digits and their sum: the README's task, as a script and as a file for the command line.

python examples/two_digit_sum.py
softpnet train examples/two_digit_sum.py
"""

import torch

import softpnet as sp
from softpnet.data import mnist
from softpnet.training.streams import Streams


def rule(c):
    """Concepts [..., 2] -> labels [...]."""
    return c[..., 0] + c[..., 1]


def pairs(digits, count):
    """The first images of a split, two by two, with their sums and, to judge by, their digits."""
    concepts = digits.labels[: 2 * count].view(-1, 2)
    return sp.Examples(digits.images[: 2 * count].unflatten(0, (-1, 2)), rule(concepts), concepts)


def task(train: int = 2000, test: int = 5000) -> sp.Task:
    """The task. Its parameters are options: `softpnet train examples/two_digit_sum.py --option train=1000`."""

    def data(streams):
        seen, unseen = mnist.load("train"), mnist.load("test")
        first = torch.stack([(seen.labels == digit).nonzero()[0, 0] for digit in range(10)])
        anchors = sp.Anchors(seen.images[first], torch.arange(10))  # one labelled image per digit
        return sp.Data(pairs(seen, train), anchors, {"test": pairs(unseen, test)})

    return sp.Task(
        name="two_digit_sum",
        space=sp.ConceptSpace(slots=2, values=10),  # two images, each showing one of ten digits
        rule=rule,
        data=data,
        settings=dict(epochs=2),
    )


def main(train=2000, test=5000, **settings):
    made = task(train, test)
    data = made.data(Streams(0))
    model = sp.Learner(made, seed=0, **settings).fit(data.train.inputs, data.train.labels, data.anchors)
    inputs, labels, digits = data.tests["test"]
    scores = model.score(inputs, labels, digits)
    print(f"digits right: {scores['concept_accuracy']:.1%}, sums right: {scores['label_accuracy']:.1%}")
    read = model.predict(inputs[:1])
    print(f"the first pair reads {read.concepts[0].tolist()}, sum {int(read.labels[0])}; it is {digits[0].tolist()}")
    return model


if __name__ == "__main__":
    main()
