"""Judge a trained model on its task's test sets and draw what it learned."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec
import torch

from softpnet.checks.report import count
from softpnet.errors import InputError
from softpnet.experiments.records import Record
from softpnet.learner import Learner
from softpnet.report.accuracy import accuracies
from softpnet.report.canvas import as_pictures
from softpnet.report.judgeable import judgeable
from softpnet.report.pictures import curves, learned
from softpnet.report.plane import placeable_prototypes
from softpnet.storage import digest, from_json, to_json, to_safetensors
from softpnet.task.anchors import arrange_anchors
from softpnet.task.data import Data, Examples, make_data
from softpnet.task.task import Task
from softpnet.training.config import read_config
from softpnet.training.folder import METRICS, MODEL, RunFolder
from softpnet.training.identity import fingerprint
from softpnet.training.prepare import Given
from softpnet.training.streams import Streams


def scores(model: Learner, tests: Mapping[str, Examples]) -> dict[str, dict[str, float]]:
    """Metrics of every test set; the first is the one that is reported."""
    return {name: model.score(*examples) for name, examples in tests.items()}


def judge(model: Learner, data: Data, run: Path, pictures: bool) -> dict[str, dict[str, float]]:
    """Score the model, and write the final metrics and what it learned into its run folder."""
    with RunFolder.to_write(run) as folder, tempfile.TemporaryDirectory() as scratch:
        made, model_sha256 = data_fingerprint(data), digest(folder.read(MODEL))
        before = read_judged(folder)
        if before is not None and before.model_sha256 != model_sha256:  # of the run as it was when it was stopped
            before = None
        if before is not None and before.data_sha256 != made:
            raise InputError(
                f"the run in {run} was judged on other data than task {model.task.name!r} makes now, and is left as it "
                "is; `softpnet evaluate RUN --other-data` judges it on this"
            )
        found = scores(model, data.tests)
        assert model.module is not None  # or it could not have been scored
        seconds = [epoch["seconds"] for epoch in model.history]
        lost = not model.interrupted and len(seconds) < model.settings.epochs  # the history was removed
        metrics = {
            "epochs": model.settings.epochs if lost else len(seconds),
            "interrupted": model.interrupted,
            "seconds_per_epoch": statistics.median(seconds) if seconds else None,
            "model_sha256": model_sha256,
            "weights_sha256": digest(to_safetensors(dict(model.module.named_parameters()), {})),
            "data_sha256": made,
            "tests": found,
        }
        if lost and before is not None:
            metrics["seconds_per_epoch"] = before.seconds_per_epoch
        folder.write(METRICS, to_json(metrics))
        if pictures:
            draw(model, data, Path(scratch))
            for picture in sorted(Path(scratch).iterdir()):
                folder.write(picture.name, picture.read_bytes())
    return found


class Judged(msgspec.Struct):
    """What is read again of metrics.json; it holds more."""

    model_sha256: str
    data_sha256: str
    seconds_per_epoch: float | None
    tests: dict[str, dict[str, float | None]] = {}  # metrics of every test set


def read_judged(folder: RunFolder) -> Judged | None:
    """By what and of what the metrics in the folder are; None where there are none."""
    if METRICS not in folder or METRICS in folder.removed():
        return None
    path = folder.path / METRICS
    try:
        return msgspec.convert(from_json(folder.read(METRICS), path), Judged)
    except msgspec.ValidationError as error:
        raise InputError(f"{path} is damaged: {error}; remove it, and resume the run to make it again") from error


def read_metrics(run: Path) -> dict[str, float]:
    """The main metrics of the model in a run folder, as "test: concept_accuracy"; none where it was never judged."""
    folder = RunFolder(run)
    judged = read_judged(folder)
    if judged is None or judged.model_sha256 != digest(folder.read(MODEL)):
        return {}
    each = ((f"{test}: {name}", value) for test, found in judged.tests.items() for name, value in found.items())
    return {name: value for name, value in each if value is not None and "/" not in name}


def is_other_data(model: Learner, data: Data, run: Path) -> bool:
    """Whether the data is not what the run was judged on or, where it never was, what it was trained on."""
    folder = RunFolder(run)
    judged, trained = read_judged(folder), read_config(folder).data
    if judged is not None:
        return judged.data_sha256 != data_fingerprint(data)
    if trained is None:  # a model that was saved without a run: nothing is known of its data
        return False
    inputs, labels, concepts = data.train
    truth = concepts if model.method_class.needs_concepts else None
    return (
        trained
        != Given(inputs, labels, arrange_anchors(model.task.space, data.anchors, inputs.shape[2:]), truth).fingerprint()
    )


def data_of_run(model: Learner, run: Path, other_data: bool) -> Data:
    """The data that a run's task makes; raises where that is not the run's, unless other data are asked for."""
    data = judgeable(make_data(model.task, Streams(model.seed)))
    if not other_data and is_other_data(model, data, run):
        raise InputError(
            f"the run in {run} was made with other data than task {model.task.name!r} makes now: restore what was "
            "changed since, or judge on this with --other-data"
        )
    return data


def draw(model: Learner, data: Data, folder: Path) -> None:
    """One picture per group: anchors, prototypes (if any) among the test embeddings, confusions; learning curves,
    of the accuracy too where the run was watched."""
    examples = next(iter(data.tests.values()))
    space = model.task.space
    probabilities = model.predict(examples.inputs).probabilities  # [N, k, h]
    parts = probabilities.split([group.size for group in space.groups], dim=1)
    prototypes = placeable_prototypes(model)
    thing = "image" if model.anchors[0].inputs.dim() == 4 else "input"
    for g, (group, own) in enumerate(zip(space.groups, model.anchors, strict=True)):
        embeddings = model.embed(examples.inputs)[g].flatten(0, 1)  # [N * n_g, D]
        # The values read attribute by attribute may be no primitive together; the most probable primitive always is.
        values = parts[g].unflatten(1, (len(group.slots), -1)).flatten(0, 1)  # [N * n_g, a, h]
        each = values[:, torch.arange(len(group.values)), group.primitive_table()]  # [N * n_g, P, a]
        predicted = each.log().sum(-1).argmax(-1)  # [N * n_g]
        true = None if examples.concepts is None else space.primitives(examples.concepts)[g].flatten()
        true = None if true is None or (true < 0).all() else true  # what is no primitive is in no picture
        shown = torch.ones_like(predicted, dtype=torch.bool) if true is None else true >= 0
        learned(
            folder / (picture_name(group.name) if len(space.groups) > 1 else "learned.png"),
            anchors=as_pictures(own.one_of_each(len(group.primitives))),
            names=group.primitive_names,
            prototypes=None if prototypes is None else prototypes[g],
            embeddings=embeddings[shown],
            true=None if true is None else true[shown],
            predicted=predicted[shown],
            title=f"{model.task.name}: what {count(len(own.inputs), f'labelled {thing}')} taught",
            seed=model.seed,
            missing=set(range(len(group.primitives))) - set(own.primitives.tolist()),
            things=f"{thing}s",
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
    if known is not None and known.data_sha256 != data_fingerprint(judgeable(make_data(task, Streams(known.seed)))):
        raise InputError(
            f"the records of task {task.name!r} were made with other data: images or tables were changed since, or its "
            "data differs from call to call; remove the records, or name another folder (--records)"
        )


def data_fingerprint(data: Data) -> str:
    """One sha256 for all that is trained and judged on."""
    anchors = data.anchors.values() if isinstance(data.anchors, Mapping) else [data.anchors]
    parts = (data.train, *anchors, *data.tests.values())
    return fingerprint(tensor for part in parts for tensor in part if tensor is not None)
