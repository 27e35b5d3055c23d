"""What README and docs show is run as it stands there."""

import ast
import inspect
import itertools
import json
import pkgutil
import re
import runpy
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import softpnet
from softpnet import Learner, methods, targets, tasks
from softpnet.cli.main import COMMANDS
from softpnet.cli.options import option_types
from softpnet.cli.table import chosen_rows, show
from softpnet.experiments.rows import SEEDS
from softpnet.methods.base import Batch, Clock
from softpnet.report.pages import marks
from softpnet.rules.compile import compilation
from softpnet.targets.cache import WorkingSets
from softpnet.targets.source import Query
from softpnet.task.lazy import as_inputs
from softpnet.task.settings import PRESETS, Settings, resolve
from softpnet.training.streams import Streams

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
OTHERS = {"--help", "--constraint", "--index-url", "--no-deps"}  # options of every command, and of pip
OTHERS |= {
    "--nnodes",
    "--node-rank",
    "--master-addr",
    "--nproc-per-node",
    "--max-restarts",
    "--rdzv-conf",
}  # of torchrun
OTHERS |= {"--nodes", "--ntasks-per-node"}  # of srun
OTHERS |= {"--no-measure"}  # of python -m bench
OTHERS |= {"--head", "--port", "--address", "--ray-client-server-port"}  # of `ray start`


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_readme_task_takes_at_most_20_lines_and_reads_digits(capsys):
    (block,) = python_blocks("README.md")
    assert len([line for line in block.splitlines() if line.strip()]) <= 20
    namespace = {}
    exec(block, namespace)
    printed = capsys.readouterr().out
    accuracy = float(re.search(r"'concept_accuracy': ([0-9.]+)", printed).group(1))
    assert accuracy > 0.95


def test_the_readme_task_with_a_dataset_takes_three_more_lines():
    (block,) = python_blocks("README.md")
    (shown,) = [each for each in python_blocks("docs/data.md") if "class Pairs" in each]
    added = [line for line in shown[shown.index("class Pairs") :].splitlines() if line.strip()]
    assert len(added) <= 3 and "fit(pairs, sums, anchors)" in block
    namespace: dict[str, Any] = {}
    exec(block[: block.index("model = ")] + "\n".join(added), namespace)
    inputs = as_inputs(namespace["Pairs"](), namespace["task"].space)
    assert inputs.shape == namespace["pairs"].shape
    assert torch.equal(inputs[[0, 7, 1999]], namespace["pairs"][[0, 7, 1999]])


def run(page):
    namespace: dict[str, Any] = {"__file__": page}
    for block in python_blocks(page):
        exec(block, namespace)
    return namespace


def test_the_page_of_your_own_task_ends_with_a_sound_task_and_a_model_that_reads():
    made = run("docs/your-own-task.md")
    assert made["model"].score(*made["made"].tests["test"])["concept_accuracy"] > 0.95
    assert {result.outcome for result in made["report"]} == {"passed", "not applicable"}
    assert made["task"](values=4).space.size == 16 and made["task"]().space.size == 9  # the last block's


def test_the_page_of_data_makes_the_groups_and_the_anchors_that_it_says():
    made = run("docs/data.md")
    assert made["space"].sizes == (3, 3, 2, 2)
    assert torch.equal(made["lazy"].predict(made["Drawn"]()).labels, made["lazy"].predict(made["features"]).labels)
    assert len(made["several"].joined(made["confirmed"]).inputs) == 14


def test_the_page_of_training_starts_from_an_encoder_and_abstains():
    made = run("docs/training.md")
    assert made["model"].score(made["inputs"], made["labels"], made["concepts"])["concept_accuracy"] > 0.95
    assert any("starts from a model" in note for note in made["kept"].notes)
    assert made["found"].concepts.min() >= -1


def test_ten_minutes_end_with_a_model_that_reads_and_is_kept():
    made = run("docs/start.md")
    assert made["scores"]["concept_accuracy"] > 0.95
    assert torch.equal(made["again"].predict(made["inputs"]).concepts, made["model"].predict(made["inputs"]).concepts)


def test_the_page_of_shortcuts_shows_one():
    made = run("docs/shortcuts.md")
    assert [made["harmless"](made[rule]) for rule in ("same", "total")] == [6, 1]
    assert min(made["true_names"]) > 0.95
    label, concept = made["wrong_names"]
    assert label > 0.95 and concept < 0.05
    assert made["noticed"][0] < 0.5


def test_the_page_on_wrong_concepts_names_what_the_rule_cannot_tell_apart():
    made = run("docs/when-concepts-stay-wrong.md")
    assert "2 of 6 exchanges of two values change no label" in made["report"]["shortcuts"].message
    assert made["scores"]["concept_accuracy"] > 0.9


def test_each_answer_to_the_three_questions_leads_to_code_that_runs():
    page = ROOT / "docs/your-own-task.md"
    asked = page.read_text().partition("## Three questions")[2].partition("\n## ")[0]
    links = re.findall(r"\]\(([^)#]*)#([^)]+)\)", asked)
    assert len(links) >= 15
    for name, heading in links:
        text = (page.parent / name if name else page).read_text()
        sections = {as_link(part.partition("\n")[0]): part for part in re.split(r"^#+ ", text, flags=re.M)}
        assert "```python" in sections[heading], f"{name}#{heading} has no code"


def test_the_page_of_rules_runs_and_counts_what_it_says():
    namespace = run("docs/rules.md")
    assert namespace["rule"].count(namespace["labels"]) == [4, 1]
    by_digits = compilation(namespace["by_digits"]).rule
    assert by_digits.count(torch.tensor([[0, 0, 3], [1, 9, 8]])) == [4, 1]


def test_images_from_files_are_those_of_the_page(tmp_path, monkeypatch):
    """The tables that the page describes, made of the page's own stand-in images, give that data."""
    namespace: dict[str, Any] = {"__file__": str(tmp_path / "my_rule.py")}
    for block in python_blocks("docs/your-own-task.md"):
        if any(word in block for word in ("def draw(", "Table(", "read_anchors(")):
            exec(block, namespace)
    made = namespace["task"].data(Streams(0))
    header = re.search(r"```\n(left,.*)\n", (ROOT / "docs/your-own-task.md").read_text()).group(1)
    monkeypatch.chdir(tmp_path)
    Path("bars/images").mkdir(parents=True)

    def written(image):
        name = f"images/{len(list(Path('bars/images').iterdir())):04}.png"
        Image.fromarray((image[0] * 255).round().byte().numpy()).save(f"bars/{name}")
        return name

    names = namespace["BARS"]
    for path, (images, labels, concepts) in {"train.csv": made.train, "test.csv": made.tests["test"]}.items():
        lines = [
            f"{written(left)},{written(right)},{label},{names[c]},{names[d]}"
            for (left, right), label, (c, d) in zip(images, labels.tolist(), concepts.tolist(), strict=True)
        ]
        Path("bars", path).write_text("\n".join([header, *lines]))
    lines = [f"{written(image)},{names[c]}" for image, c in zip(*made.anchors, strict=True)]
    Path("bars/anchors.csv").write_text("\n".join(["image,bar", *lines]))
    for line in lines:
        path, _, name = line.partition(",")
        for folder, shown in (("anchors", path), ("others", "images/0000.png")):  # only the first is to be read
            Path("bars/anchors", name).mkdir(parents=True, exist_ok=True)
            shutil.copy(f"bars/{shown}", f"bars/anchors/{name}/{folder}.png")
    monkeypatch.chdir("/")  # paths are the file's, not the shell's
    read = namespace["filed"].data(None)
    for ours, theirs in [
        (read.train, made.train),
        (read.tests["test"], made.tests["test"]),
        (read.anchors, made.anchors),
        (namespace["labelled_by_folder"](), made.anchors),
    ]:
        torch.testing.assert_close(ours[0], theirs[0].clamp(0, 1), atol=0.5 / 255 + 1e-6, rtol=0)
        assert all(torch.equal(a, b) for a, b in zip(ours[1:], theirs[1:], strict=True))


def test_the_first_block_is_a_file_that_the_command_line_trains(softpnet_here, tmp_path):
    path = tmp_path / "my_rule.py"
    path.write_text(python_blocks("docs/your-own-task.md")[0])
    code, out, error = softpnet_here("train", path, "--out", tmp_path / "run", "--no-pictures")
    assert code == 0, error
    assert "concept accuracy" in out


def test_the_page_lists_every_check_of_a_task_and_the_readme_their_number():
    from softpnet.checks.check_task import CHECKS

    page = (ROOT / "docs/your-own-task.md").read_text()
    table = page[page.index("| check |") :].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z ]+)` \|", table, flags=re.M) == list(CHECKS)
    assert f"{len(CHECKS)} checks" in (ROOT / "README.md").read_text()


TABLED = ("overview", "results", "paper", "primitives", "groups", "sets", "pairs", "commands")


@pytest.mark.parametrize(
    "page, rows, only, seeds",
    [
        ("docs/results.md", "all league noise precision examples suggest", ("claims",), SEEDS),
        ("docs/results-paper.md", "all", ("paper-claims",), SEEDS),
        ("docs/results-tables.md", "all league", TABLED, SEEDS),
        ("docs/results-seeds.md", "all league", ("seeds",), SEEDS),
        ("README.md", "short", ("overview",), SEEDS),
        ("docs/examples.md", "examples", ("overview", "groups", "commands", "left"), SEEDS[:3]),
        ("docs/when-concepts-stay-wrong.md", "anchors", ("overview",), SEEDS[:3]),
    ],
)
def test_a_page_s_tables_are_what_the_records_give(tmp_path, page, rows, only, seeds):
    made = tmp_path / "page.md"
    made.write_text((ROOT / page).read_text())
    show(chosen_rows(rows.split()), seeds, ROOT / "results", "markdown", made, only)
    assert made.read_text() == (ROOT / page).read_text()


def test_the_page_says_how_much_truth_the_cache_teaches_a_network_that_reads_well():
    """Weight of the true values in Kand-Logic's targets, valid and invalid scenes, where p is 0.99 for each of them."""
    page = (ROOT / "docs/choices.md").read_text()
    task, streams = tasks.load("kand_logic"), Streams(0)
    truth = torch.randint(3, (128, 18), generator=streams("truth"))  # [B, k]
    log_p = torch.full((128, 18, 3), 0.005).scatter(2, truth[..., None], 0.99).log()
    batch = Batch(torch.empty(0), task.rule(truth), torch.arange(128))
    shown = {"cache, 1 step": {}, "cache, 10 steps": {"walk_steps": 10}, "k-best": {"targets": "kbest"}}
    for line, settings in shown.items():
        method = methods.find("softpnet")(task, Settings().override(**task.settings_in("paper") | settings), [])
        state, taught = method.start(batch.labels, streams), []
        for clock in (Clock(epoch, 0) for epoch in range(20)):
            target, _ = method.target(state, batch, log_p, clock, method.gamma(clock), streams("walk"))
            right = 100 * target.gather(2, truth[..., None]).mean((1, 2))  # [B]
            taught.append([float(right[batch.labels == label].mean()) for label in (1, 0)])
            if clock.epoch == 0 and isinstance(state, WorkingSets):
                agree = (state.rows == truth[:, None]).sum(-1).amax(1)[batch.labels == 1]  # of the best row
                assert 13.5 < agree.float().mean() < 14.5 and "about 14 of 18 values" in page
        cells = re.search(rf"^\| {line} \|(.*)\|$", page, flags=re.M).group(1).split("|")
        told = [[float(number) for number in cell.split(",")] for cell in cells]
        expected = [taught[epoch] for epoch in (0, 1, 5, 10, 19)]
        torch.testing.assert_close(torch.tensor(told), torch.tensor(expected), atol=1.5, rtol=0)


def public_names():
    """What docs/api.md shows: names, and what of them it lists, "true" for all that has a docstring."""
    return entries((ROOT / "docs/api.md").read_text())


def entries(page):
    return re.findall(r"^::: (\S+)\n(?:    options:\n      members: (.*)\n)?", page, flags=re.M)


def test_the_page_of_public_names_has_them_all_and_each_says_what_it_is():
    assert {f"softpnet.{name}" for name in softpnet.__all__} <= {name for name, _ in public_names()}
    for name, members in public_names():
        shown = pkgutil.resolve_name(name)
        for member in re.findall(r"\w+", members) if members != "true" else []:
            assert inspect.getdoc(getattr(shown, member)), f"{name}.{member} has no docstring, so it is not shown"


def test_the_tables_of_public_names_and_settings_are_what_the_docstrings_say():
    page = (ROOT / "docs/api.md").read_text()
    tables = runpy.run_path(str(ROOT / "docs/names.py"))["tables"](page)
    begin, end = marks()
    assert page.partition(begin)[2].partition(end)[0].strip() == tables.strip(), "run `make names`"
    assert "\n| `warmup_steps` | `300` | `100` | Optimiser steps on augmented anchors" in tables
    listed = re.findall(r"^\| `(\w+)` \|", tables, flags=re.M)
    assert listed == [field.name for field in fields(Settings)]


def test_the_site_has_every_public_name_in_full_below_its_table():
    page = (ROOT / "docs/api.md").read_text()
    site = runpy.run_path(str(ROOT / "docs/hooks.py"))["in_full"](page)
    assert [name for name, _ in entries(site)] == [name for name, _ in entries(page)]
    assert site.index("| `softpnet.Task` |") < site.index("::: softpnet.Task\n") < site.index("## Rules")
    assert "-->" not in site.partition(marks()[1])[2] and "<!-- From" not in site


def test_every_field_on_the_page_of_public_names_has_its_words():
    shown = [pkgutil.resolve_name(name) for name, members in public_names() if members == "true"]
    assert {softpnet.Settings, softpnet.Examples, softpnet.Prediction} <= set(shown)
    for each in shown:
        (defined,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(defined, ast.ClassDef)
        body = defined.body
        fields = [ast.unparse(one.target) for one in body if isinstance(one, ast.AnnAssign)]
        told = [one for one, two in itertools.pairwise(body) if isinstance(two, ast.Expr)]
        assert fields == [ast.unparse(one.target) for one in told if isinstance(one, ast.AnnAssign)], each


def test_the_site_has_every_page():
    named = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.M)
    places = runpy.run_path(str(ROOT / "docs/hooks.py"))["PLACES"]
    outside = [place for source, place in places.items() if source.endswith(".md")]
    inside = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted([*outside, *inside])


def test_links_that_leave_the_folder_of_pages_lead_to_pages_of_the_site():
    linked = runpy.run_path(str(ROOT / "docs/hooks.py"))["linked"]
    shown = "[a](../examples/addition.py) [b](../CONTRIBUTING.md#a-method) [c](../examples) [d](api.md) x[0](y)"
    there = "[a](examples/addition.md) [b](CONTRIBUTING.md#a-method) [c](examples.md) [d](api.md) x[0](y)"
    assert linked(shown, "docs/rules.md", "rules.md") == there
    assert linked("[a](docs/rules.md#rows)", "README.md", "index.md") == "[a](rules.md#rows)"
    assert linked("[a](README.md)", "CHANGELOG.md", "CHANGELOG.md") == "[a](index.md)"


def test_the_three_files_of_contributing_train_and_their_targets_are_exact(tmp_path):
    paths = [tmp_path / f"my_{name}.py" for name in ("task", "method", "source")]
    for path, block in zip(paths, python_blocks("CONTRIBUTING.md"), strict=True):
        path.write_text(block)
        assert len(block.splitlines()) <= 22, path
    file, method, source = map(str, paths)
    task = tasks.load(file)
    data = task.data(Streams(0))
    model = Learner(task, method=method, targets=source, epochs=20, learning_rate=0.1, threads=1)
    model.fit(data.train.inputs, data.train.labels, data.anchors)
    assert model.score(*data.tests["test"])["label_accuracy"] > 0.8
    log_p = torch.randn(60, 2, 3, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    query = Query(torch.arange(60), data.train.labels, log_p, 0, 0.5)
    for settings in (Settings().override(**task.settings_in("paper") | {"target": kind}) for kind in ("soft", "best")):
        made = [targets.make(task, settings.override(targets=name), torch.Generator()) for name in (source, "auto")]
        found = [each.target(each.start(query.labels), query, torch.Generator())[0] for each in made]
        torch.testing.assert_close(found[0], found[1])


def spoken_of(page):
    """What a page says of today: without tables that commands made, and without the changelog's old names."""
    text = re.sub(r"<!-- begin.*?<!-- end", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"^\| (.*?) \|", "", text, flags=re.M) if page.stem == "CHANGELOG" else text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_modules_and_options_that_a_page_names_exist(page):
    text = spoken_of(page)
    files = re.findall(r"`((?:softpnet|tests|bench|torture|docs|results/choices|examples)/[a-z0-9_./-]+)`", text)
    assert [name for name in files if not (ROOT / name).exists()] == []
    for name in re.findall(r"(?<!/)\bsoftpnet((?:\.[a-z_]\w*)+)", text):
        pkgutil.resolve_name(f"softpnet{name}")
    assert set(re.findall(r"\bsp\.(\w+)", text)) <= set(softpnet.__all__)
    known = {option for command in COMMANDS.values() for option in option_types(command)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - known <= OTHERS


def test_the_method_s_page_lists_every_method_and_every_source_of_targets():
    page = (ROOT / "docs/method.md").read_text()
    sources, listed = re.findall(r"^\| `--(?:targets|method)` \|.*\n\|.*\n((?:\|.*\n)+)", page, flags=re.M)
    assert sorted(re.findall(r"^\| `(\w+)`", sources, flags=re.M)) == targets.names()
    assert sorted(re.findall(r"^\| `(\w+)`", listed, flags=re.M)) == methods.names()


def test_what_the_presets_do_differently_on_the_built_in_tasks_is_in_their_table():
    page = (ROOT / "docs/method.md").read_text()
    table = page[page.index("| | `paper` | `best` | setting |") :].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "".join(line.rpartition("| ")[2] for line in table.splitlines()[2:])))
    told = [task for task in map(tasks.load, tasks.names()) if task.settings_in("paper")]
    both = [[asdict(resolve(name, task.settings_in(name), {}, {}, "")[0]) for name in PRESETS] for task in told]
    differ = {setting for ours, theirs in both for setting in ours if ours[setting] != theirs[setting]}
    assert len(told) == 3 and differ <= named <= set(both[0][0])


def test_the_page_of_commands_lists_them_all():
    shown = re.findall(r"`softpnet ([a-z]+)", (ROOT / "docs/commands.md").read_text())
    assert set(COMMANDS) <= set(shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_read_once(page):
    """No line of prose or fenced code over 100 characters, no paragraph over 90 words; tables and pictures aside."""
    text = re.sub(r"<!-- begin.*?<!-- end", "", page.read_text(), flags=re.DOTALL)
    fenced = re.compile(r"^```\w*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in fenced.sub("", text).splitlines() if not line.startswith(("|", "    ", "!["))]
    assert [line for line in [*lines, *"".join(fenced.findall(text)).splitlines()] if len(line) > 100] == []
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. |#|\|)", "\n".join(lines))
    assert [paragraph for paragraph in paragraphs if len(paragraph.split()) > 90] == []


@pytest.mark.parametrize(
    "page, words", [("README.md", 900), ("docs/results.md", 1500), ("docs/your-own-task.md", 2300)]
)
def test_a_page_that_many_read_is_short(page, words):
    assert len((ROOT / page).read_text().split()) <= words


def test_the_readme_has_a_table_of_at_most_eight_rows():
    text = (ROOT / "README.md").read_text()
    assert len(re.findall(r"^\| (?!run|---)", text, flags=re.M)) <= 8


def headings(page):
    """As a link names them."""
    return [as_link(heading) for heading in re.findall(r"^#+ (.*)$", page.read_text(), flags=re.M)]


def as_link(heading):
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page):
    for link, _, heading in re.findall(r"\]\(([^)#:]*)(#([^):]+))?\)", page.read_text()):
        target = page.parent / link if link else page
        assert target.exists(), f"there is no {link}"
        assert not heading or heading in headings(target), f"{link or page.name} has no heading {heading}"


@pytest.mark.parametrize(
    "page, start, least", [("search.md", "| idea |", 20), ("when-concepts-stay-wrong.md", "| change |", 15)]
)
def test_what_was_tried_before_the_search_is_in_its_file(page, start, least):
    runs = [json.loads(line) for line in (ROOT / "results/choices/recipe.jsonl").read_text().splitlines()]
    known = {f"{run['concept']:.2f}" for run in runs}
    table = (ROOT / "docs" / page).read_text().partition(start)[2]
    shown = re.findall(r"\d+\.\d\d(?= )", table)
    assert len(shown) > least and set(shown) <= known


def test_figures_in_prose_are_those_of_the_tables():
    pages = [(ROOT / "docs" / name).read_text() for name in ("results-tables.md", "examples.md")]
    tables = "".join(page[page.index("**Overview") :].partition("\n**")[0] for page in pages)
    found = re.findall(r"^\| ([^|]+) \| \d+ \| ([0-9.]+) [^|]*\| ([0-9.]+) ", tables, flags=re.M)
    percent = {run: (f"{float(concept):.1f}", f"{float(label):.1f}") for run, concept, label in found}
    said = {
        "sum of two digits (EvenOdd)": "EvenOdd, best",
        "product of two digits": "Product of two digits",
        "six digits, in order or not": "Non-decreasing sequence of six digits",
        "XOR of two parities: 20 of 45 exchanges change no label": "XOR of two parities",
    }
    page = (ROOT / "docs/when-concepts-stay-wrong.md").read_text()
    for words, run_name in said.items():
        assert f"| {words} | {' | '.join(percent[run_name])} |" in page, percent[run_name]
    claims = (ROOT / "docs/results.md").read_text()
    more = re.search(r"\| ([\d.]+) [^|]*\| (\S+) \((.*)\) \| `suggest-10-suggested`", claims).groups()
    suggested, gain, interval = more
    random = float(suggested) - float(gain)
    wrong = " ".join(page.split())
    assert f"reads {percent['XOR of two parities'][0]} % of XOR with one anchor a digit" in wrong
    assert f"{float(suggested):.1f} if they are suggested (`suggest-10-suggested`) and {random:.1f} if" in wrong
    assert f"The difference of {gain} points (95 % interval {interval})" in wrong
    prose = " ".join((ROOT / "docs/shortcuts.md").read_text().split())
    concept, label = percent["Sudoku, abduction"]
    assert f"judged {label} % of the boards right and read {concept} % of the digits" in prose
    product, exclusive = percent["Product of two digits"], percent["XOR of two parities"]
    assert f"gives {product[0]} % of them, and the XOR of their parities {exclusive[0]} %" in prose
