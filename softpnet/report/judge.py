"""Judge a trained model on its task's test sets and draw what it learned."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import torch

from softpnet.errors import InputError
from softpnet.experiments.records import Record
from softpnet.learner import Learner
from softpnet.report.accuracy import accuracies
from softpnet.report.pictures import curves, learned
from softpnet.storage import digest, to_json, to_safetensors
from softpnet.task.data import Data, make_data
from softpnet.task.task import Task
from softpnet.training.folder import METRICS, MODEL, RunFolder
from softpnet.training.run import fingerprint
from softpnet.training.streams import Streams


def scores(model: Learner, data: Data) -> dict[str, dict[str, float]]:
    """Metrics of every test set; the first is the one that is reported."""
    return {name: model.score(*examples) for name, examples in data.tests.items()}


def judge(model: Learner, data: Data, run: Path, pictures: bool) -> dict[str, dict[str, float]]:
    """Score the model, and write the final metrics and what it learned into its run folder."""
    with RunFolder.to_write(run) as folder, tempfile.TemporaryDirectory() as scratch:
        found = scores(model, data)
        assert model.module is not None  # or it could not have been scored
        epochs = [epoch["seconds"] for epoch in model.history]
        metrics = {
            "epochs": len(epochs),
            "interrupted": model.interrupted,
            "seconds_per_epoch": statistics.median(epochs) if epochs else None,
            "model_sha256": digest(folder.read(MODEL)),
            "weights_sha256": digest(to_safetensors(dict(model.module.named_parameters()), {})),
            "data_sha256": _data_fingerprint(data),
            "tests": found,
        }
        folder.write(METRICS, to_json(metrics))
        if pictures:
            draw(model, data, Path(scratch))
            for picture in sorted(Path(scratch).iterdir()):
                folder.write(picture.name, picture.read_bytes())
    return found


def draw(model: Learner, data: Data, folder: Path) -> None:
    """One picture per group: anchors, prototypes (if any) among the test embeddings, confusions; learning curves,
    of the accuracy too where the run was watched."""
    examples = next(iter(data.tests.values()))
    space = model.task.space
    probabilities = model.predict(examples.inputs).probabilities  # [N, k, h]
    parts = probabilities.split([group.size for group in space.groups], dim=1)
    prototypes = model.prototypes()
    for g, group in enumerate(space.groups):
        embeddings = model.embed(examples.inputs)[g].flatten(0, 1)  # [N * n_g, D]
        # The values read attribute by attribute may be no primitive together; the most probable primitive always is.
        values = parts[g].unflatten(1, (len(group.slots), -1)).flatten(0, 1)  # [N * n_g, a, h]
        each = values[:, torch.arange(len(group.values)), group.primitive_table()]  # [N * n_g, P, a]
        predicted = each.log().sum(-1).argmax(-1)  # [N * n_g]
        true = None if examples.concepts is None else space.primitives(examples.concepts)[g].flatten()
        true = None if true is None or (true < 0).all() else true  # what is no primitive is in no picture
        shown = torch.ones_like(predicted, dtype=torch.bool) if true is None else true >= 0
        anchors = model.anchors[g]  # [P, C, H, W]
        learned(
            folder / (picture_name(group.name) if len(space.groups) > 1 else "learned.png"),
            anchors=anchors if anchors.shape[1] in (1, 3) else anchors.mean(1, keepdim=True),
            names=group.primitive_names,
            prototypes=prototypes[g] if prototypes else None,
            embeddings=embeddings[shown],
            true=None if true is None else true[shown],
            predicted=predicted[shown],
            title=f"{model.task.name}: what {len(group.primitive_names)} labelled images taught",
            seed=model.seed,
        )
    if model.history:
        curves(folder / "curves.png", model.history)
    if any("label_accuracy" in epoch for epoch in model.history):
        accuracies(folder / "accuracy.png", {model.task.name: model.history})


def picture_name(group: str) -> str:
    """A file of a run folder for each group, whatever it is called."""
    return f"learned-{quote(group, safe='')}.png".replace("~", "%7E")  # the one sign that is never quoted


def check_same_data(task: Task, records: Sequence[Record]) -> None:
    """Raise where the task, for a seed that has a record, no longer makes the data that the record is of."""
    known = next((record for record in records if record.data_sha256 is not None), None)
    if known is not None and known.data_sha256 != _data_fingerprint(make_data(task, Streams(known.seed))):
        raise InputError(
            f"the records of task {task.name!r} were made with other data: images or tables were changed since, or its "
            "data differs from call to call; remove the records, or name another folder (--records)"
        )


def _data_fingerprint(data: Data) -> str:
    """One sha256 for all that is trained and judged on."""
    anchors = data.anchors.values() if isinstance(data.anchors, Mapping) else [data.anchors]
    parts = (data.train, *anchors, *data.tests.values())
    return fingerprint(tensor for part in parts for tensor in part if tensor is not None)
