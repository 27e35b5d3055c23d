"""What is handed to a training, checked; and the training, built of it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softpnet.errors import InputError
from softpnet.methods.base import Method
from softpnet.networks.classifier import ClassifierNetwork
from softpnet.networks.make_encoders import check_trainable
from softpnet.networks.prototypes import LearnedPrototypeNetwork, PrototypeNetwork
from softpnet.networks.reader import Reader
from softpnet.networks.views import check_augment
from softpnet.rules.compile import compilation, known_labels
from softpnet.rules.exchange import alike
from softpnet.rules.function import check_rule
from softpnet.rules.misreadings import all_values_shown, misreadings, mixed_up
from softpnet.targets.source import KeptRows
from softpnet.task.anchors import AnchorSet, arrange_anchors
from softpnet.task.data import Anchors, Examples, Inputs
from softpnet.task.hardware import Hardware
from softpnet.task.inputs import check_inputs, check_labels, needed_concepts
from softpnet.task.lazy import first_readable, numbers
from softpnet.task.settings import Settings
from softpnet.task.task import Task
from softpnet.together import Together
from softpnet.training.identity import fingerprint
from softpnet.training.launcher import launcher
from softpnet.training.loop import Training
from softpnet.training.memory import check_memory, step_memory_errors_named
from softpnet.training.processes import agreed, launched, lost_processes_named, to_run, unequal_shares
from softpnet.training.split import checked_validation, held_out, without_infeasible
from softpnet.training.streams import Streams, borrowed_global_generator


class Given(NamedTuple):
    """Examples and anchors that training may start with."""

    inputs: Inputs  # [N, n, *shape]
    labels: Tensor  # [N] or [N, m], int64
    anchors: list[AnchorSet]  # per group
    concepts: Tensor | None  # [N, k], for a method that needs them
    validation: Examples | None = None  # to judge epochs by, by their labels alone
    notes: tuple[str, ...] = ()  # what a person should know of them
    handed_in: tuple[Inputs, ...] | None = None  # before some were dropped or held out, which the settings tell

    def fingerprint(self) -> str:
        """One sha256 for all of it, as it was handed in; of lazy inputs, for some of them."""
        truth = [] if self.concepts is None else [self.concepts]
        shown = [tensor for anchors in self.anchors for tensor in anchors.tensors()]
        return fingerprint([*(self.handed_in or (self.inputs, self.labels, *truth)), *shown])


def accept(
    task: Task,
    method: type[Method],
    name: str,
    settings: Settings,
    seed: int,
    given: Any,
    labels: Tensor,
    anchors: Anchors | Mapping[str, Anchors],
    concepts: Tensor | None = None,
    validation: Examples | None = None,
) -> Given:
    """Raise where the rule or what is given cannot be trained on; nothing is built yet."""
    check_rule(task)
    inputs = check_inputs(given, task.space)
    whole = check_labels(labels, len(inputs), task)
    truth = needed_concepts(concepts, len(inputs), task.space, name) if method.needs_concepts else None
    arranged = arrange_anchors(task.space, anchors, inputs.shape[2:])
    judges = apart = checked_validation(validation, settings, task, inputs.shape[2:])
    examples, notes = Examples(inputs, whole, truth), []
    if settings.infeasible == "drop":
        examples = without_infeasible(task, examples)
        if len(examples.labels) < len(whole):
            gone = len(whole) - len(examples.labels)
            notes.append(f"{gone:,} of {len(whole):,} examples are dropped: no assignment has their label")
    if settings.validation:
        examples, judges = held_out(examples, settings.validation, seed)
        notes.append(f"{len(judges.labels):,} examples are held out for validation, {len(examples.labels):,} train")
    handed_in = (inputs, whole, *([] if truth is None else [truth]), *([] if apart is None else apart[:2]))
    return Given(examples.inputs, examples.labels, arranged, examples.concepts, judges, tuple(notes), handed_in)


def build(
    task: Task,
    kind: type[Method],
    name: str,
    settings: Settings,
    hardware: Hardware,
    encoders: Mapping[str, nn.Module],
    given: Given,
    streams: Streams,
) -> Training:
    """A training before its first step; raises where it could not make one."""
    check_memory(settings, task.space, given.inputs, given.anchors)
    unequal = unequal_shares(len(given.labels), settings.batch_size, hardware.processes)
    if unequal is not None and launcher() is None:
        raise unequal
    fabric = launched(hardware, kind.idle_parts)
    with lost_processes_named(fabric):
        agreed(fabric, unequal if fabric.is_global_zero else None)  # or all that were started would say the same
        anchors = [own._replace(inputs=to_run(fabric, own.inputs)) for own in given.anchors]
        method = kind(task, settings, anchors)
        check_augment(task, [own.inputs for own in anchors])
        with borrowed_global_generator(streams("init")):
            module = method.module(encoders)
        check_trainable(module, name)
        alone = hardware.processes == 1 or hardware.batch_norm == "local"
        if alone:
            check_last_batch(module, settings.batch_size // hardware.processes, given.inputs, hardware.processes)
        with step_memory_errors_named():
            training = Training(
                method, module, given.inputs, given.labels, settings, streams, fabric, given.concepts, hardware.workers
            )
        if fabric.world_size > 1:
            together = Together(fabric.global_rank, fabric.world_size)
            module.share(together, hardware.batch_norm == "synchronised")
            method.share(together)
        check_started(training, name)
        check_blanks(task, method, module, given.anchors)  # by now the rule is compiled, if the method asks for it
        check_groups_apart(task, method, given.anchors)
        return training


def check_started(training: Training, name: str) -> None:
    """Raise for settings that what the method has started with cannot follow."""
    settings, task, method = training.settings, training.method.task, training.method
    source, fixed = getattr(method, "source", None), "targets" in method.fixed
    if settings.label_noise and (source is None or not source.doubts_labels):
        said = f"label_noise is {settings.label_noise:g}, but only exact targets take wrong labels into account,"
        if source is None or fixed:
            raise InputError(
                f"{said} which method {name!r} never has; choose a method that does, such as 'softpnet', or set "
                "label_noise to 0"
            )
        if not known_labels(task, training.labels).all():
            raise InputError(
                f"{said} and these need a compiled rule that knows every label, but that of task {task.name!r} is "
                f"{compilation(task)}; write it as a Machine with label=..., or set label_noise to 0"
            )
        raise InputError(
            f"{said} which method {name!r} does not have here; use targets='exact', or set label_noise to 0"
        )
    if settings.balanced_labels and isinstance(training.state, KeptRows):
        remedy = "choose another method" if fixed else "use targets='exact' or 'kbest'"
        raise InputError(
            "balanced_labels repeats examples inside a batch, but these targets keep candidates of every example; "
            f"{remedy}, or set balanced_labels to False"
        )


def check_blanks(task: Task, method: Method, module: Reader, anchors: Sequence[AnchorSet]) -> None:
    """Raise for a value without an anchor that this network cannot learn without one; warn of a mere combination."""
    groups = task.space.groups
    for at, (group, own) in enumerate(zip(groups, anchors, strict=True)):
        anchored = own.anchored()[0]
        missing = sorted(set(range(len(group.primitives))) - set(anchored.tolist()))
        if not missing:
            continue
        lacks = f"group {group.name!r} has no anchor for"
        if isinstance(module, PrototypeNetwork) and not isinstance(module, LearnedPrototypeNetwork):
            raise InputError(
                f"{lacks} {group.primitive_names[missing[0]]!r}, but prototypes that are means of anchors need one of "
                "each; add it, or choose prototypes='learned'"
            )
        shown = group.primitive_table()[anchored]  # [V, a]
        for exchange in alike(task, at):
            names, values = group.value_names[exchange.attribute], shown[:, exchange.attribute].tolist()
            blank = [value for value in (exchange.one, exchange.other) if value not in values]
            if blank:
                raise InputError(
                    f"{lacks} {names[blank[0]]!r}, and the rule cannot tell {names[exchange.one]!r} from "
                    f"{names[exchange.other]!r}: exchanging them changes no label; label an input of "
                    f"{' and one of '.join(repr(names[value]) for value in blank)}"
                )
    lacking = any(len(own.anchored()[0]) < len(g.primitives) for g, own in zip(groups, anchors, strict=True))
    taught = method.needs_concepts  # by true concepts: no rule has to tell them apart
    found = misreadings(task, [own.anchored()[0] for own in anchors]) if lacking and not taught else None
    if found is not None and found.taken:
        doubt = f"the rule cannot tell apart all that has no anchor: {found}; label an input of {found.remedy}"
        if not all_values_shown(task.space, [own.anchored()[0] for own in anchors]):
            raise InputError(doubt)
        warnings.warn(doubt, stacklevel=2)


def check_groups_apart(task: Task, method: Method, anchors: Sequence[AnchorSet]) -> None:
    """Warn of two groups that neither rule nor anchors tell apart."""
    doubt = None if method.needs_concepts else mixed_up(task, anchors)  # true concepts tell them apart
    if doubt is not None:
        warnings.warn(doubt, stacklevel=2)


def blank(
    kind: type[Method],
    task: Task,
    settings: Settings,
    anchors: list[AnchorSet],
    encoders: Mapping[str, nn.Module],
    streams: Streams,
) -> Reader:
    """A module, ready for inference, that stored weights are put into."""
    # Prototypes are stored, so that what is made here need not be of many copies of the anchors.
    method = kind(task, settings.override(copies=1), anchors)
    with borrowed_global_generator(streams("init")):
        module = method.module(encoders).eval()
    method.finish(module)  # makes the places that the stored prototypes go to
    return module


def check_last_batch(module: Reader, batch_size: int, inputs: Inputs, processes: int = 1) -> None:
    """An encoder with batch norm over vectors cannot train on one input alone, which the last batch may be."""
    own = len(inputs) // processes
    last = own % batch_size or batch_size
    if not isinstance(module, ClassifierNetwork) or last > 1:
        return  # prototypes go through the encoder together with the anchors
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            copy.deepcopy(module).train()(numbers(first_readable(inputs)))
        except Exception as error:
            fitting = (size for size in range(max(2, batch_size), own + 1) if own % size != 1)
            raise InputError(
                f"the encoder cannot train on one input alone ({error}), but {own:,} examples in batches of "
                f"{batch_size:,} leave one for the last batch; choose batch_size = {next(fitting, 2):,}, or one "
                "example more or less"
            ) from error
