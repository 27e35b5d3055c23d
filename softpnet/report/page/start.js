"use strict";
/* Puts the page together. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = data.runs, main = el("main", {}), several = runs.length > 1;
  const nav = [["figures", "Figures"], ["curves", "Learning"], ["confusion", "Confusions"], ["map", "Embeddings"], ["explorer", "Explorer"], ["rule", "Rule"], ["config", "Configuration"]];
  const picker = el("select", { id: "run", onchange: () => choose(Number(picker.value)) }, runs.map((run, i) => el("option", { value: i }, run.name)));
  const below = el("div", {});

  function choose(i) {
    const run = runs[i];
    picker.value = String(i);
    const explorer = explorerSection(run, run.diagram === null ? null : data.diagrams[run.diagram]);
    const open = (example) => { explorer.choose(example); explorer.root.scrollIntoView(); };
    below.replaceChildren(
      several ? el("p", { class: "about" }, el("strong", {}, `${run.name}. `), run.verdict) : "",
      keyFigures(run), ...run.remarks.map((remark) => el("p", { class: "remark" }, remark)),
      figuresSection(run), curvesSection(run), confusionSection(run), mapSection(run, open), explorer.root, ruleSection(run), configSection(run));
  }

  const themes = ["auto", "light", "dark"];
  let theme = 0;
  const toggle = el("button", { type: "button", id: "theme", onclick: () => {
    theme = (theme + 1) % themes.length;
    if (theme) document.documentElement.dataset.theme = themes[theme];
    else delete document.documentElement.dataset.theme;
    toggle.textContent = `Theme: ${themes[theme]}`;
  } }, "Theme: auto");

  const first = runs[0];
  const header = el("header", {},
    el("div", { class: "top" }, el("p", { class: "brand" }, "softpnet report"), toggle),
    el("h1", {}, data.title),
    el("p", { class: `verdict ${several ? "" : first.good ? "good" : "bad"}`, id: "verdict" }, data.verdict),
    several ? null : el("p", { class: "faint" }, `method ${first.method}, seed ${first.seed}, judged on ${number(first.count)} examples of test set ${first.split}`),
    el("nav", { "aria-label": "Sections" }, [...(several ? [["runs", "Runs"]] : []), ...nav].map(([id, name]) => el("a", { href: `#${id}` }, name))));
  if (several) main.append(comparisonSection(runs, choose), el("p", { class: "pick" }, el("label", { for: "run" }, "Shown below: "), picker));
  main.append(below);
  document.body.append(header, main);
  choose(0);
})();
