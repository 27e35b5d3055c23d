"""Which of two bars is higher? The images are files that CSV tables name.

python examples/bars_from_files.py             # draws stand-in images into ./bars and trains on them
softpnet train examples/bars_from_files.py     # trains on what is in ./bars; --option folder=... names another
"""

from pathlib import Path

import torch
from PIL import Image

import softpnet as sp
from softpnet.data.tables import Table
from softpnet.training.streams import Streams

SHAPE = (1, 16, 16)  # channels (1: grey, 3: colour), height, width
BARS = ["low", "mid", "high"]  # what the tables call the values 0, 1, 2


def rule(c):
    return (c[..., 0] > c[..., 1]).long()


def task(folder: str = "bars") -> sp.Task:
    def examples(name):
        table = Table(Path(folder, name))  # left,right,higher,left_bar,right_bar
        bars = table.integers(["left_bar", "right_bar"], names=BARS)  # only to judge by; leave them out if unknown
        return sp.Examples(table.images(["left", "right"], SHAPE), table.integers("higher"), bars)

    def data(streams):
        labelled = Table(Path(folder, "anchors.csv"))  # image,bar: one labelled image per height
        anchors = sp.Anchors(labelled.images("image", SHAPE), labelled.integers("bar", names=BARS))
        return sp.Data(examples("train.csv"), anchors, {"test": examples("test.csv")})

    space = sp.ConceptSpace(slots=2, values=3, value_names=[BARS])
    settings = dict(epochs=3, batch_size=20)
    return sp.Task(space, rule, name="bars_from_files", data=data, settings=settings)


def draw(folder):
    """Stand-ins for your files: noisy bars, and the three tables that name them."""
    Path(folder, "images").mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)

    def image(bar, name):
        bright = (torch.arange(16)[:, None] < 4 * (bar + 1)).expand(16, 16)
        pixels = 0.9 * bright + 0.1 * torch.rand(16, 16, generator=generator)
        Image.fromarray((255 * pixels).byte().numpy()).save(Path(folder, "images", f"{name}.png"))
        return f"images/{name}.png"

    lines = ["image,bar", *(f"{image(bar, name)},{name}" for bar, name in enumerate(BARS))]
    Path(folder, "anchors.csv").write_text("\n".join(lines))
    for split, count in {"train": 200, "test": 100}.items():
        lines = ["left,right,higher,left_bar,right_bar"]
        for at, (a, b) in enumerate(torch.randint(3, (count, 2), generator=generator).tolist()):
            left, right = image(a, f"{split}{at}-left"), image(b, f"{split}{at}-right")
            lines.append(f"{left},{right},{int(a > b)},{BARS[a]},{BARS[b]}")
        Path(folder, f"{split}.csv").write_text("\n".join(lines))


def main(folder="bars", **settings):
    if not Path(folder).exists():
        draw(folder)
    data = task(folder).data(Streams(0))
    model = sp.Learner(task(folder), **settings).fit(data.train.inputs, data.train.labels, data.anchors)
    print(model.score(*data.tests["test"]))


if __name__ == "__main__":
    main()
