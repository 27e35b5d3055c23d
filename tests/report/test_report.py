"""The report: one page that holds all it needs, says what is so, and takes nothing in it for code."""

import base64
import hashlib
import json
import re

import pytest
import torch

from softpnet import Learner, tasks
from softpnet.errors import InputError
from softpnet.metrics import calibration_error
from softpnet.report.explorer import _chosen
from softpnet.report.facts import _bins
from softpnet.report.html import render
from softpnet.report.judge import judge
from softpnet.report.report import report
from softpnet.report.rule_facts import rule_facts
from softpnet.report.thumbnails import thumbnails
from softpnet.report.verdict import comparison, verdict
from softpnet.task.data import make_data
from softpnet.training.streams import Streams

EVIL = "</script><script>alert(1)</script>"
OWN = f"""
import torch
import softpnet as sp

def rule(c):
    return c.sum(-1)

def data(streams):
    concepts = torch.randint(3, (30, 2), generator=streams("data"))
    inputs = 1.0 * torch.nn.functional.one_hot(concepts, 3)
    anchors = sp.Anchors(torch.eye(3), torch.arange(3))
    examples = sp.Examples(inputs, rule(concepts), concepts)
    return sp.Data(examples, anchors, {{"test": examples}})

def task(name: str = "sum"):
    space = sp.ConceptSpace(slots=2, values=3, value_names=[["low", "mid", "{EVIL}"]])
    return sp.Task(space, rule, name=name, data=data, encoder="mlp", settings={{"epochs": 1, "warmup_steps": 2}})
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    (folder / "own.py").write_text(OWN)
    for name, task in (("run", "sum"), ("other", "sum"), ("elsewhere", "product")):
        made = tasks.load(str(folder / "own.py"), {"name": task})
        data = make_data(made, Streams(0))
        model = Learner(made, method="abduction" if name == "other" else "softpnet", threads=1)
        model.fit(data.train.inputs, data.train.labels, data.anchors, run=folder / name)
        judge(model, data, folder / name, pictures=False)
    return folder


@pytest.fixture(scope="module")
def page(home):
    return report([home / "run"], task=str(home / "own.py"))


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1))


def test_the_page_loads_nothing_and_its_policy_allows_its_own_script_and_style_only(page):
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which is not loaded
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_names_are_never_taken_for_code(page):
    assert EVIL in data_of(page)["runs"][0]["groups"][0]["values"][0]
    assert EVIL not in page
    assert "<b>" not in render("<b>@data@", {"x": 1}).partition("<style>")[0]
    assert data_of(render("t", {"x": "@script@ </script>"})) == {"x": "@script@ </script>"}


def test_the_explorer_has_what_the_model_reads(home, page):
    run = data_of(page)["runs"][0]
    model = Learner.load(home / "run", origin=str(home / "own.py"))
    examples = make_data(model.task, Streams(0)).tests["test"]
    found = model.predict(examples.inputs)
    shown = run["explorer"]
    assert shown["id"] == list(range(30)) and shown["how"] == "all 30 test examples"
    assert shown["read"] == found.concepts.tolist() and shown["truth"] == examples.concepts.tolist()
    log_p = found.probabilities.log().clamp_min(-60)
    torch.testing.assert_close(torch.tensor(shown["log_p"]), log_p, atol=1e-3, rtol=0)
    labels = data_of(page)["diagrams"][run["diagram"]]["labels"]
    assert [labels[leaf] for (leaf,) in shown["leaves"]] == shown["label"]
    embedded, anchors = model.embed(examples.inputs)[0], model.embed(torch.eye(3).repeat_interleave(2, 0).view(3, 2, 3))
    far = torch.cdist(embedded, anchors[0][:, 0])  # [N, 2, 3]
    nearest = torch.tensor([[slot[0][0] for slot in each] for each in shown["near"]])
    torch.testing.assert_close(far.gather(2, nearest[..., None]).squeeze(2), far.amin(2))


def test_without_a_diagram_python_answers_and_the_page_says_what_is_missing(home, monkeypatch):
    plain = data_of(report([home / "run"], task=str(home / "own.py")))["runs"][0]["explorer"]
    monkeypatch.setattr("softpnet.rules.merge.BUDGET", 3)
    made = data_of(report([home / "run"], task=str(home / "own.py")))
    run = made["runs"][0]
    assert made["diagrams"] == [] and run["diagram"] is None and "more than 3 nodes" in run["rule"]["missing"]
    shown = run["explorer"]
    log_p = torch.tensor(plain["log_p"]).double()
    every = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    for at in range(30):
        fits = every[every.sum(1) == int(shown["label"][at])]
        score = (log_p[at, 0, fits[:, 0]] + log_p[at, 1, fits[:, 1]]).softmax(0)
        weights = {tuple(row): weight for row, weight in shown["best"][at]}
        expected = zip(fits.tolist(), score.tolist(), strict=True)
        assert weights == {tuple(row): pytest.approx(weight, abs=2e-3) for row, weight in expected}
        for i in range(2):
            assert shown["changed"][at][i] == [str(v + shown["read"][at][1 - i]) for v in range(3)]


def test_a_diagram_that_is_too_large_stays_outside(home, monkeypatch):
    monkeypatch.setattr("softpnet.report.rule_facts.MOST_EDGES", 3)
    found = rule_facts(tasks.load(str(home / "own.py")), True)
    assert found.diagram is None and found.rule is not None and "12 edges and 5 labels" in found.facts["missing"]


def test_runs_of_one_rule_share_its_diagram_and_are_compared(home):
    made = data_of(report([home / "run", home / "other"], task=str(home / "own.py")))
    assert [run["name"] for run in made["runs"]] == ["run", "other"]
    assert [run["diagram"] for run in made["runs"]] == [0, 0] and len(made["diagrams"]) == 1
    assert "reads concepts best of 2 runs" in made["verdict"]


def test_settings_say_who_gave_them_and_no_path_is_shown(home, page):
    config = data_of(page)["runs"][0]["config"]
    givers = {name: (value, giver) for name, value, giver in config["settings"]}
    assert givers["epochs"] == ("1", "task") and givers["episodes"][1] == "default"
    assert str(home) not in page and ["task from", "own.py"] in config["others"]


def test_half_of_the_examples_are_the_worst_and_a_quarter_the_least_certain_others():
    loss, sure = torch.arange(100.0), torch.arange(100.0) / 100
    chosen, said = _chosen(loss, sure, 20)
    assert len(chosen.unique()) == 20
    assert set(range(90, 100)) | set(range(5)) <= set(chosen.tolist())
    assert said.startswith("20 of 100 test examples: the 10 worst, the 5 least certain")


def test_bins_are_those_of_the_calibration_error(generator):
    sure = torch.rand(500, generator=generator)
    right = torch.rand(500, generator=generator) < sure**2
    bins = torch.tensor(_bins(sure, right))
    error = (bins[:, 0] * (bins[:, 1] - bins[:, 2]).abs()).sum() / bins[:, 0].sum()
    assert error == pytest.approx(calibration_error(sure, right), abs=2e-4) and bins[:, 0].sum() == 500


def test_pictures_of_200_large_images_fit_their_budget(generator):
    """Noise is the worst case: no file of it is small."""
    made = thumbnails(torch.rand(200, 3, 120, 160, generator=generator), 1_000_000)
    assert len(made) == 200 and 300_000 < sum(len(each["png"]) for each in made) <= 1_000_000


LARGE = """
import torch
import softpnet as sp

def rule(c):
    return c.sum(-1)

def data(streams):
    concepts = torch.randint(3, (210, 2), generator=streams("data"))
    inputs = torch.rand(210, 2, 3, 96, 96, generator=streams("noise"))
    anchors = sp.Anchors(torch.rand(3, 3, 96, 96, generator=streams("noise")), torch.arange(3))
    examples = sp.Examples(inputs, rule(concepts), concepts)
    return sp.Data(sp.Examples(*(part[:8] for part in examples)), anchors, {"test": examples})

def encoder(channels):
    return torch.nn.Sequential(torch.nn.AvgPool2d(32), torch.nn.Flatten(), torch.nn.Linear(9 * channels, 4))

task = sp.Task(sp.ConceptSpace(slots=2, values=3), rule, name="noise", data=data, encoder=encoder,
               settings={"epochs": 1, "warmup_steps": 1, "copies": 1})
"""


def test_a_page_of_200_examples_of_large_images_has_at_most_5_mb(tmp_path):
    (tmp_path / "large.py").write_text(LARGE)
    task = tasks.load(str(tmp_path / "large.py"))
    data = make_data(task, Streams(0))
    model = Learner(task, threads=1).fit(data.train.inputs, data.train.labels, data.anchors, run=tmp_path / "run")
    judge(model, data, tmp_path / "run", pictures=False)
    page = report([tmp_path / "run"], task=str(tmp_path / "large.py"))
    assert len(data_of(page)["runs"][0]["explorer"]["id"]) == 200
    assert 1_000_000 < len(page.encode()) <= 5_000_000


def test_a_star_of_a_map_is_in_the_middle_of_what_is_read_as_its_value(page):
    (drawn,) = data_of(page)["runs"][0]["maps"]
    assert not drawn["stars_are_prototypes"]  # they are learned, and may lie far from all inputs
    for value, star in enumerate(drawn["stars"]):
        own = [(x, y) for x, y, _, read, _ in drawn["points"] if read == value]
        assert (star is None) == (not own)
        for at in (0, 1) if own else ():
            assert star[at] == pytest.approx(sum(spot[at] for spot in own) / len(own), abs=1)


@pytest.mark.parametrize(
    "inputs, kind, part",
    [
        (torch.zeros(2, 1, 9, 9), "png", "iVBOR"),
        (torch.full((2, 3), 0.12345), "bars", 0.123),
        (torch.arange(6).view(2, 3), "text", "0 1 2"),
        (torch.ones(2, 4, 5), "text", "4 x 5 numbers"),
    ],
)
def test_inputs_are_shown_by_their_kind(inputs, kind, part):
    first = thumbnails(inputs, 1000)[0]
    assert list(first) == [kind] and part in first[kind]


@pytest.mark.parametrize(
    "metrics, gap, said",
    [
        ({"label_accuracy": 0.95, "concept_accuracy": 0.98}, 0.0, "right labels for the right reasons"),
        ({"label_accuracy": 0.95, "concept_accuracy": 0.4}, 0.55, "but concepts only in 40.0.%: a reasoning shortcut"),
        ({"label_accuracy": 0.5, "concept_accuracy": 0.95}, 0.0, "a label needs all of its concepts right"),
        ({"label_accuracy": 0.3, "concept_accuracy": 0.3}, 0.0, "hard inputs, or too little training; --method"),
        ({"label_accuracy": 0.95}, 0.0, "the true concepts are not known"),
    ],
)
def test_the_verdict_is_one_sentence(metrics, gap, said):
    found = verdict(metrics, gap, 1200)
    assert re.search(said, found) and "1,200 test examples" in found and found.count(". ") == 0


def test_a_comparison_says_when_so_few_examples_cannot_tell():
    near = [{"concept_accuracy": share} for share in (0.90, 0.91)]
    assert "b reads concepts best of 2 runs" in comparison("ab", near, 100)
    assert "1.0 points ahead of a" in comparison("ab", near, 100)
    assert "too close to call on 100 examples" in comparison("ab", near, 100)
    assert "one seed each" in comparison("ab", near, 100_000)


def test_what_cannot_be_reported_is_one_sentence(home, tmp_path):
    own = str(home / "own.py")
    with pytest.raises(InputError, match=r"is not a run folder: manifest.sha256 is missing"):
        report([tmp_path])
    with pytest.raises(InputError, match="run is named twice"):
        report([home / "run", home / "other" / ".." / "run"], task=own)
    with pytest.raises(InputError, match=r"is a run of task 'product' and .* one of 'sum'; a comparison is of one"):
        report([home / "run", home / "elsewhere"], task=own)


@pytest.fixture
def copied(home, tmp_path):
    """A copy of the run, to be spoiled."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (home / "run").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def test_a_run_without_its_model_says_how_to_go_on(home, copied):
    (copied / "model.safetensors").unlink()
    with pytest.raises(
        InputError, match=r"model.safetensors is missing, .* make it again with `softpnet train .*--resume`"
    ):
        report([copied], task=str(home / "own.py"))


def test_a_run_of_a_newer_version_says_which_to_install(home, copied, list_again):
    config = json.loads((copied / "config.json").read_text())
    config |= {"new": 1, "versions": config["versions"] | {"softpnet": "99.0.1"}}
    (copied / "config.json").write_text(json.dumps(config))
    list_again(copied)
    with pytest.raises(
        InputError, match=r"written by softpnet 99\.0\.1, newer than this .*; upgrade softpnet \(.*'new'\)$"
    ):
        report([copied], task=str(home / "own.py"))


def test_the_command_writes_the_page_into_the_run_and_refuses_what_is_no_page(home, softpnet_here, monkeypatch):
    monkeypatch.chdir(home)
    code, out, error = softpnet_here("report", "run", "--task", "own.py", "--examples", 12)
    assert code == 0, error
    assert "report: run/report.html" in out
    shown = data_of((home / "run/report.html").read_text())["runs"][0]["explorer"]
    assert len(shown["id"]) == 12
    code, out, error = softpnet_here("report", "run", "other", "--task", "own.py")
    assert code == 0 and (home / "comparison.html").exists(), error
    for arguments, said in [
        (("run", "--out", "report.png"), "--out is report.png, expected the name of an HTML file"),
        (("run", "--examples", 0), "--examples is 0, expected at least 1"),
        ((), "no run is named"),
    ]:
        code, _, error = softpnet_here("report", *arguments)
        assert code == 2 and said in error and error.count("\n") == 1


def test_train_ends_by_naming_the_report(home, softpnet_here, monkeypatch):
    monkeypatch.chdir(home)
    code, out, error = softpnet_here("train", "own.py", "--out", "new", "--no-pictures")
    assert code == 0, error
    assert out.splitlines()[-1] == "see it: softpnet report new --task own.py"
