"""The report as a person meets it: opened from the disk in a browser, with mouse and keyboard."""

import pytest
import torch
from axe_core_python.base import AXE_SCRIPT
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from softpnet import Learner, tasks
from softpnet.report.html import render
from softpnet.report.judge import judge
from softpnet.report.report import report
from softpnet.report.rule_facts import as_plain
from softpnet.rules.table import from_table
from softpnet.task.concepts import ConceptSpace, Group
from softpnet.task.data import make_data
from softpnet.training.streams import Streams

OWN = """
import torch
import softpnet as sp

def rule(c):
    return c[..., 0] + c[..., 1]

def picture(values):
    rows = torch.arange(16)[:, None] // 4 == values[..., None, None, None]  # [..., 1, 16, 1]
    return rows.float().expand(*rows.shape[:-1], 16).clone()

def data(streams):
    concepts = torch.randint(3, (60, 2), generator=streams("data"))
    inputs = picture(concepts) + 0.7 * torch.randn(60, 2, 1, 16, 16, generator=streams("noise"))
    examples = sp.Examples(inputs, rule(concepts), concepts)
    return sp.Data(examples, sp.Anchors(picture(torch.arange(3)), torch.arange(3)), {"test": examples})

task = sp.Task(sp.ConceptSpace(slots=2, values=3, value_names=[["low", "mid", "<b>high</b>"]]), rule, name="two bars",
               data=data, settings={"epochs": 2, "warmup_steps": 3, "copies": 1, "episodes": 2})
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Pages: of a run, of two runs, and of a run whose rule has no diagram."""
    folder = tmp_path_factory.mktemp("home")
    own = folder / "own.py"
    own.write_text(OWN)
    for name, method in (("first", "softpnet"), ("second", "supervised")):
        task = tasks.load(str(own))
        data = make_data(task, Streams(0))
        model = Learner(task, method=method, threads=1)
        watch = data.tests["test"]
        model.fit(data.train.inputs, data.train.labels, data.anchors, concepts=data.train.concepts, run=folder / name,
                  watch=lambda now, state, watch=watch: now.score(*watch))  # fmt: skip
        judge(model, data, folder / name, pictures=False)
    (folder / "one.html").write_text(report([folder / "first"], task=str(own)))
    (folder / "two.html").write_text(report([folder / "first", folder / "second"], task=str(own)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("softpnet.rules.merge.BUDGET", 3)
        (folder / "bare.html").write_text(report([folder / "first"], task=str(own)))
    return folder


@pytest.fixture
def opened(home, browser):
    def open_page(name, width=1000, dark=False):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # a page that still scrolls is not clicked on
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
        browser.get((home / f"{name}.html").as_uri())
        return browser

    yield open_page
    assert browser.get_log("browser") == []


def text(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector).text


@pytest.mark.parametrize("name", ["one", "two", "bare"])
@pytest.mark.parametrize("width, dark", [(400, False), (700, True), (1000, False), (1600, True)])
def test_every_width_and_theme_has_no_sideways_scroll_and_no_serious_finding_of_axe(opened, name, width, dark):
    browser = opened(name, width, dark)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_script(AXE_SCRIPT)
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")["violations"]
    grave = [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
    assert grave == []


def test_a_table_that_is_cut_says_that_it_scrolls(opened):
    ask = """return [...document.querySelectorAll('.wide')].filter((each) => each.clientWidth).map((each) =>
        [each.scrollWidth > each.clientWidth, getComputedStyle(each, '::before').content.includes('scrolls')])"""
    narrow, wide = (opened("one", width).execute_script(ask) for width in (400, 1600))
    assert any(cut for cut, _ in narrow) and all(cut == said for cut, said in narrow + wide)


def test_what_is_not_nothing_is_never_shown_as_nothing(opened):
    browser = opened("one")
    given = [0.0001, 0.0006, 0.9999, 0.5]
    assert browser.execute_script("return arguments[0].map(probability)", given) == [
        "<0.001",
        "0.001",
        ">0.999",
        "0.500",
    ]
    shown = browser.execute_script("return arguments[0].map((share) => percent(share))", [0, 0.0001, 0.0006, 1])
    assert shown == ["0.0\u00a0%", "<0.1\u00a0%", "0.1\u00a0%", "100.0\u00a0%"]
    assert "(distance " in text(browser, "#explorer .near")
    fits = """const bar = document.querySelector('.value .bar'), before = bar.offsetHeight; bar.textContent = '>0.999';
        return bar.offsetHeight === before && bar.scrollWidth <= bar.clientWidth"""
    assert browser.execute_script(fits)


def test_the_theme_follows_the_system_until_a_person_chooses(opened):
    def paper(browser):
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    light, dark = paper(opened("one")), paper(browser := opened("one", dark=True))
    assert light != dark
    button = browser.find_element(By.ID, "theme")
    button.click()
    assert paper(browser) == light and button.text == "Theme: light"
    button.click()
    assert paper(browser) == dark and button.text == "Theme: dark"


def test_a_table_sorts_by_mouse_and_keyboard(opened):
    browser = opened("one")
    table = browser.find_element(By.XPATH, "//table[caption='Values on test']")

    def shown():
        return [float(cell.text) for cell in table.find_elements(By.CSS_SELECTOR, "tbody td:nth-child(2)")]

    button = table.find_element(By.XPATH, ".//button[text()='shown']")
    button.click()
    assert shown() == sorted(shown(), reverse=True) and len(shown()) == 3
    assert table.find_element(By.CSS_SELECTOR, "[aria-sort]").get_attribute("aria-sort") == "descending"
    button.send_keys(Keys.ENTER)
    assert shown() == sorted(shown())
    assert table.find_element(By.CSS_SELECTOR, "[aria-sort]").get_attribute("aria-sort") == "ascending"


def test_names_are_shown_as_they_are_and_charts_are_drawn(opened):
    browser = opened("one")
    assert "<b>high</b>" in text(browser, "#figures") and not browser.find_elements(By.TAG_NAME, "b")
    assert 1 <= len(browser.find_elements(By.CSS_SELECTOR, "#map .star")) <= 3  # none for a value that is never read
    assert len(browser.find_elements(By.CSS_SELECTOR, "#map rect.anchor")) == 3
    assert len(browser.find_elements(By.CSS_SELECTOR, "#confusion .matrix rect")) == 9
    assert len(browser.find_elements(By.CSS_SELECTOR, "#curves .band")) == 1
    assert "concept–label gap" in text(browser, "#curves")
    assert browser.execute_script("return document.querySelector('#explorer img').naturalWidth") == 16


def test_the_explorer_is_walked_by_keyboard_and_ordered(opened):
    browser = opened("one")
    data = browser.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0].explorer")

    def number():
        return int(text(browser, "#explorer .headline h3").removeprefix("Example "))

    by_loss = sorted(range(60), key=lambda i: -data["loss"][i])
    examples = browser.find_element(By.CSS_SELECTOR, ".examples")
    assert number() == data["id"][by_loss[0]]
    examples.send_keys(Keys.ARROW_DOWN)
    assert number() == data["id"][by_loss[1]]
    examples.send_keys(Keys.END)
    assert number() == data["id"][by_loss[-1]]
    Select(browser.find_element(By.ID, "order")).select_by_value("unsure")
    assert data["sure"][data["id"].index(number())] == min(data["sure"])
    browser.find_elements(By.CSS_SELECTOR, ".examples li")[3].click()
    selected = browser.find_elements(By.CSS_SELECTOR, ".examples [aria-selected=true]")
    assert len(selected) == 1 and f"no. {number()}," in selected[0].text


def test_a_changed_concept_changes_the_label_and_what_is_feasible(opened):
    """The rule is a sum: of three values each, label 2 is given by three assignments."""
    browser = opened("one")
    data = browser.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0].explorer")
    at = next(i for i in range(60) if data["label"][i] == "2")
    Select(browser.find_element(By.ID, "order")).select_by_value("plain")
    browser.find_element(By.ID, f"example-{at}").click()
    assert text(browser, "#feasible") == "3"
    second = data["read"][at][1]
    for value in range(3):
        button = browser.find_element(By.ID, f"value-0-{value}")
        assert button.text.endswith(f"→ {value + second}")
        button.send_keys(Keys.ENTER) if value == 1 else button.click()
        assert f"label {value + second}" in text(browser, "#label-now")
        assert text(browser, "#feasible") == "1"
        assert browser.switch_to.active_element.get_attribute("id") == f"value-0-{value}"
    assert "slot 1 = <b>high</b> held" in text(browser, "#explorer")
    Select(browser.find_element(By.ID, "suppose")).select_by_visible_text("0")
    assert text(browser, "#feasible") == "0" and "No assignment with the held values" in text(browser, "#explorer")
    browser.find_element(By.ID, "reset").click()
    assert f"label {data['said'][at]}" in text(browser, "#label-now")


def test_without_a_diagram_the_page_says_so_and_still_tells_single_changes(opened):
    browser = opened("bare")
    assert "The page has no diagram to sweep" in text(browser, "#rule")
    assert "found among the 9 most probable assignments" in text(browser, "#explorer")
    browser.find_element(By.ID, "value-0-0").click()
    first = text(browser, "#label-now")
    browser.find_element(By.ID, "value-0-2").click()
    assert text(browser, "#label-now") != first and not browser.find_elements(By.ID, "feasible")


def test_a_comparison_shows_the_run_that_is_chosen(opened):
    browser = opened("two")
    assert "best of 2 runs" in text(browser, "#verdict")
    assert "first" in text(browser, ".about")
    browser.find_element(By.XPATH, "//section[@id='runs']//button[text()='second']").click()
    assert text(browser, ".about").startswith("second.")
    Select(browser.find_element(By.ID, "run")).select_by_visible_text("first")
    assert text(browser, ".about").startswith("first.")


def test_a_point_of_the_map_opens_its_example(opened):
    browser = opened("one")
    browser.execute_script("document.querySelector('#map .link').dispatchEvent(new MouseEvent('click'))")
    data = browser.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0]")
    example = next(point[4] for point in data["maps"][0]["points"] if point[4] >= 0)
    assert text(browser, "#explorer .headline h3") == f"Example {data['explorer']['id'][example]}"


@pytest.mark.parametrize("seed", range(6))
def test_the_page_s_sweeps_are_those_of_python(opened, seed):
    """Random rules over concepts of different sizes, read in a random order."""
    browser = opened("one")
    generator = torch.Generator().manual_seed(seed)
    space = ConceptSpace(Group([0, 1], (2, 3), "a"), Group([2], 4, "b"))
    table = torch.randint(5, (space.size,), generator=generator)
    order = torch.randperm(space.k, generator=generator).tolist()
    diagram = from_table(space, lambda rows: table[space.keys(rows)], order)
    log_p = torch.full((1, space.k, space.h), -torch.inf, dtype=torch.float64)
    for i, h in enumerate(space.sizes):
        log_p[0, i, :h] = (3 * torch.randn(h, generator=generator, dtype=torch.float64)).log_softmax(-1)
    plain = [[float(v) for v in log_p[0, i, :h]] for i, h in enumerate(space.sizes)]
    every = space.all()
    ask = "const [d, p, leaf, rows] = arguments; const found = "
    found = browser.execute_script(
        ask + "{all: Sweep.leafLogProbs(d, p).slice(0, d.labels.length), rows: rows.map((row) => Sweep.leaf(d, row)),"
        " leaves: d.labels.map((_, leaf) => ({total: Sweep.logProb(d, p, [leaf]), best: Sweep.best(d, p, [leaf], 7),"
        " marginals: Sweep.marginals(d, p, [leaf]), count: String(Sweep.count(d, new Map(), [leaf])),"
        " held: String(Sweep.count(d, new Map([[1, 2]]), [leaf]))})), left: Sweep.possible(d, rows[5])}; return found",
        as_plain(diagram), plain, 0, every.tolist(),
    )  # fmt: skip
    assert found["rows"] == diagram.leaf(every).tolist()
    labels = diagram.labels
    wide = log_p.expand(len(labels), -1, -1)
    totals, marginals = diagram.log_prob(wide, labels), diagram.marginals(wide, labels)
    rows, exist = diagram.best(wide, labels, 7)
    torch.testing.assert_close(torch.tensor(found["all"], dtype=torch.float64), totals)
    for leaf, answer in enumerate(found["leaves"]):
        assert answer["total"] == pytest.approx(float(totals[leaf]))
        assert [each["row"] for each in answer["best"]] == rows[leaf][exist[leaf]].tolist()
        for i, h in enumerate(space.sizes):
            assert answer["marginals"][i] == pytest.approx(marginals[leaf, i, :h].tolist(), abs=1e-9)
        assert int(answer["count"]) == diagram.count(labels)[leaf]
        assert int(answer["held"]) == int(((diagram.leaf(every) == leaf) & (every[:, 1] == 2)).sum())
    held = torch.ones(len(every), dtype=torch.bool)
    for concept, leaves in zip(diagram.order, found["left"], strict=True):
        held &= every[:, concept] == every[5, concept]
        assert leaves == diagram.leaf(every[held]).unique().tolist()


def test_a_script_in_the_data_does_not_run(home, browser, opened):
    """Even where a name would break out of its place, the page's policy lets no other script run."""
    page = (home / "one.html").read_text().replace("<noscript>", "<script>document.title = 'taken'</script><noscript>")
    (home / "attacked.html").write_text(page)
    assert "two bars" in opened("attacked").title
    (refused,) = browser.get_log("browser")
    assert "Content Security Policy" in refused["message"]
    assert "&lt;i&gt;" in render("<i>", {})
