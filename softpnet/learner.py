"""Learner: the estimator that users hold."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from softpnet import methods, tasks
from softpnet.catalogue import name_of
from softpnet.errors import InputError
from softpnet.export.write import TOLERANCE, Exported, export
from softpnet.methods.base import Method
from softpnet.networks.calibration import Calibration
from softpnet.networks.make_encoders import Encoder, fitting, make_encoders, names_of
from softpnet.networks.reader import Reader, read
from softpnet.rules.function import check_rule
from softpnet.runtime.inputs import check_ids, is_real
from softpnet.storage import refuse_code
from softpnet.targets.source import State
from softpnet.task.anchors import AnchorSet, check_kinds
from softpnet.task.data import Anchors, Examples
from softpnet.task.hardware import Hardware
from softpnet.task.inputs import check_kind, warn_of_images
from softpnet.task.integers import tensor_as_array
from softpnet.task.lazy import first_readable
from softpnet.task.settings import Preset, checked_seed, resolve
from softpnet.task.task import Task, checked_task
from softpnet.trained import Trained
from softpnet.training.calibrate import calibrated
from softpnet.training.config import Config, read_config
from softpnet.training.environment import version_of
from softpnet.training.folder import CONFIG, RunFolder
from softpnet.training.history import read_epochs
from softpnet.training.identity import check_same_rule, described
from softpnet.training.launcher import is_first, with_launcher
from softpnet.training.loop import Progress, Training
from softpnet.training.model_file import StoredModel, put_weights, read_model, write_model
from softpnet.training.prepare import Given, accept, blank, build
from softpnet.training.processes import own_stream, with_precision
from softpnet.training.run import Run, check_callbacks
from softpnet.training.streams import Streams, borrowed_global_generator
from softpnet.training.threads import limited_threads
from softpnet.training.validation import METRICS, AfterEpoch
from softpnet.training.warm_start import start_from, warm_start

Watch = Callable[["Learner", State], Mapping[str, float] | None]
"""Looks at a training between two epochs: the model as it would be if training ended there, and the method's state."""


class Learner(Trained):
    """Learns the concepts behind labels from a rule and one labelled image per concept.

    Args:
        task: what the concepts are and how they give the label.
        method: how to train: a name (see `softpnet methods`), a Python file that defines `Method`, or such a class.
        seed: of every random stream.
        encoder: a name, such as "conv4" or "mlp", a module from input to vector, a function from the number of channels
            to one, or a dict of these by encoder name; the task's, or else the method's, which is conv4 for most.
        init: the folder of a run, or a trained Learner: what has the same names there begins with its weights.
        device, precision, threads, processes: where it computes; see `Hardware`.
        preset: "best", our recipe, or "paper", the settings of the paper; a task's own settings replace theirs.
        settings: any field of `Settings`, in place of the task's and the preset's; `targets` may also be a class.
    """

    def __init__(
        self,
        task: Task,
        *,
        method: str | type[Method] = "softpnet",
        preset: Preset = "best",
        seed: int = 0,
        encoder: Encoder | None = None,
        init: str | Path | Learner | None = None,
        **settings: Any,
    ) -> None:
        self.hardware = with_launcher(with_precision(Hardware.out_of(settings)))
        self.task = checked_task(task, "Learner")
        self.seed, self._encoder = checked_seed(seed), encoder
        self._start = None if init is None else start_from(init)
        self.init = None if self._start is None else self._start.record
        self.method_class, self.method = methods.find(method), name_of(method)
        fixed, self.preset = self.method_class.fixed, preset
        self.settings, self.given_by = resolve(preset, task.settings_in(preset), fixed, settings, self.method)
        self._share = self.settings.validation, self.given_by["validation"]
        self.anchors: list[AnchorSet] = []
        self.history: list[dict[str, float]] = []
        self.interrupted, self.is_main_process = False, True
        self.notes: list[str] = []
        self.columns = (*self.method_class.columns, *METRICS)

    def fit(
        self,
        inputs: Any,
        labels: Tensor,
        anchors: Anchors | Mapping[str, Anchors],
        *,
        concepts: Tensor | None = None,
        run: str | Path | None = None,
        resume: bool = False,
        checkpoint_steps: int | None = None,
        checkpoint_seconds: float | None = 60.0,
        progress: Callable[[Progress], None] | None = None,
        watch: Watch | None = None,
        validation: float | Examples | None = None,
        verbose: bool = False,
    ) -> Learner:
        """Train on inputs `[N, n, *shape]`, labels `[N]` or `[N, m]` and anchors.

        Args:
            inputs: a tensor; or a source that is read when a batch asks for it, and has len(): a Dataset, a memory map.
            concepts: the true concepts `[N, k]`, for methods that train on them; no other method gets to see them.
            run: a folder that gets the configuration, metrics per epoch, checkpoints and the model.
            resume: resume the run in that folder, if there is one, bit-exactly from its last checkpoint. A finished one
                is read, or goes on where it is to have more epochs.
            checkpoint_steps, checkpoint_seconds: how often a checkpoint is made, by steps, by time, or by both.
            progress: called after every step.
            watch: called after every epoch with the model as it would be if training ended there, and the method's
                state, to be looked at only: `lambda model, state: model.score(*test)`. Numbers that it returns join
                the epoch's record in `history`. It does not change training by a bit.
                It may raise `StopTraining`, and so may `progress`: then training is at its end.
            validation: judges every epoch by labels alone, for `history` and the settings `patience` and `keep`:
                examples, or the share of the given ones that is held out, as the setting of that name.
            verbose: show progress, as the command line does: on a terminal a line that moves, elsewhere one per epoch.

        A process trains in one thread at a time, since torch has one random generator for all of them.
        Ctrl-C stops after the current step, and `interrupted` is true; so do SIGTERM and SIGHUP where there is a run
        folder, and then the process exits with code 143 or 129.
        """
        kept = Run(run, resume, checkpoint_steps, checkpoint_seconds)
        check_callbacks(progress=progress, watch=watch)
        data = inputs, labels, anchors, concepts, validation
        if not verbose:
            return self._fit(kept, data, progress, watch)
        from softpnet.training.display import Display

        with Display(self, progress) as display:
            return self._fit(kept, data, display.update, watch)

    def _fit(
        self, kept: Run, data: tuple[Any, ...], progress: Callable[[Progress], None] | None, watch: Watch | None
    ) -> Learner:
        *parts, validation = data
        self.notes = []
        share, giver = self._share  # an earlier fit's is no matter of this one
        if isinstance(validation, (int, float)):
            share, giver, validation = validation, "user", None
        self.settings, self.given_by["validation"] = self.settings.override(validation=share), giver
        given = self._accepted(*parts, validation)
        config = functools.partial(self.config, given)
        if kept.is_finished(self.settings.epochs):  # answered before anything is built
            self.is_main_process = is_first()
            with kept.opened_finished(config) as folder:
                return self._read_weights(folder)
        training = self._built(given)
        watched = None if watch is None else functools.partial(self._watched, training, given, watch)
        after_epoch = AfterEpoch(self.task, training, given.validation, watched)
        with (
            limited_threads(self.hardware.threads),
            # A user's encoder may draw from the global generator while training, as dropout does.
            borrowed_global_generator(training.streams(own_stream("encoder", training.fabric)), training=True),
            kept.opened(config, training.fabric),
        ):
            finished = kept.follow(training, progress, after_epoch)
            training.take_best()
            module = training.method.ready(training.module)
            training.check_finite(read(module, first_readable(given.inputs)).amax(-1))
            self.module, self.history, self.interrupted = module, training.records, not finished
            self.calibration = self._calibrated(module, given)
            if kept.folder is not None and self.is_main_process:
                self._write_weights(kept.folder)
        kept.leave(finished)
        return self

    def prepared(
        self, inputs: Any, labels: Tensor, anchors: Anchors | Mapping[str, Anchors], concepts: Tensor | None = None
    ) -> Training:
        """All that `fit` does before the first step. It raises where training is refused; `check_task` asks it too."""
        return self._built(self._accepted(inputs, labels, anchors, concepts))

    def _accepted(self, *given: Any) -> Given:
        accepted = accept(self.task, self.method_class, self.method, self.settings, self.seed, *given)
        check_kinds(self.task.space, accepted.inputs, accepted.anchors)
        if accepted.validation is not None:
            held = accepted.validation.inputs.dtype
            check_kind("inputs of the validation set", held, "the training inputs", accepted.inputs.dtype)
        warn_of_images(self.task, accepted.inputs, accepted.anchors[0].inputs)
        self.anchors, self.input_shape = accepted.anchors, accepted.inputs.shape[2:]
        return accepted

    def _built(self, given: Given) -> Training:
        streams = Streams(self.seed)
        encoders = self.encoders(given.anchors, streams)
        training = build(
            self.task, self.method_class, self.method, self.settings, self.hardware, encoders, given, streams
        )
        if isinstance(given.inputs, Tensor) and not is_real(given.inputs.dtype):
            check_ids(tensor_as_array(given.inputs), training.module.table_rows(given.inputs.shape[2:]))
        self.module, self.calibration, self.is_main_process = None, None, training.fabric.is_global_zero
        started = [] if self._start is None else warm_start(training.module, self._start)
        self.notes = [*given.notes, *training.notes(), *started]
        return training

    def encoders(self, anchors: Sequence[AnchorSet], streams: Streams) -> dict[str, nn.Module]:
        """New encoders by name, checked: the user's, or else the task's, or else one that fits the inputs."""
        given = self._encoder if self._encoder is not None else self.task.encoder
        given = fitting(self.method_class.encoder, anchors[0].inputs[0]) if given is None else given
        with borrowed_global_generator(streams("init")):
            return make_encoders(self.task.space, given, [own.inputs for own in anchors])

    def save(self, folder: str | Path) -> None:
        """Write the configuration and the model, prototypes included."""
        self._fitted()
        with RunFolder.to_write(Path(folder)) as written:
            if CONFIG in written and read_config(written).data is not None:
                raise InputError(f"{folder} already holds a run; name another folder")
            written.write(CONFIG, self.config().to_bytes())
            self._write_weights(written)

    def export(
        self, path: str | Path, *, tolerance: float = TOLERANCE, metrics: Mapping[str, float] | None = None
    ) -> Exported:
        """Write one file that runs without this library's training: .onnx, or .pt2 for torch.export.

        It holds network, prototypes, calibration, names and the rule's diagram, for `softpnet.runtime`. A model card
        with the metrics is beside it. Raises where a probability differs by more than the tolerance.
        """
        told = {name: str(getattr(self, name)) for name in ("method", "preset", "seed")}
        told |= {name: f"{value:.4f}" for name, value in (metrics or {}).items()}
        told |= {f"version of {name}": version_of(name) for name in ("softpnet", "torch")}
        return export(self, Path(path), tolerance, told)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        task: Task | None = None,
        encoder: Encoder | None = None,
        method: str | type[Method] | None = None,
        origin: str | None = None,
    ) -> Learner:
        """Read what `save` or a run wrote. A task or method that is not built in, or an encoder, must be handed in
        again: `origin` is the task's file. Nothing that the folder names is ever run."""
        refuse_code(Path(folder))
        stored = RunFolder(Path(folder))
        config = read_config(stored)
        if task is None:
            task = tasks.of_run(config.task, msgspec.to_builtins(config.origin), stored.path, origin)
        task = checked_task(task, "load")
        check_rule(task)
        method = methods.of_run(config.method, stored.path, method)
        check_same_rule(config, task, stored.path)
        model = cls(task, method=method, **config.choices() | ({} if encoder is None else {"encoder": encoder}))
        model.input_shape, model.given_by = torch.Size(config.input_shape), dict(config.given_by)
        model.init = config.init
        return model._read_weights(stored)

    def _watched(self, training: Training, given: Given, watch: Watch, module: Reader) -> Mapping[str, float] | None:
        now = copy.copy(self)
        now.module, now.history, now.calibration = module, [*training.records], self._calibrated(module, given)
        return watch(now, training.state)

    def _calibrated(self, module: Reader, given: Given) -> Calibration:
        return calibrated(self.task, module, given, self.seed, self.settings.label_noise)

    def _write_weights(self, folder: RunFolder) -> None:
        stored = StoredModel(self._fitted().state_dict(), self.anchors, not self.interrupted, self.calibration)
        write_model(folder, self.task.space, stored)

    def _read_weights(self, folder: RunFolder) -> Learner:
        """Take the trained module and its anchors from the folder; itself."""
        assert self.input_shape is not None
        stored = read_model(folder, self.task.space, self.input_shape)
        self.anchors, self.interrupted, self.calibration = stored.anchors, not stored.finished, stored.calibration
        encoders = self.encoders(self.anchors, streams := Streams(0))
        self.module = blank(self.method_class, self.task, self.settings, self.anchors, encoders, streams)
        put_weights(self.module, stored, folder)
        self.history = read_epochs(folder)
        return self

    def config(self, given: Given | None = None) -> Config:
        """The resolved configuration, as stored with a run, which names what it trains on too."""
        chosen = {name: getattr(self, name) for name in ("method", "preset", "seed", "init", "given_by", "hardware")}
        chosen |= {"encoder": names_of(self._encoder), "data": None if given is None else given.fingerprint()}
        return described(self.task, self.settings, input_shape=tuple(self.input_shape or ()), **chosen)
