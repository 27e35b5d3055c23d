"""A drawn traffic scene: a light, an obstacle or none, a sign. The label says in two bits: stop? slow down?

The rule cannot tell the two warning signs apart; `softpnet check` names them before training.

softpnet check examples/traffic_scene.py
softpnet train examples/traffic_scene.py
"""

import torch

import softpnet as sp

GROUPS = {"light": ["red", "yellow", "green"], "obstacle": ["none", "ahead"], "sign": ["priority", "bend", "school"]}
FIRST = torch.tensor([0, 3, 5])  # where the values of each group begin in the table of looks
LOOKS = torch.tensor(
    [  # red, green, blue; 1 is a rhombus, 2 a disc, 9 a box; radius; height of its middle
        *([1.0, 0, 0, 2, 4, 7], [1.0, 1, 0, 2, 4, 0], [0.0, 1, 0, 2, 4, -7]),
        *([0.0, 0, 0, 9, -1, 0], [0.3, 0.1, 0, 9, 6, 0]),
        *([1.0, 1, 0, 1, 9, 0], [1.0, 0, 0, 1, 9, 0], [0.0, 0, 1, 9, 6, 0]),
    ]
)
GREY = 0.4


def rule(c):
    """Light, obstacle and sign [..., 3] -> two bits [..., 2]: stop, slow down."""
    light, obstacle, sign = c.unbind(-1)
    stop = (light == 0) | (obstacle == 1)
    slow = (light == 1) | (sign >= 1)
    return torch.stack([stop, slow], -1).long()


def draw(c, generator):
    """One image per concept, with noise in all that is drawn: [N, 3] -> [N, 3, 3, 28, 28]."""

    def noise(spread, *shape):
        return spread * torch.randn(*c.shape, *shape, generator=generator)

    red_green_blue, (form, radius, height) = LOOKS[c + FIRST].split(3, -1)[0], LOOKS[c + FIRST][..., 3:].unbind(-1)
    x = torch.arange(28) - 13.5 + noise(1.5, 1, 1)
    y = torch.arange(28)[:, None] - 13.5 + noise(1.5, 1, 1) + height[..., None, None]
    power = form[..., None, None]
    distance = (x.abs() ** power + y.abs() ** power) ** (1 / power)  # [N, 3, 28, 28]
    cover = ((radius + noise(0.5))[..., None, None] - distance).clamp(0, 1)[:, :, None]
    image = GREY + (red_green_blue[..., None, None] - GREY) * cover
    return (image + noise(0.1, 3, 28, 28)).clamp(0, 1)


def task(train: int = 1000, test: int = 1000) -> sp.Task:
    def examples(count, generator):
        concepts = torch.stack([torch.randint(len(v), (count,), generator=generator) for v in GROUPS.values()], 1)
        return sp.Examples(draw(concepts, generator), rule(concepts), concepts)

    def data(streams):
        shown = draw(torch.tensor([[0, 0, 0], [1, 1, 1], [2, 1, 2]]), streams("anchors"))
        anchors = {g: sp.Anchors(shown[: len(v), at], torch.arange(len(v))) for at, (g, v) in enumerate(GROUPS.items())}
        return sp.Data(examples(train, streams("train data")), anchors, {"test": examples(test, streams("test data"))})

    groups = [sp.Group([slot], len(v), g, value_names=[v]) for slot, (g, v) in enumerate(GROUPS.items())]
    settings = dict(epochs=12, batch_size=32)
    return sp.Task(sp.ConceptSpace(*groups), rule, name="traffic_scene", data=data, background=GREY, settings=settings)
