"""`python docs/names.py` writes the tables of docs/api.md: each name with the first sentence of its docstring."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import softpnet
from softpnet.report.pages import write_into
from softpnet.task.settings import PRESETS, Settings

PAGE = Path(__file__).parent / "api.md"
ENTRY = re.compile(r"^::: (\S+)\n(?:    options:\n      members: (.*)\n)?", re.MULTILINE)


def tables(page: str) -> str:
    """A section per heading of the page's comment, and before them the letters of shapes."""
    _, legend = inspect.cleandoc(softpnet.__doc__ or "").split("\n\n", maxsplit=1)
    parts = [f"## Letters of shapes\n\n{legend}\n"]
    for section in page.rpartition("<!-- ")[2].split("\n## ")[1:]:
        heading, _, entries = section.partition("\n")
        names = [row for name, members in ENTRY.findall(entries) for row in name_rows(name, members)]
        table = [("name", "what it is"), ("---", "---"), *names] if names else settings_rows()
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in table]
        parts.append("\n".join([f"## {heading}", "", *lines, ""]))
    return "\n".join(parts)


def name_rows(name: str, members: str) -> list[tuple[str, str]]:
    """The name, then its members: those listed, or every field if that is "true"."""
    home, _, last = name.rpartition(".")
    value = pkgutil.resolve_name(name)
    if value is Settings:
        return []
    documented = isinstance(value, type | ModuleType) or inspect.isroutine(value)
    docs = {name: (inspect.getdoc(value) or "") if documented else variable_docs(pkgutil.resolve_name(home))[last]}
    if members == "true":
        docs |= {f"{last}.{field}": doc for field, doc in variable_docs(value).items()}
        public = [each for each, member in vars(value).items() if each[0] != "_" and inspect.isroutine(member)]
        docs |= {f"{last}.{each}": inspect.getdoc(getattr(value, each)) or "" for each in public}
    else:
        docs |= {f"{last}.{each}": inspect.getdoc(getattr(value, each)) or "" for each in re.findall(r"\w+", members)}
    return [(f"`{each}`", first_sentence(doc)) for each, doc in docs.items()]


def settings_rows() -> list[tuple[str, ...]]:
    """A setting, its value in each preset, and what it is."""
    docs = variable_docs(Settings)
    presets = [dataclasses.asdict(Settings().override(**changes)) for changes in PRESETS.values()]
    rows = [
        (f"`{name}`", *(f"`{values[name]}`" for values in presets), first_sentence(doc)) for name, doc in docs.items()
    ]
    return [("setting", *(f"`{preset}`" for preset in PRESETS), "what it is"), ("---",) * (2 + len(PRESETS)), *rows]


def variable_docs(owner: type | ModuleType) -> dict[str, str]:
    """The string below each variable of a module or field of a class."""
    tree: ast.AST = ast.parse(inspect.getsource(owner))
    body = tree.body[0].body if isinstance(owner, type) else tree.body  # type: ignore[attr-defined]
    docs = {}
    for variable, below in itertools.pairwise(body):
        if isinstance(below, ast.Expr) and isinstance(variable, ast.Assign | ast.AnnAssign):
            target = variable.target if isinstance(variable, ast.AnnAssign) else variable.targets[0]
            docs[ast.unparse(target)] = ast.literal_eval(below.value)
    return docs


def first_sentence(doc: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z`])", " ".join(doc.partition("\n\n")[0].split()))[0]


if __name__ == "__main__":
    write_into(PAGE, tables(PAGE.read_text()))
