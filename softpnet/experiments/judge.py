"""Judge a trained model on its task's test sets and draw what it learned."""

from __future__ import annotations

from pathlib import Path

from softpnet.experiments import pictures
from softpnet.learner import SoftPNet
from softpnet.task import Data
from softpnet.training import run as runs


def scores(model: SoftPNet, data: Data) -> dict[str, dict[str, float]]:
    """Metrics of every test set; the first is the one that is reported."""
    return {name: model.score(*examples) for name, examples in data.tests.items()}


def judge(model: SoftPNet, data: Data, folder: Path) -> dict[str, dict[str, float]]:
    """Score the model and write the final metrics into its run folder."""
    found = scores(model, data)
    epochs = [epoch["seconds"] for epoch in model.epochs]
    runs.write_json(
        folder / runs.METRICS,
        {
            "epochs": len(epochs),
            "interrupted": model.interrupted,
            "seconds_per_epoch": sum(epochs) / len(epochs) if epochs else None,
            "tests": found,
        },
    )
    return found


def draw(model: SoftPNet, data: Data, folder: Path) -> None:
    """One picture per group: anchors, prototypes among the test embeddings, confusion matrix; and learning curves."""
    examples = next(iter(data.tests.values()))
    found = model.predict(examples.images).concepts
    several = len(model.task.space.groups) > 1
    for g, group in enumerate(model.task.space.groups):
        true = None if examples.concepts is None else model.task.space.primitives(examples.concepts)[g].flatten()
        pictures.learned(
            folder / (f"learned-{group.name}.png" if several else "learned.png"),
            anchors=model.anchors[g],
            names=group.primitive_names,
            prototypes=model.prototypes()[g],
            embeddings=model.embed(examples.images)[g].flatten(0, 1),
            true=true,
            predicted=model.task.space.primitives(found)[g].flatten(),
            title=f"{model.task.name}: what {len(group.primitive_names)} labelled images taught",
            seed=model.seed,
        )
    if model.epochs:
        pictures.curves(folder / "curves.png", model.epochs)
