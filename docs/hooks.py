"""What the site has beside the pages of this folder: README and others of the root, the examples, commands' options."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

PLACES = {"README.md": "index.md"} | {name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
PYTHON = sorted(path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.py"))
PLACES |= {path.as_posix(): path.with_suffix(".md").as_posix() for path in PYTHON}
"""Files outside this folder, from the root on, and the pages that they become."""

SOURCES = {place: source for source, place in PLACES.items()}


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for source, place in PLACES.items():
        text = (ROOT / source).read_text()
        if source.endswith(".py"):
            text = f"# {source}\n\n```python\n{text}```\n"
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    place = page.file.src_uri
    if place == "commands.md":
        markdown += _options()
    if place == "api.md":
        markdown = in_full(markdown)
    return linked(markdown, SOURCES.get(place, f"docs/{place}"), place)


def linked(markdown: str, source: str, place: str) -> str:
    """Links that hold among the files of the repository, as they hold among the pages of the site."""

    def moved(found: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(source), found[1]))
        if not (ROOT / target).exists():  # not a link, but code that looks like one; or mkdocs is to complain of it
            return found[0]
        page = "examples.md" if target == "examples" else PLACES.get(target, target.removeprefix("docs/"))
        return f"]({os.path.relpath(page, os.path.dirname(place) or '.')}{found[2]})"

    return re.sub(r"\]\(([^)#:\s]+)(|#[^)\s]+)\)", moved, markdown)


def in_full(markdown: str) -> str:
    """Below each section's table, the entries that the page's last comment lists under the same heading."""
    shown, _, listed = markdown.rpartition("<!-- ")
    more = dict(section.split("\n", 1) for section in listed.rstrip().removesuffix("-->").split("\n## ")[1:])
    sections = [section.split("\n", 1) for section in shown.split("\n## ")]
    return "\n## ".join(f"{heading}\n{text}\n{more.get(heading, '')}" for heading, text in sections)


def _options() -> str:
    """What `softpnet COMMAND --help` prints."""
    import tyro

    from softpnet.cli.main import COMMANDS

    os.environ["COLUMNS"] = "100"
    parts = ["\n## Options\n"]
    for name, command in COMMANDS.items():
        with io.StringIO() as printed:
            with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
                tyro.cli(command, prog=f"softpnet {name}", args=["--help"])
            plain = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        parts.append(f"### `softpnet {name}`\n\n```text\n{plain.strip()}\n```\n")
    return "\n".join(parts)
