"use strict";
/* Charts, each one SVG that scales with its column. Colours come from the style sheet, so that both themes have them. */
const COLOURS = 10;

function ticks(low, high, count = 4) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(at);
  return found;
}

/* A frame with axes: where data x and y lie in it, and the elements that draw it. */
function frame({ width, height, x, y, xName, yName, xTicks, yTicks, label, format = short }) {
  const left = 46, right = 12, top = 12, bottom = 36;
  const atX = (value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - left - right);
  const atY = (value) => height - bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  for (const tick of yTicks) {
    root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: atY(tick), y2: atY(tick) }));
    root.append(svg("text", { x: left - 6, y: atY(tick) + 4, "text-anchor": "end" }, format(tick)));
  }
  for (const tick of xTicks) {
    root.append(svg("text", { x: atX(tick), y: height - bottom + 16, "text-anchor": "middle" }, short(tick)));
  }
  root.append(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", class: "axis" }, xName));
  if (yName) root.append(svg("text", { x: 4, y: 9, class: "axis" }, yName));
  return { root, atX, atY };
}

/* Lines over epochs: series are {name, values}, null where there is none; `band` fills between the first two. */
function lineChart({ series, label, share = false, band = null }) {
  const all = series.flatMap((each) => each.values).filter((value) => value !== null);
  let [low, high] = [Math.min(...all), Math.max(...all)];
  if (!share) low = Math.min(0, low);
  const room = (high - low) * 0.08 || 0.05;
  [low, high] = share ? [Math.max(0, low - room), Math.min(1, high + room)] : [low, high + room];
  const epochs = series[0].values.length;
  const every = Math.ceil(epochs / 8), xTicks = [];
  for (let epoch = 1; epoch <= epochs; epoch += every) xTicks.push(epoch);
  const { root, atX, atY } = frame({
    width: 460, height: 250, x: [epochs > 1 ? 1 : 0.5, epochs > 1 ? epochs : 1.5], y: [low, high], xName: "epoch",
    xTicks, yTicks: ticks(low, high), label, format: share ? (value) => `${short(100 * value)} %` : short,
  });
  if (band && epochs > 1) {
    const [a, b] = band.map((i) => series[i].values);
    const both = a.map((_, i) => i).filter((i) => a[i] !== null && b[i] !== null);
    const there = both.map((i) => `${atX(i + 1)},${atY(a[i])}`);
    const ahead = both.length && a[both[both.length - 1]] > b[both[both.length - 1]];
    root.append(svg("polygon", { class: ahead ? "band ahead" : "band", points: [...there, ...both.reverse().map((i) => `${atX(i + 1)},${atY(b[i])}`)].join(" ") }));
  }
  series.forEach(({ name, values }, s) => {
    let path = "";
    values.forEach((value, i) => {
      if (value === null) return;
      path += `${path === "" || values[i - 1] === null ? "M" : "L"}${atX(i + 1).toFixed(1)} ${atY(value).toFixed(1)}`;
    });
    root.append(svg("path", { d: path, class: `line colour${s % COLOURS} dash${s % 3}` }));
    values.forEach((value, i) => {
      if (value === null || epochs > 40) return;
      root.append(svg("circle", { cx: atX(i + 1), cy: atY(value), r: 3, class: `dot colour${s % COLOURS}` },
        svg("title", {}, `${name}, epoch ${i + 1}: ${share ? percent(value) : short(value)}`)));
    });
  });
  return el("div", {}, legend(series.map((each, s) => [each.name, s])), root);
}

function legend(names) {
  return el("ul", { class: "legend" }, names.map(([name, s]) => el("li", {},
    svg("svg", { viewBox: "0 0 24 10", "aria-hidden": "true" }, svg("path", { d: "M0 5H24", class: `line colour${s % COLOURS} dash${s % 3}` })), name)));
}

/* How often what is believed with some confidence is right. Bins are [how many, confidence, share right]. */
function calibrationChart(kinds) {
  const tenths = [0, 0.2, 0.4, 0.6, 0.8, 1];
  const { root, atX, atY } = frame({
    width: 460, height: 300, x: [0, 1], y: [0, 1], xName: "confidence", xTicks: tenths, yTicks: tenths,
    label: "Calibration: the share that is right, by confidence", format: (value) => `${short(100 * value)} %`,
  });
  root.append(svg("line", { class: "honest", x1: atX(0), y1: atY(0), x2: atX(1), y2: atY(1) }));
  Object.entries(kinds).forEach(([name, bins], s) => {
    const total = bins.reduce((sum, bin) => sum + bin[0], 0);
    root.append(svg("path", { class: `line thin colour${s} dash${s % 3}`, d: bins.map((bin, i) => `${i ? "L" : "M"}${atX(bin[1])} ${atY(bin[2])}`).join("") }));
    for (const [count, sure, right] of bins) {
      root.append(svg("circle", { cx: atX(sure), cy: atY(right), r: 2.5 + 9 * Math.sqrt(count / total), class: `bubble colour${s}` },
        svg("title", {}, `${number(count)} ${name}: confidence ${percent(sure)}, right ${percent(right)}`)));
    }
  });
  return el("div", {}, legend(Object.keys(kinds).map((name, s) => [name, s])), root);
}

/* A matrix of counts, shaded by the share of each row. */
function confusionMatrix(values, counts, label) {
  const h = values.length, cell = h <= 12 ? 34 : h <= 24 ? 22 : 12;
  const letters = Math.min(16, Math.max(...values.map((name) => name.length)));
  const margin = 22 + letters * 7, size = margin + h * cell + 4;
  const root = svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "chart matrix", role: "img", "aria-label": label, css: { "max-width": `${size * 1.15}px` } });
  const cut = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);
  counts.forEach((row, i) => {
    const total = row.reduce((sum, each) => sum + each, 0);
    row.forEach((count, j) => {
      const share = total ? count / total : 0;
      const [x, y] = [margin + j * cell, margin + i * cell];
      root.append(svg("rect", { x, y, width: cell - 1, height: cell - 1, class: i === j ? "hit" : "miss", css: { "--share": share } },
        svg("title", {}, `${values[i]} read as ${values[j]}: ${number(count)} of ${number(total)} (${percent(share)})`)));
      if (cell === 34 && count) {
        root.append(svg("text", { x: x + cell / 2, y: y + cell / 2 + 4, "text-anchor": "middle", class: share > 0.55 ? "inside" : "outside" },
          share >= 0.995 ? "100" : share >= 0.005 ? String(Math.round(100 * share)) : "<1"));
      }
    });
    if (cell < 22) return;
    root.append(svg("text", { x: margin - 6, y: margin + i * cell + cell / 2 + 4, "text-anchor": "end" }, cut(values[i])));
    const [x, y] = [margin + i * cell + cell / 2, margin - 6];
    root.append(letters <= 3
      ? svg("text", { x, y, "text-anchor": "middle" }, values[i])
      : svg("text", { x, y, transform: `rotate(-90 ${x} ${y})`, dy: 4 }, cut(values[i])));
  });
  root.append(svg("text", { x: 2, y: 11, class: "axis" }, "true ↓  read →"));
  return root;
}

/* Test inputs as dots by primitive, anchors as squares, and a star for every primitive; `open` shows an example. */
function embeddingMap(facts, names, label, open) {
  const width = 520, height = 440, edge = 22;
  const at = ([x, y]) => [edge + (x / 1000) * (width - 2 * edge), edge + (1 - y / 1000) * (height - 2 * edge)];
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart map", role: "img", "aria-label": label });
  const name = (primitive) => (primitive < 0 ? "no primitive" : names[primitive]);
  for (const [x, y, truth, read, example] of facts.points) {
    const [cx, cy] = at([x, y]), shownAs = truth < 0 ? read : truth;
    const said = truth < 0 ? `read as ${name(read)}` : truth === read ? name(truth) : `${name(truth)}, read as ${name(read)}`;
    root.append(svg("circle", {
      cx, cy, r: truth >= 0 && truth !== read ? 5 : 3.4, onclick: example >= 0 ? () => open(example) : null,
      class: `point fill${((shownAs % COLOURS) + COLOURS) % COLOURS}${truth >= 0 && truth !== read ? " wrong" : ""}${example >= 0 ? " link" : ""}`,
    }, svg("title", {}, example >= 0 ? `${said}; click to explore` : said)));
  }
  for (const [x, y, primitive] of facts.anchors) {
    const [cx, cy] = at([x, y]);
    root.append(svg("rect", { x: cx - 5, y: cy - 5, width: 10, height: 10, class: `anchor fill${primitive % COLOURS}` },
      svg("title", {}, `anchor: ${name(primitive)}`)));
  }
  const stars = facts.stars.map((spot, primitive) => [primitive, spot]).filter(([, spot]) => spot);
  for (const [primitive, spot] of stars) {
    const [cx, cy] = at(spot);
    const star = Array.from({ length: 10 }, (_, i) => {
      const [r, turn] = [i % 2 ? 4.2 : 10, (i * Math.PI) / 5 - Math.PI / 2];
      return `${(cx + r * Math.cos(turn)).toFixed(1)},${(cy + r * Math.sin(turn)).toFixed(1)}`;
    });
    root.append(svg("polygon", { points: star.join(" "), class: `star fill${primitive % COLOURS}` }, svg("title", {}, facts.stars_are_prototypes ? `prototype: ${name(primitive)}` : `middle of what is read as ${name(primitive)}`)));
  }
  // The middle of what is read may lie between others, so a name stands at its first anchor where there is one.
  const named = new Map([...stars, ...[...facts.anchors].reverse().map(([x, y, primitive]) => [primitive, [x, y]])]);
  if (named.size <= 40) {
    for (const [primitive, spot] of named) {
      const [x, y] = at(spot), right = x > width - 90;
      root.append(svg("text", { x: x + (right ? -12 : 12), y: y + 4, "text-anchor": right ? "end" : "start", class: "name" }, name(primitive)));
    }
  }
  return root;
}

/* Nodes of each layer of a diagram. */
function layerBars(widths, order, label) {
  const width = 460, height = 150, step = (width - 20) / widths.length, most = Math.max(...widths);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  widths.forEach((nodes, i) => {
    const tall = Math.max(2, (nodes / most) * (height - 50));
    root.append(svg("rect", { x: 10 + i * step, y: height - 22 - tall, width: Math.max(1, step - 2), height: tall, class: "layer" },
      svg("title", {}, `layer ${i + 1}: ${number(nodes)} nodes, reads concept ${order[i] + 1}`)));
    if (step >= 22) {
      root.append(svg("text", { x: 10 + (i + 0.5) * step, y: height - 26 - tall, "text-anchor": "middle" }, number(nodes)));
      root.append(svg("text", { x: 10 + (i + 0.5) * step, y: height - 7, "text-anchor": "middle" }, String(order[i] + 1)));
    }
  });
  return root;
}
