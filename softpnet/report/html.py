"""The report as one HTML file that opens from a disk: data, style and scripts are in it, and it loads nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("sweep.js", "elements.js", "charts.js", "sections.js", "explorer.js", "start.js")
"""In the order in which they run."""


def render(title: str, data: Mapping[str, Any]) -> str:
    """The page of these data. Nothing in them is taken for HTML or for code: scripts write it as text only, and the
    page's own policy lets no other script run and nothing be loaded."""
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    script = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    written = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page = (PAGE / "report.html").read_text(encoding="utf-8")
    parts = {"title": html.escape(title), "policy": policy, "style": style, "data": written, "script": script}
    # One after the other from the left, so that no part is searched for the marks of others.
    found, rest = "", page
    for name, part in parts.items():
        before, mark, rest = rest.partition(f"@{name}@")
        assert mark, f"report.html has no place for {name}, or in another order"
        found += before + part
    return found + rest


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
