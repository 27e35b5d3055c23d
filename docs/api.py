"""Writes docs/api.md from the docstrings of the public names: `python docs/api.py`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import softpnet

PAGE = Path(__file__).with_name("api.md")
WIDTH = 100

PARTS: dict[str, dict[str, list[str]]] = {
    "Describing a task": {"Task": [], "ConceptSpace": ["contains", "all"], "Group": [], "Corruption": []},
    "Rules": {
        "Machine": [],
        "Rows": [],
        "read_rows": [],
        "ConstraintModel": [],
        "Dimacs": [],
        "AnswerSets": [],
        "rules.compile.compilation": [],
        "rules.diagram.CompiledRule": ["log_prob", "marginals", "best", "sample", "count", "knows"],
        "rules.diagram.Diagram": ["contains", "leaf", "same"],
    },
    "Functions that you may bring": {
        "task.task.Rule": [],
        "task.task.Move": [],
        "task.task.Augment": [],
        "augment": ["affine", "photometric", "compose"],
        "networks.make_encoders.Encoder": [],
        "learner.Watch": [],
    },
    "Checking it": {"check_task": [], "checks.report.Report": ["failures", "raise_if_failed"]},
    "Data": {
        "Examples": [],
        "Anchors": ["at", "joined"],
        "Data": [],
        "data.tables.Table": ["images", "crops", "integers", "concepts"],
        "data.folders.read_anchors": [],
        "data.mnist.load": [],
        "data.gtsrb.load": [],
        "data.gtsrb.pools": [],
        "training.streams.Streams": [],
    },
    "Training and reading": {
        "Learner": [
            *("fit", "predict", "stream", "score", "embed", "prototypes", "suggest_anchors", "encoder", "reanchor"),
            *("to", "save", "load", "export", "config"),
        ],
        "Prediction": [],
    },
    "Shipping": {
        "runtime.load": [],
        "runtime.Model": ["predict", "feasible", "names"],
        "runtime.Prediction": [],
        "runtime.Feasible": [],
    },
    "Settings": {"Settings": ["override"], "task.settings.Hardware": []},
    "Keeping a cache": {"rules.make_cache.make_cache": [], "rules.rows.Cache": ["save"]},
    "Errors": {"SoftPNetError": [], "InputError": [], "TaskError": [], "TrainingError": [], "StopTraining": []},
}
"""What the page shows, by the name that it is imported by, after `softpnet.`; and the methods of it."""


def page() -> str:
    legend = (inspect.getdoc(softpnet) or "").partition("letters:")[2].strip("\n")
    lines = [
        "# The public names",
        "",
        "Made from the docstrings by `python docs/api.py`. A name without a dot is in `softpnet` itself.",
        "Letters of shapes:",
        "",
        *legend.splitlines(),
    ]
    for title, names in PARTS.items():
        lines += ["", f"## {title}"]
        for name, methods in names.items():
            lines += ["", f"### `{name}`", "", *_entry(name)]
            for method in methods:
                function = pkgutil.resolve_name(f"softpnet.{name}.{method}")
                lines += ["", f"#### `{method}`", "", *_function(method, function)]
    return "\n".join(lines) + "\n"


def _entry(name: str) -> Iterator[str]:
    place, _, own = name.rpartition(".")
    thing = pkgutil.resolve_name(f"softpnet.{name}")
    if dataclasses.is_dataclass(thing) and (fields := _said_after(thing)):
        yield from _words(thing)
        yield from ["", "| name | default | meaning |", "|---|---|---|"]
        for field in dataclasses.fields(thing):
            yield f"| `{field.name}` | `{field.default!r}` | {fields[field.name]} |"
    elif hasattr(thing, "_fields"):  # a NamedTuple: its fields carry their shapes as comments
        yield from _words(thing)
        source = inspect.getsource(thing)
        yield from ["", "```python", *re.findall(r"^    (\w+: .*)$", source, flags=re.M), "```"]
    elif inspect.ismodule(thing) or (isinstance(thing, type) and issubclass(thing, Exception)):
        yield from _words(thing)
    elif isinstance(thing, type) or inspect.isfunction(thing):
        yield from _function(own, thing)
    else:  # the name of a type
        module = pkgutil.resolve_name(f"softpnet.{place}")
        (defined,) = re.findall(rf"^{own} = .*", inspect.getsource(module), flags=re.M)
        yield from ["```python", defined, "```", "", _said_after(module)[own]]


def _function(name: str, thing: Any) -> Iterator[str]:
    """How it is called, and its docstring."""
    signature = inspect.signature(thing)
    given = [_plain(each) for each in signature.parameters.values() if each.name not in ("self", "cls")]
    kinds = [each.kind for each in given]
    words = [str(each) for each in given]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        words.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = "" if isinstance(thing, type) else f" -> {signature.return_annotation}"
    call = f"{name}({', '.join(words)}){returns}"
    if len(call) > WIDTH:
        call = "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){returns}"])
    yield from ["```python", call, "```", "", *_words(thing)]


class _Unquoted(str):
    """A type or default as it stands in the source."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    if repr(parameter.default) == "<factory>":  # a dataclass's default_factory, which is the type itself
        parameter = parameter.replace(default=_Unquoted(f"{parameter.annotation}()"))
    return parameter.replace(annotation=_Unquoted(parameter.annotation))


def _words(thing: Any) -> Iterator[str]:
    """The docstring; arguments as a list."""
    for line in (inspect.getdoc(thing) or "").splitlines():
        argument = re.fullmatch(r"    (\w+(?:, \w+)*): (.*)", line)
        if argument:
            yield f"- `{argument[1]}`: {argument[2]}"
        elif line != "Args:":
            yield f"  {line.strip()}" if line.startswith("    ") else line


def _said_after(thing: Any) -> dict[str, str]:
    """The strings that follow the fields of a class, or the names of a module, in its source."""
    parsed = ast.parse(inspect.getsource(thing))
    body = parsed.body[0].body if isinstance(parsed.body[0], ast.ClassDef) else parsed.body
    found = {}
    for defined, after in itertools.pairwise(body):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            if isinstance(defined, (ast.AnnAssign, ast.Assign)):
                target = defined.target if isinstance(defined, ast.AnnAssign) else defined.targets[0]
                found[ast.unparse(target)] = " ".join(str(after.value.value).split())
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"written: {PAGE}")
