"""What was measured is kept part by part, and the pages show it."""

import json
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench import tables
from softpnet.report.pages import marks

ROOT = Path(__file__).parents[2]
ROW = {"name": "one / other", "threads": 1, "target": 0.9, "better": "higher"}


def test_a_part_is_measured_by_itself_and_the_others_keep_their_outcome(tmp_path, monkeypatch):
    page, record = tmp_path / "page.md", tmp_path / "bench.json"
    page.write_text("\n".join(marks()))
    found = {"step": 0.8, "plain": 0.95}
    monkeypatch.setattr(bench.step, "measure", lambda: [ROW | {"ratio": found["step"]}])
    monkeypatch.setattr(bench.versus_plain, "measure", lambda: [ROW | {"ratio": found["plain"]}])
    bench.Bench(("step", "plain"), record).run()
    found["step"] = 0.99
    bench.Bench(("step",), record).run()
    bench.Bench((), record, measure=False, into=page).run()
    shown = page.read_text()
    assert "| one / other | 1 | 0.99 | at least 0.9 | yes |  |" in shown
    assert "| 0.95 |" in shown and "0.8 |" not in shown
    assert shown.count(json.loads(record.read_text())["step"]["commit"][:10]) == 2


@pytest.mark.parametrize("page, parts", [("performance", ()), ("rules", ("rules", "growth"))])
def test_the_page_has_the_tables_of_the_record(page, parts):
    kept = bench.read(ROOT / "results/bench.json")
    chosen = [part for part in parts or bench.get_args(bench.Part) if part in kept]
    assert tables.markdown({part: kept[part] for part in chosen}).strip() in (ROOT / f"docs/{page}.md").read_text()
