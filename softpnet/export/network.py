"""The network that is shipped: from inputs to concepts and calibrated log-probabilities, traced by torch."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import re
import textwrap
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from softpnet.errors import InputError
from softpnet.networks.calibration import Calibration
from softpnet.networks.reader import Reader, module_key
from softpnet.rules.function import some_rows
from softpnet.task.concepts import ConceptSpace
from softpnet.task.task import Rule, Task

TRIED = 10_000
"""Random assignments on which a traced rule is compared with the task's."""


class Shipped(nn.Module):
    """A reader with its calibration folded in and, where it is to give labels itself, the rule."""

    temperatures: Tensor

    def __init__(self, reader: Reader, calibration: Calibration | None, rule: Rule | None) -> None:
        super().__init__()
        self.reader, self.rule = _plainly_named(copy.deepcopy(reader).cpu().eval().requires_grad_(False)), rule
        groups = reader.space.groups
        temperatures = torch.ones(len(groups)) if calibration is None else calibration.temperatures
        each = temperatures.repeat_interleave(torch.tensor([group.size for group in groups]))
        self.register_buffer("temperatures", each[:, None])  # [k, 1]

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Inputs `[B, n, *shape]` -> concepts `[B, k]`, log-probabilities `[B, k, h]` and, with a rule, labels."""
        log_p = self.reader.log_p(inputs)
        concepts = log_p.argmax(-1)
        made = concepts, torch.log_softmax(log_p / self.temperatures, dim=-1)
        return made if self.rule is None else (*made, self.rule(concepts))


def _plainly_named(reader: Reader) -> Reader:
    """It without quotes, brackets and commas in names of groups and encoders, at which torch's formats fail."""
    keys = {}
    for group in reader.space.groups:
        for kind in ("name", "encoder"):
            name = getattr(group, kind)
            plain = re.sub(r'["\\(),;\[\]]', lambda match: f"%{ord(match[0]):02x}", name)
            setattr(group, kind, plain)
            keys[module_key(name)] = module_key(plain)
    for part in reader.children():
        if isinstance(part, (nn.ModuleDict, nn.ParameterDict)):
            renamed = {keys.get(key, key): value for key, value in part.items()}
            part.clear()
            part.update(renamed)
    return reader


class _Ruled(nn.Module):
    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule

    def forward(self, rows: Tensor) -> Tensor:
        return self.rule(rows)


def traced(task: Task, shipped: Shipped, example: Tensor) -> Any:
    """The network as a program of torch.export for any number of inputs like `[B, n, *shape]`."""
    try:
        return _program(shipped, example)
    except Exception as error:  # whatever torch or a user's encoder raises
        raise InputError(
            f"the encoder of task {task.name!r} cannot be traced: {_why(error)}; write its forward with operations on "
            "whole tensors"
        ) from error


def _why(error: BaseException) -> str:
    """What of the encoder torch cannot trace, in one clause, with the user's line where one is known."""
    said = str(error)
    if "Constraints violated" in said:  # torch finds out when it is through, so there is no line
        return "it works for one number of inputs alone, as a loop over them does"
    line = _own_line(error)
    if "data-dependent" in said:
        return f"{line[0]} looks at a value (`{line[1]}`)" if line else "it looks at a value"
    first = said.strip().partition("\n")[0] or type(error).__name__
    return f"{line[0]} (`{line[1]}`) fails with {first!r}" if line else first


def _own_line(error: BaseException) -> tuple[str, str] | None:
    """Where the call left the encoder's own code, as "my.py:5", and that line."""
    libraries = Path(torch.__file__).parent, Path(__file__).parents[1], Path(contextlib.__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if frame.line and not any(path.is_relative_to(library) for library in libraries):
            code = textwrap.shorten(frame.line.removesuffix(":"), 100, placeholder=" ...")
            return f"{path.name}:{frame.lineno}", code
    return None


def traceable(rule: Rule, space: ConceptSpace) -> bool:
    """Whether torch can trace a rule, and the traced one gives the same labels."""
    rows = some_rows(space, TRIED)
    try:
        program = _program(_Ruled(rule), rows[:3])
        return torch.equal(program.module()(rows), rule(rows))
    except Exception:  # a rule that branches on values, or asks a solver
        return False


def _program(module: nn.Module, example: Tensor) -> Any:
    with torch.no_grad(), quiet():
        return torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What tracing warns of, logs and prints is torch's own; whether the result is right is measured afterwards."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.ERROR))
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
