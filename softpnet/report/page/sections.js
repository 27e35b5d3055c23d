"use strict";
/* The sections that are read; the explorer is in a file of its own. */

function keyFigures(run) {
  const values = run.metrics[run.split];
  const figures = [
    ["labels right", values.label_accuracy, percent],
    ["concepts right", values.concept_accuracy, percent],
    ["concept–label gap", values.gap, (gap) => `${signed(100 * gap)} pts`],
    ["calibration error", values.concept_ece ?? values.label_ece, percent],
  ];
  return el("dl", { class: "figures" }, figures.filter(([, value]) => value !== undefined).map(([name, value, say]) => el("div", {},
    el("dt", {}, name), el("dd", {}, say(value)))));
}

function comparisonSection(runs, choose) {
  const heads = ["run", "method", "seed", "concepts right", "labels right", "gap", "calibration error"];
  const rows = runs.map((run, i) => {
    const values = run.metrics[run.split];
    return [
      { value: run.name, node: el("button", { type: "button", class: "link", onclick: () => choose(i) }, run.name) },
      run.method, run.seed, shareCell(values.concept_accuracy, 2), shareCell(values.label_accuracy, 2),
      values.gap === undefined ? null : { value: values.gap, node: signed(100 * values.gap) },
      values.concept_ece === undefined ? null : { value: values.concept_ece, node: percent(values.concept_ece, 2) },
    ];
  });
  return section("runs", "Runs", table(`Runs on ${runs[0].split} (choose one to see it below)`, heads.map((name, i) => ({ name, numeric: i > 1 })), rows));
}

function figuresSection(run) {
  const splits = Object.keys(run.metrics);
  const names = [...new Set(splits.flatMap((split) => Object.keys(run.metrics[split])))];
  const rows = names.map((name) => [words(name), ...splits.map((split) => {
    const value = run.metrics[split][name];
    return value === undefined ? null : { value, node: signed(100 * value, 2) };
  })]);
  const found = [table("All figures, in percent, by test set", [{ name: "figure" }, ...splits.map((split) => ({ name: words(split), numeric: true }))], rows)];
  for (const part of run.confusion) {
    const values = part.values.map((value, i) => {
      const [shownTimes, hit, told] = [part.shown[i], part.hit[i], part.told[i]];
      const mistake = part.mistakes.find(([truth]) => truth === i);
      return [value, shownTimes, shareCell(shownTimes ? hit / shownTimes : null), shareCell(told ? hit / told : null), mistake ? `${part.values[mistake[1]]} (${number(mistake[2])})` : ""];
    });
    const title = part.name ? `Values of ${words(part.name)} on ${run.split}` : `Values on ${run.split}`;
    found.push(table(title, [{ name: "value" }, { name: "shown", numeric: true }, { name: "found when shown", numeric: true }, { name: "right when read", numeric: true }, { name: "most often taken for" }], values));
  }
  return section("figures", "Figures", el("div", { class: "columns" }, found.map((each) => el("div", {}, each))));
}

function curvesSection(run) {
  const history = run.history;
  const series = (names, say = words) => names
    .map((name) => ({ name: say(name), values: history.map((epoch) => epoch[name] ?? null) }))
    .filter((each) => each.values.some((value) => value !== null));
  const charts = [];
  const chart = (title, drawn, note) => charts.push(el("figure", {}, el("figcaption", {}, title), drawn, note ? el("p", { class: "note" }, note) : null));
  if (history.length) {
    const accuracy = series(["label_accuracy", "concept_accuracy", "validation_label_accuracy"]);
    const watched = accuracy.some((each) => each.name === "concept accuracy");
    if (accuracy.length) {
      const last = history[history.length - 1];
      const gap = watched ? `The shaded band is the concept–label gap: ${signed(100 * (last.label_accuracy - last.concept_accuracy))} points after the last epoch. Labels far above concepts are a reasoning shortcut.` : null;
      chart("Accuracy after each epoch", lineChart({ series: accuracy, share: true, band: watched ? [0, 1] : null, label: "Accuracy after each epoch" }), gap);
    }
    const losses = series([...new Set(history.flatMap((epoch) => Object.keys(epoch)))].filter((name) => name.startsWith("loss")));
    if (losses.length) chart("Losses", lineChart({ series: losses, label: "Losses by epoch" }));
    if (run.unwatched) charts.push(el("p", { class: "note" }, run.unwatched.why, " ", el("code", {}, run.unwatched.command)));
  } else charts.push(el("p", { class: "note" }, "The run folder holds no history of its epochs."));
  if (Object.keys(run.calibration).length) {
    chart("Calibration: is it right as often as it says?", calibrationChart(run.calibration), "On the dashed line, confidence is honest. A larger dot holds more readings.");
  }
  return section("curves", "Learning and calibration", el("div", { class: "columns" }, charts));
}

function confusionSection(run) {
  if (!run.confusion.length) return section("confusion", "Confusions", el("p", { class: "note" }, "The true concepts of the test examples are not known."));
  return section("confusion", "Confusions", el("div", { class: "columns" }, run.confusion.map((part) => {
    const title = part.name ? words(part.name) : "all concepts";
    const mistakes = part.mistakes.length
      ? table(`Most frequent mistakes, ${title}`, [{ name: "true" }, { name: "read as" }, { name: "times", numeric: true }], part.mistakes.map(([truth, read, times]) => [part.values[truth], part.values[read], times]))
      : el("p", { class: "note" }, "No mistake.");
    return [el("figure", {}, el("figcaption", {}, `${title}, percent of each true value`),
      part.counts ? confusionMatrix(part.values, part.counts, `Confusion matrix of ${title}`) : el("p", { class: "note" }, `${part.values.length} values are too many for a matrix.`)), el("div", {}, mistakes)];
  })));
}

function mapSection(run, open) {
  return section("map", "Embeddings", el("div", { class: "columns" }, run.maps.map((each, g) => {
    const group = run.groups[g];
    const drawn = embeddingMap(each, group.primitives, `Map of the embeddings of ${group.name}`, open);
    const marks = [each.stars_are_prototypes ? "a star is a prototype" : "a star is in the middle of the dots read as its value", "a square is an anchor", "a dot is a test input", run.confusion.length ? "a ringed one is read wrong" : null];
    return el("figure", {}, el("figcaption", {}, run.groups.length > 1 ? `${group.name}, by ${each.how}` : `By ${each.how}`), drawn,
      el("p", { class: "note" }, `${number(each.points.length)} test inputs: ${marks.filter(Boolean).join(", ")}. Dots of explored examples open them. Distances in such a map are only roughly those of the embedding.`));
  })));
}

function ruleSection(run) {
  const rule = run.rule;
  const found = [el("p", {}, `${number(rule.concepts)} concepts have ${rule.assignments} assignments. The rule is ${rule.said}.`)];
  if (rule.missing) found.push(el("p", { class: "note" }, `The page has no diagram to sweep: ${rule.missing}.`));
  const columns = [];
  if (rule.widths) {
    columns.push(el("figure", {}, el("figcaption", {}, "Nodes of each layer, and the concept that it reads"), layerBars(rule.widths, rule.order, `Nodes per layer: ${rule.widths.join(", ")}`)));
    const more = rule.labels - rule.counts.length;
    columns.push(el("div", {}, table("Assignments of each label", [{ name: "label" }, { name: "assignments", numeric: true }, { name: "share", numeric: true }],
      rule.counts.map(([label, count, share]) => [label, { value: share, node: count }, shareCell(share, 2)])),
    more > 0 ? el("p", { class: "note" }, `And ${number(more)} more labels.`) : null));
  }
  return section("rule", "How the rule was compiled", found, el("div", { class: "columns" }, columns));
}

function configSection(run) {
  const givers = { user: "you", task: "the task", method: "the method", preset: "the preset", default: "default" };
  const rows = run.config.settings.map(([name, value, giver]) => [name.replaceAll("_", "-"), value, givers[giver] ?? giver]);
  const chosen = rows.filter((row) => row[2] !== "default");
  const heads = [{ name: "setting" }, { name: "value" }, { name: "given by" }];
  return section("config", "Configuration", el("div", { class: "columns" },
    el("div", {}, chosen.length ? table("Settings that somebody chose", heads, chosen) : null,
      el("details", {}, el("summary", {}, `All ${rows.length} settings`), table("All settings", heads, rows))),
    el("div", {}, table("What else the run depends on", [{ name: "name" }, { name: "value" }], run.config.others))));
}
