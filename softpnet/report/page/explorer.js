"use strict";
/* The explorer: one test example, what is read in it, which assignments its label allows, and what if. */

const BEST = 6, MANY = 12, FEW = 6;

function explorerSection(run, diagram) {
  const data = run.explorer;
  const concepts = run.groups.flatMap((group, g) => group.slots.flatMap((slot, s) => group.values.map((values, a) => ({
    slot, values, near: run.groups.slice(0, g).reduce((sum, each) => sum + each.slots.length, 0) + s, group: g,
    own: [run.groups.length > 1 ? group.name : null, group.values.length > 1 ? `attribute ${a}` : null].filter(Boolean).join(", ") || "concept",
  }))));
  concepts.forEach((each, i) => { each.number = i + 1; each.name = `slot ${each.slot + 1}${each.own === "concept" ? "" : `, ${each.own}`}`; });
  const slots = 1 + Math.max(...concepts.map((each) => each.slot));
  let at = 0, fixed = new Map(), wanted = null, unfolded = new Set();

  const list = el("ul", { class: "examples", role: "listbox", "aria-label": "Test examples", tabindex: 0 });
  const detail = el("div", { class: "detail" });
  const news = el("p", { class: "sr", role: "status" });
  const order = el("select", { id: "order", onchange: () => { drawList(); choose(sorted()[0]); } },
    el("option", { value: "worst" }, "worst first"), el("option", { value: "unsure" }, "least certain first"), el("option", { value: "plain" }, "as they come"));

  const places = data.id.map((_, i) => i);
  function sorted() {
    if (order.value === "worst") return [...places].sort((a, b) => data.loss[b] - data.loss[a]);
    if (order.value === "unsure") return [...places].sort((a, b) => data.sure[a] - data.sure[b]);
    return places;
  }

  function drawList() {
    list.replaceChildren(...sorted().map((i) => el("li", {
      role: "option", id: `example-${i}`, "aria-selected": String(i === at), onclick: () => choose(i), class: data.right[i] ? null : "wrong",
    }, el("span", { class: "strip" }, data.inputs[i].slice(0, 3).map((input) => (input.png ? shown(input, "") : null))),
    el("span", {}, `${data.said[i]}${data.right[i] ? "" : ` ≠ ${data.label[i]}`}`),
    el("span", { class: "faint" }, `no. ${data.id[i]}, least sure ${percent(data.sure[i], 0)}`))));
  }

  list.addEventListener("keydown", (event) => {
    const now = sorted(), here = now.indexOf(at);
    const next = { ArrowDown: here + 1, ArrowRight: here + 1, ArrowUp: here - 1, ArrowLeft: here - 1, Home: 0, End: now.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(now[Math.max(0, Math.min(now.length - 1, next))]);
  });

  function choose(i) {
    document.getElementById(`example-${at}`)?.setAttribute("aria-selected", "false");
    [at, fixed, wanted, unfolded] = [i, new Map(), null, new Set()];
    const row = document.getElementById(`example-${i}`);
    row?.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", `example-${i}`);
    if (row) {
      const [top, left] = [row.offsetTop - list.offsetTop, row.offsetLeft - list.offsetLeft];
      if (top < list.scrollTop || top + row.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - 40;
      if (left < list.scrollLeft || left + row.offsetWidth > list.scrollLeft + list.clientWidth) list.scrollLeft = left - 40;
    }
    draw();
  }

  const reading = () => data.read[at].map((value, i) => (fixed.has(i) ? fixed.get(i) : value));
  const labelOf = (leaf) => diagram.labels[leaf] ?? "no known label";

  /* The label of an assignment; null where the page cannot know it. */
  function label(row) {
    if (diagram) return labelOf(Sweep.leaf(diagram, row));
    const other = row.map((value, i) => i).filter((i) => row[i] !== data.read[at][i]);
    if (!other.length) return data.said[at];
    return other.length === 1 && data.changed ? data.changed[at][other[0]][row[other[0]]] : null;
  }

  const with_ = (row, i, value) => row.map((each, j) => (j === i ? value : each));
  const phrase = (row) => concepts.map((each, i) => each.values[row[i]]).join(", ");

  function fix(i, value) {
    if (fixed.get(i) === value) fixed.delete(i);
    else {
      if (!diagram) fixed.clear(); // the page knows what single changes do, no more
      fixed.set(i, value);
    }
    draw(`${i}-${value}`);
    news.textContent = `${concepts[i].name}: ${concepts[i].values[reading()[i]]}. The label is ${label(reading()) ?? "not known"}.`;
  }

  function conceptCard(i) {
    const { values, own } = concepts[i], row = reading(), truth = data.truth?.[at][i];
    const p = data.log_p[at][i].map(Math.exp);
    const ranked = values.map((_, v) => v).sort((a, b) => p[b] - p[a]);
    const keep = new Set([...ranked.slice(0, FEW), row[i], ...(truth === undefined ? [] : [truth])]);
    const all = values.length <= MANY || unfolded.has(i);
    const lines = values.map((name, v) => v).filter((v) => all || keep.has(v)).map((v) => {
      const then = label(with_(row, i, v)), marks = [];
      if (v === data.read[at][i]) marks.push("read");
      if (v === truth) marks.push("true");
      return el("button", {
        type: "button", class: "value", id: `value-${i}-${v}`, "aria-pressed": String(fixed.get(i) === v), disabled: !diagram && !data.changed,
        onclick: () => fix(i, v), title: then === null ? null : `with ${values[v]} the label is ${then}`,
      }, el("span", { class: "name" }, values[v], marks.length ? el("span", { class: "mark" }, marks.join(", ")) : null),
      bar(p[v], probability(p[v])),
      then === null ? null : el("span", { class: then === data.label[at] ? "then same" : "then" }, `→ ${then}`));
    });
    const more = values.length > MANY ? el("button", { type: "button", class: "link", onclick: () => { if (!unfolded.delete(i)) unfolded.add(i); draw(); } }, all ? "fewer values" : `all ${values.length} values`) : null;
    return el("div", { class: "concept", role: "group", "aria-label": concepts[i].name }, own === "concept" ? null : el("h4", {}, own), lines, more);
  }

  function slotCard(slot) {
    const mine = concepts.map((_, i) => i).filter((i) => concepts[i].slot === slot);
    const near = [...new Map(mine.map((i) => [concepts[i].near, concepts[i]])).values()].map((each) => el("p", { class: "near" },
      "nearest anchors: ", data.near[at][each.near].map(([anchor, far], i, all) => {
        const own = data.anchors[each.group][anchor], name = run.groups[each.group].primitives[own.primitive];
        return el("span", { class: "anchor" }, own.png ? shown(own, "") : null, el("span", {}, name, el("span", { class: "faint" }, ` (distance ${far < 1 ? short(far) : far.toFixed(1)})${i + 1 < all.length ? "," : ""}`)));
      })));
    return el("div", { class: "slot" }, el("div", { class: "head" }, shown(data.inputs[at][slot], `input of slot ${slot + 1}`), el("h3", {}, `Slot ${slot + 1}`)), mine.map(conceptCard), near);
  }

  function labelCard(logP) {
    const leaves = Sweep.leafLogProbs(diagram, logP).map((value, leaf) => [value, leaf]).filter(([value]) => value > -Infinity);
    const top = leaves.sort((a, b) => b[0] - a[0]).slice(0, 5);
    return table("Most probable labels", [{ name: "label" }, { name: "P(label | inputs)", numeric: true }],
      top.map(([value, leaf]) => [labelOf(leaf) + (labelOf(leaf) === data.label[at] ? " (given)" : ""), shareCell(Math.exp(value), 2)]), { sort: false });
  }

  function feasible(logP) {
    const row = reading();
    const accepted = wanted === null ? data.leaves?.[at] : [wanted];
    const name = wanted === null ? data.label[at] : labelOf(wanted);
    const found = diagram ? Sweep.best(diagram, logP, accepted, BEST) : data.best[at].map(([each, weight]) => ({ row: each, weight }));
    const total = diagram ? Sweep.logProb(diagram, logP, accepted) : 0;
    const rows = found.map((each) => [
      el("span", {}, concepts.map((concept, i) => el("span", { class: each.row[i] === row[i] ? "chip" : "chip other" }, concept.values[each.row[i]]))),
      each.weight ?? Math.exp(each.score - total)]).map(([node, weight]) => [{ value: node.textContent, node }, shareCell(weight, 1)]);
    const parts = [];
    if (diagram) {
      const left = Sweep.count(diagram, fixed, accepted), all = diagram.sizes.reduce((sum, h) => sum * BigInt(h), 1n);
      parts.push(el("p", {}, `Label ${name} allows `, el("strong", { id: "feasible" }, number(left)), ` of ${number(all)} assignments${fixed.size ? `, with ${[...fixed].map(([i, v]) => `${concepts[i].name} = ${concepts[i].values[v]}`).join(" and ")} held` : ""}.`));
      const likely = Sweep.leafLogProbs(diagram, data.log_p[at]).map((value, leaf) => [value, leaf]).slice(0, diagram.labels.length).sort((a, b) => b[0] - a[0]).slice(0, 40);
      parts.push(el("p", {}, el("label", { for: "suppose" }, "Suppose the label is "), el("select", {
        id: "suppose", onchange: (event) => { wanted = event.target.value === "given" ? null : Number(event.target.value); draw("suppose"); },
      }, el("option", { value: "given" }, `${data.label[at]} (given)`), likely.map(([, leaf]) => el("option", { value: leaf, selected: wanted === leaf }, labelOf(leaf))))));
    } else parts.push(el("p", { class: "note" }, `Weights are ${data.best_said}. Without a diagram in the page they stay as they are when a concept is changed${data.changed ? ", and the label is known for one change at a time" : ", and the label of a change is not known"}.`));
    parts.push(rows.length
      ? table(`Best assignments with label ${name}; marked values differ from the reading`, [{ name: "assignment" }, { name: "weight", numeric: true }], rows, { sort: false })
      : el("p", { class: "note" }, diagram ? "No assignment with the held values has this label." : "None was found."));
    return { parts, first: found[0]?.row };
  }

  function why(first) {
    const row = reading(), now = label(row), given = data.label[at];
    const said = [`Reading ${phrase(row)} gives label ${now ?? "that the page cannot know"}.`];
    let total = 0, same = 0;
    concepts.forEach(({ values }, i) => values.forEach((_, v) => {
      const then = v === row[i] ? null : label(with_(row, i, v));
      if (then !== null) { total += 1; same += then === now; }
    }));
    if (total) said.push(`Of ${number(total)} changes of a single value, ${number(same)} keep that label.`);
    if (first && now !== given && wanted === null) {
      const repairs = concepts.map((each, i) => [each, i]).filter(([, i]) => first[i] !== row[i]);
      if (repairs.length) said.push(`The most probable way to label ${given}: ${repairs.map(([each, i]) => `${each.name}: ${each.values[first[i]]} instead of ${each.values[row[i]]}`).join(", ")}.`);
    }
    const found = [el("p", { id: "why" }, said.join(" "))];
    if (diagram) {
      const steps = Sweep.possible(diagram, row).map((leaves, layer) => {
        const concept = concepts[diagram.order[layer]], shownLabels = leaves.slice(0, 8).map(labelOf).join(", ");
        return [concept.name, concept.values[row[diagram.order[layer]]], leaves.length, shownLabels + (leaves.length > 8 ? ", …" : "")];
      });
      const drawn = table("The rule, concept by concept", [{ name: "concept" }, { name: "value" }, { name: "labels left", numeric: true }, { name: "which" }], steps, { sort: false });
      found.push(steps.length > 8 ? el("details", {}, el("summary", {}, `The rule, concept by concept (${steps.length})`), drawn) : drawn);
    }
    return found;
  }

  function draw(focus) {
    const now = label(reading()), given = data.label[at], logP = diagram ? Sweep.fix(data.log_p[at], fixed) : null;
    const { parts, first } = feasible(logP);
    detail.replaceChildren(
      el("div", { class: "headline" }, el("h3", {}, `Example ${data.id[at]}`),
        el("p", { class: now === given ? "badge good" : "badge bad", id: "label-now" }, fixed.size ? "changed: " : "", `label ${now ?? "not known"}`, now === given ? "" : `, given ${given}`),
        fixed.size ? el("button", { type: "button", id: "reset", onclick: () => { fixed.clear(); draw(); list.focus(); } }, "Undo changes") : null),
      el("div", { class: "slots" }, Array.from({ length: slots }, (_, slot) => slotCard(slot))),
      el("div", { class: "columns" },
        el("div", {}, el("h3", {}, "Why the label follows"), why(first), diagram ? labelCard(logP) : null),
        el("div", {}, el("h3", {}, "What the label allows"), parts)));
    if (focus) document.getElementById(focus === "suppose" ? focus : `value-${focus}`)?.focus({ preventScroll: true });
  }

  const what = diagram || data.changed ? "Press a value to hold it, and see the label and the feasible assignments change." : "The rule has no diagram here, so values cannot be changed.";
  const root = section("explorer", "Explorer",
    el("p", {}, `${data.how[0].toUpperCase()}${data.how.slice(1)}. ${what} An arrow tells the label that a value would give.`),
    el("p", {}, el("label", { for: "order" }, "Order "), order), news, el("div", { class: "explorer" }, list, detail));
  drawList();
  at = sorted()[0];
  drawList();
  draw();
  return { root, choose };
}
