"use strict";
/* Elements of the page. What comes from data is written as text, never as HTML. */
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const signed = (value, digits = 1) => value.toFixed(digits).replace("-", "−");
/* What is not nothing is never shown as 0. */
const percent = (share, digits = 1) => (share > 0 && 100 * share < 0.5 * 10 ** -digits
  ? `<${(10 ** -digits).toFixed(digits)}\u00a0%` : `${signed(100 * share, digits)}\u00a0%`);
const probability = (p) => (p >= 0.9995 ? ">0.999" : p < 0.0005 ? "<0.001" : p.toFixed(3));
const words = (name) => name.replaceAll("_", " ").replaceAll("/", ", ");
const number = (value) => value.toLocaleString("en");

function short(value) {
  if (value === 0) return "0";
  return Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
}

/* A table whose columns sort: heads are {name, numeric}; a cell is a text, a number, or {value, node}. */
function table(caption, heads, rows, { sort = true } = {}) {
  const value = (cell) => (cell !== null && typeof cell === "object" ? cell.value : cell);
  const body = el("tbody", {});
  const draw = (ordered) => body.replaceChildren(...ordered.map((row) => el("tr", {}, row.map((cell, i) => el(
    i === 0 ? "th" : "td",
    { class: heads[i].numeric ? "number" : null, scope: i === 0 ? "row" : null },
    cell !== null && typeof cell === "object" ? cell.node : cell === null ? "" : String(cell),
  )))));
  const columns = heads.map(({ name, numeric }, i) => {
    if (!sort || rows.length < 2) return el("th", { scope: "col", class: numeric ? "number" : null }, name);
    const head = el("th", { scope: "col", class: numeric ? "number" : null });
    head.append(el("button", {
      type: "button", class: "sort", onclick: () => {
        const down = head.getAttribute("aria-sort") === (numeric ? "descending" : "ascending") ? !numeric : numeric;
        columns.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        draw([...rows].sort((a, b) => {
          const [x, y] = [value(a[i]), value(b[i])];
          if (x === null || y === null) return (x === null) - (y === null);
          return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
        }));
      },
    }, name));
    return head;
  });
  draw(rows);
  const wide = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, columns)), body));
  new ResizeObserver(() => wide.classList.toggle("more", wide.scrollWidth > wide.clientWidth)).observe(wide);
  return wide;
}

/* A small bar from 0 to 1 behind its number. */
const bar = (share, text) => el("span", { class: "bar", css: { "--share": Math.max(0, Math.min(1, share)) } }, text);
const shareCell = (share, digits) => (share === null || share === undefined
  ? null : { value: share, node: bar(share, percent(share, digits)) });

/* An input as the Python side prepared it. */
function shown(input, name) {
  if (input.png) return el("img", { src: `data:image/png;base64,${input.png}`, alt: name, class: "input" });
  if (!input.bars) return el("span", { class: "input text" }, input.text);
  const low = Math.min(0, ...input.bars), high = Math.max(0, ...input.bars), span = high - low || 1;
  const step = 100 / input.bars.length;
  return svg("svg", { viewBox: "0 0 100 40", role: "img", "aria-label": `${name}: ${input.bars.join(", ")}`, class: "input strip", preserveAspectRatio: "none" },
    input.bars.map((each, i) => svg("rect", {
      x: i * step, width: step * 0.85, y: (40 * (high - Math.max(each, 0))) / span,
      height: Math.max(0.5, (40 * Math.abs(each)) / span),
    })));
}

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), children);
}
